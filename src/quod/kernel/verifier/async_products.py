"""Verification of asynchronous products: the registers of their accumulators.

The results of `mma_tiles` are in the registers of its sums, which nothing may access before
`mma_wait`. So a sum is used exactly once: by the next product, by a wait, or in the next round of a
loop as the carried value that it replaces. The operands of products and waits have registers of
their own, set in the same round. Products see registers as of the last `mma_begin` (PTX ISA 9.0,
"wgmma.fence").
"""

from __future__ import annotations

from collections import Counter

from quod.kernel.errors import VerificationFailure
from quod.kernel.ir.nodes import Block, Function, Kernel, Op, walk
from quod.kernel.ir.value import Value
from quod.kernel.ops.tile import SHORT


def check_sums(kernel: Kernel) -> None:
    """Raise VerificationFailure, naming the Python line, for an illegal use of a sum."""
    blocks = [kernel.block, *(function.block for function in kernel.functions)]
    ops = [op for block in blocks for op in walk(block)]
    products = [op for op in ops if _begins(op)]
    if not products:
        return
    uses = Counter(operand for op in ops for operand in op.operands)
    for op in ops:
        for value in _taken(op):
            if uses[value] > 1:
                raise VerificationFailure(
                    "a sum of products is used once more; its register has the next sum",
                    op.location,
                )
    shapes = _under_way(products, ops)
    going = set(shapes)
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
    _check_shapes(products, shapes)
    for function in kernel.functions:
        _check_returned(function, going)
    for block in blocks:
        _check_registers(block, {*kernel.block.arguments})
        _check_waits(block, uncommitted=False)
        _check_registers_fenced(block, {*block.arguments}, is_open=False)


def _taken(op: Op) -> list[Value]:
    """The operands whose registers the results take over; constants get a new register."""
    tied = op.definition.tied
    operands = () if tied is None else op.operands[tied:]
    return [value for value in operands if value.constant is None]


def _check_returned(function: Function, going: set[Value]) -> None:
    """Raise VerificationFailure for a function that returns sums of pending products."""
    if going.intersection(function.block.yielded):
        raise VerificationFailure(
            f"the function {function.name} gives sums of products that are under way; wait for "
            "them first",
            function.block.ops[-1].location,
        )


def _check_registers(block: Block, round_values: set[Value]) -> None:
    """Raise VerificationFailure for a sum in a register that is not private to this round.

    A register from outside a loop holds what the previous round left in it, and a function's
    argument is in a register of its caller. `round_values` are the values of this round.
    """
    for op in block.ops:
        for value in _taken(op):
            if value not in round_values:
                raise VerificationFailure(
                    f"{op.name} takes sums of outside the loop or function, whose registers it "
                    "would change; let the loop carry them, or add them afterwards",
                    op.location,
                )
            origin = value.op
            if origin is not None and _shares_register(origin):
                raise VerificationFailure(
                    f"{op.name} takes a sum that {origin.name} gives, which may be in the register "
                    "of another value; add it afterwards",
                    op.location,
                )
        round_values.update(op.results)
        of_round: set[Value] = set()
        for region in op.regions:
            if not op.definition.repeats:
                _check_registers(region, {*round_values, *region.arguments})
                continue
            # The part before a loop's check runs once more; it must not change the loop's results.
            if region is op.regions[-1]:
                of_round.update(op.carried)
            _check_registers(region, of_round)


def _shares_register(op: Op) -> bool:
    """Return whether an op's results may share registers with its operands or yielded values."""
    if op.name == "if":
        return op.operands[0].constant is not None
    if op.name == "call":
        return True
    if not op.definition.renames:
        return False
    source, target = op.operands[0].type, op.results[0].type
    # Integers of one width are in registers of one kind.
    return source is target or (source.is_integer and target.is_integer)


def _check_waits(block: Block, *, uncommitted: bool) -> bool:
    """Raise VerificationFailure for a wait that takes sums of groups it leaves pending.

    uncommitted: whether there may be uncommitted products before the region.
    Returns whether there may be some after it.
    """
    committed: dict[Value, int] = {}
    groups = 0
    # A sum of another region was begun before all groups of this one, or is in the first of them.
    before = 0 if uncommitted else -1
    for op in block.ops:
        if op.name == "mma_commit":
            groups, uncommitted = groups + 1, False
        if _begins(op):
            committed.update(dict.fromkeys(op.results, groups))
            uncommitted = True
        if op.definition.waits:
            latest = max((committed.get(value, before) for value in op.operands), default=-1)
            if latest >= groups - int(op.attributes["pending"]):
                raise VerificationFailure(
                    "mma_wait takes sums of a group that it does not wait for", op.location
                )
        if op.regions:
            uncommitted = _check_regions(op, uncommitted=uncommitted)
            if uncommitted:
                committed.update(dict.fromkeys(op.results, groups))
    return uncommitted


def _check_regions(op: Op, *, uncommitted: bool) -> bool:
    """Apply `_check_waits` to the regions of an op, to those of a loop twice."""
    if not op.definition.repeats:
        ends = [_check_waits(region, uncommitted=uncommitted) for region in op.regions]
        return True in ends
    for _ in range(2):  # a round may begin with uncommitted products of the previous one
        for region in op.regions:
            uncommitted |= _check_waits(region, uncommitted=uncommitted)
    return uncommitted


def _check_shapes(products: list[Op], shapes: dict[Value, int]) -> None:
    """Raise VerificationFailure if a product takes a pending sum of another shape."""
    for op in products:
        if any(shapes.get(value, _shape(op)) != _shape(op) for value in _taken(op)):
            raise VerificationFailure(
                f"{op.name} takes a sum of products of another shape that are under way; "
                "k.mma_wait gives it",
                op.location,
            )


def _shape(op: Op) -> int:
    """The element width in bits, which distinguishes shapes with equal numbers of columns."""
    element = str(op.attributes["element"])
    return 32 if element == "f32" else 8 if element in SHORT else 16


def _check_registers_fenced(block: Block, later: set[Value], *, is_open: bool) -> None:
    """Raise VerificationFailure for a product that takes registers set since the last `mma_begin`.

    `later` holds the values set since then and is updated; results of products are not in it, as
    chained products may use their registers directly.
    """
    for op in block.ops:
        if op.name == "mma_begin":
            is_open = True
            later.clear()
        elif _begins(op):
            words = op.operands[:4] if op.name == "mma_rows" else ()
            if not is_open or later.intersection([*words, *_taken(op)]):
                raise VerificationFailure(
                    f"{op.name} takes registers that were set since the last k.mma_begin(); it "
                    "comes between",
                    op.location,
                )
        elif op.definition.repeats:
            # Carried values are moved to the registers of the next round, so they count as set.
            inner = {*later, *op.carried}
            for region in op.regions:
                _check_registers_fenced(region, inner, is_open=is_open)
            later.update(op.results)
        else:
            for region in op.regions:
                _check_registers_fenced(region, {*later}, is_open=is_open)
            later.update(op.results)


def _begins(op: Op) -> bool:
    """Return whether an op starts products."""
    return op.definition.tied is not None and not op.definition.waits


def _under_way(products: list[Op], ops: list[Op]) -> dict[Value, int]:
    """Map the values of pending products, including those that loops carry, to their shapes."""
    going = {value: _shape(op) for op in products for value in op.results}
    before = 0
    while len(going) > before:
        before = len(going)
        for op in ops:
            if op.definition.repeats:
                last = op.regions[-1].yielded
                for yielded, carried, result in zip(last, op.carried, op.results, strict=True):
                    shape = going.get(yielded, going.get(carried))
                    if shape is not None:
                        going |= {carried: shape, result: shape}
    return going


def _check_yielded(op: Op, yielded: tuple[Value, ...], going: set[Value]) -> None:
    """Raise VerificationFailure for a pending sum yielded to another register than its own."""
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
    """The value whose register a sum occupies, before the chain of products on it."""
    op = value.op
    while op is not None and _begins(op):
        first = op.definition.tied or 0
        place = next(n for n, result in enumerate(op.results) if result is value)
        value = op.operands[first + place]
        op = value.op
    return value
