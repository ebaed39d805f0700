"""WGSL rules of instance indices, barriers and subgroup ops."""

from __future__ import annotations

from quod.codegen.wgsl.body import LEVELS, BodyEmitter, Expression, Rule, rule_by
from quod.codegen.wgsl.rules import function
from quod.kernel.ir.nodes import Op

_ATOM = LEVELS["atom"]


def _text(text: str) -> Expression:
    return lambda body, op: (text, _ATOM)


def _id_rule(text: str) -> Expression:
    """Make a rule for an id. Only the entry point has WGSL's builtins; other functions take ids as
    parameters.
    """

    def rule(body: BodyEmitter, op: Op) -> tuple[str, int]:
        body.uses_ids = True
        return text, _ATOM

    return rule


def _barrier(body: BodyEmitter, op: Op) -> None:
    if body.module.exchanges_storage:
        body.add("storageBarrier();")
    body.add("workgroupBarrier();")


def _uniform(body: BodyEmitter, op: Op) -> None:
    (value,) = op.operands
    body.uses_ids = True
    body.add(f"if (local_id == 0u) {{ agreed = {body.text_of(value)}; }}")
    body.names[op.results[0]] = body.let("workgroupUniformLoad(&agreed)")


def _shuffle(body: BodyEmitter, op: Op) -> tuple[str, int]:
    value, lane = op.operands
    size = body.module.machine.subgroup_size
    return f"subgroupShuffle({body.text_of(value)}, {body.text_of(lane, _ATOM)} % {size}u)", _ATOM


def _ballot(body: BodyEmitter, op: Op) -> tuple[str, int]:
    return f"subgroupBallot({body.text_of(op.operands[0])}).x", _ATOM


ID_RULES: dict[str, Expression] = {
    "local_id": _id_rule("local_id"),
    "workgroup_id": _id_rule("group_id"),
    # The host writes it there: a dispatch may have more workgroups than the launch.
    "num_workgroups": _text("parameters.words[0].x"),
}
"""The rules of ids and of the number of workgroups."""

_EXPRESSIONS: dict[str, Expression] = {
    **ID_RULES,
    "shuffle": _shuffle,
    "ballot": _ballot,
    "subgroup_sum": function("subgroupAdd"),
    "subgroup_min": function("subgroupMin"),
    "subgroup_max": function("subgroupMax"),
}

RULES: dict[str, Rule] = {
    "barrier": _barrier,
    "uniform": _uniform,
    **{name: rule_by(expression) for name, expression in _EXPRESSIONS.items()},
}
