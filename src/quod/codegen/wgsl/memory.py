"""WGSL rules of the ops that access memory; lowered memory consists of arrays of words."""

from __future__ import annotations

from quod.codegen.wgsl.body import LEVELS, BodyEmitter, Rule
from quod.kernel.ir.nodes import Op
from quod.kernel.ir.value import Value

_LAST_INDEX = 0xFFFF_FFFE
"""The largest constant index that naga accepts; it is beyond any binding."""


def _declared(body: BodyEmitter, op: Op) -> None:
    """Emit nothing: arrays are declared at module scope."""


def _load(body: BodyEmitter, op: Op) -> None:
    array, index = op.operands
    atomic = array in body.module.atomic
    for index_text, result in zip(
        _index_texts(body, index, len(op.results)), op.results, strict=True
    ):
        element = body.index(array, index_text)
        body.names[result] = body.let(f"atomicLoad(&{element})" if atomic else element)


def _index_texts(body: BodyEmitter, index: Value, count: int) -> list[str]:
    """Return the texts of `count` consecutive indices."""
    constant = index.constant
    if constant is not None:
        # Unreachable code may have any constant index, of which naga rejects the largest.
        return [f"{min(int(constant) + i, _LAST_INDEX)}u" for i in range(count)]
    if count > 1:
        # Bind the index to a name, so that its expression is not repeated.
        body.bind(index)
    text = body.text_of(index, LEVELS["sum"])
    return [text] + [f"{text} + {i}u" for i in range(1, count)]


def _store(body: BodyEmitter, op: Op) -> None:
    array, index, *values = op.operands
    atomic = array in body.module.atomic
    for index_text, value in zip(_index_texts(body, index, len(values)), values, strict=True):
        element = body.index(array, index_text)
        text = body.text_of(value)
        body.add(f"atomicStore(&{element}, {text});" if atomic else f"{element} = {text};")


def _atomic(function: str) -> Rule:
    """Make a rule of one of WGSL's atomic functions."""

    def rule(body: BodyEmitter, op: Op) -> None:
        array, index, value = op.operands
        element = body.index(array, _index_texts(body, index, 1)[0])
        argument = body.text_of(value)
        body.names[op.results[0]] = body.let(f"{function}(&{element}, {argument})")

    return rule


def _compare_exchange(body: BodyEmitter, op: Op) -> None:
    """Emit a compare-exchange, retried as WGSL's weak one may fail spuriously."""
    array, index, *values = op.operands
    element = body.index(array, _index_texts(body, index, 1)[0])
    expected, value = (body.text_of(operand) for operand in values)
    name = body.fresh()
    body.add(f"var {name} = atomicLoad(&{element});")
    body.add("loop {")
    body.add(f"  if ({name} != {expected}) {{ break; }}")
    exchange_result = body.fresh()
    body.add(
        f"  let {exchange_result} = atomicCompareExchangeWeak(&{element}, {expected}, {value});"
    )
    body.add(f"  if ({exchange_result}.exchanged) {{ break; }}")
    body.add(f"  {name} = {exchange_result}.old_value;")
    body.add("}")
    body.names[op.results[0]] = name


RULES: dict[str, Rule] = {
    "shared": _declared,
    "private": _declared,
    "table": _declared,
    "load": _load,
    "store": _store,
    "atomic_add": _atomic("atomicAdd"),
    "atomic_max": _atomic("atomicMax"),
    "atomic_min": _atomic("atomicMin"),
    "atomic_or": _atomic("atomicOr"),
    "atomic_exchange": _atomic("atomicExchange"),
    "atomic_compare_exchange": _compare_exchange,
}
