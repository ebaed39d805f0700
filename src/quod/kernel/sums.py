"""The rule of sums under way: products that go on while instances do something else.

Results of `mma_tiles` are in the registers of its sums, and nothing may touch these before
`mma_wait`. So a sum is used once, by the next product, by a wait, or by the next round of a loop as
the value that it took the place of.
"""

from __future__ import annotations

from collections import Counter

from quod.kernel.errors import VerificationFailure
from quod.kernel.ir import Block, Kernel, Op, walk
from quod.kernel.value import Value


def check_sums(kernel: Kernel) -> None:
    """VerificationFailure, naming the Python line, for another use of a sum."""
    blocks = [kernel.block, *(function.block for function in kernel.functions)]
    ops = [op for block in blocks for op in walk(block)]
    products = [op for op in ops if _begins(op)]
    if not products:
        return
    uses = Counter(operand for op in ops for operand in op.operands)
    for op in products:
        for value in op.operands[op.definition.tied :]:
            if value.constant is None and uses[value] > 1:
                raise VerificationFailure(
                    "a sum of products is used once more; its register has the next sum",
                    op.location,
                )
    going = _under_way(products, ops)
    for op in ops:
        first = 0 if op.name == "yield" else op.definition.tied
        taken = set() if first is None else {*op.operands[first:]}
        if not {*op.operands} & going <= taken:
            raise VerificationFailure(
                f"{op.name} takes a sum of products that are under way; k.mma_wait gives it",
                op.location,
            )
        for region in op.regions:
            _check_yielded(op, region.yielded, going)
    for block in blocks:
        _check_waits(block)


def _check_waits(block: Block) -> None:
    """A wait gives sums of groups that it waits for: of those that it leaves, it takes none."""
    committed: dict[Value, int] = {}
    groups = 0
    for op in block.ops:
        groups += op.name == "mma_commit"
        if _begins(op):
            committed.update(dict.fromkeys(op.results, groups))
        if op.definition.waits:
            # A sum of another region was begun before all groups of this one.
            latest = max((committed.get(value, -1) for value in op.operands), default=-1)
            if latest >= groups - int(op.attributes["pending"]):
                raise VerificationFailure(
                    "mma_wait takes sums of a group that it does not wait for", op.location
                )
        for region in op.regions:
            _check_waits(region)


def _begins(op: Op) -> bool:
    """Whether it begins products."""
    return op.definition.tied is not None and not op.definition.waits


def _under_way(products: list[Op], ops: list[Op]) -> set[Value]:
    """Results of products, and what loops carry of them."""
    going = {value for op in products for value in op.results}
    before = 0
    while len(going) > before:
        before = len(going)
        for op in ops:
            if op.definition.repeats:
                last = op.regions[-1].yielded
                for values in zip(last, op.carried, op.results, strict=True):
                    if going.intersection(values[:2]):
                        going.update(values[1:])
    return going


def _check_yielded(op: Op, yielded: tuple[Value, ...], going: set[Value]) -> None:
    """A sum under way stays in its register, of which the next round must know."""
    if not going.intersection(yielded):
        return
    carried = op.carried if op.definition.repeats else (None,) * len(yielded)
    for value, argument in zip(yielded, carried, strict=True):
        if value in going and _origin(value) is not argument:
            raise VerificationFailure(
                f"sums of products that are under way change places in the {op.name}; wait for "
                "them first",
                op.location,
            )


def _origin(value: Value) -> Value:
    """Whose register a sum is in."""
    op = value.op
    while op is not None and _begins(op):
        first = op.definition.tied or 0
        place = next(n for n, result in enumerate(op.results) if result is value)
        value = op.operands[first + place]
        op = value.op
    return value
