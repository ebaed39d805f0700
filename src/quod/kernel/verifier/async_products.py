"""Check that asynchronous matrix products (wgmma) use the registers of accumulators legally.

The results of `mma_tiles` are in the registers of its accumulators, which nothing may access before
`mma_wait`. So an accumulator is used at most once: by the next product, by a wait, or by the yield
of a loop for the carried value from which it was computed. The operands of products and waits have
registers of their own, set in the same iteration. Products see registers as of the last
`mma_begin` (PTX ISA 9.0, "wgmma.fence").
"""

from __future__ import annotations

from collections import Counter

from quod.kernel.errors import VerificationFailure
from quod.kernel.ir.nodes import Block, Function, Kernel, Op, walk
from quod.kernel.ir.value import Value
from quod.kernel.ops.definition import OpDefinition
from quod.kernel.ops.tile import SHORT


def check_sums(kernel: Kernel) -> None:
    """Raise VerificationFailure, naming the Python line, for an illegal use of an accumulator."""
    blocks = [kernel.block, *(function.block for function in kernel.functions)]
    ops = [op for block in blocks for op in walk(block)]
    products = [op for op in ops if is_product(op.definition)]
    uses = Counter(operand for op in ops for operand in op.operands)
    for op in ops:
        for value in _accumulator_operands(op):
            if uses[value] > 1:
                raise VerificationFailure(
                    "a sum of products is used once more; its register has the next sum",
                    op.location,
                )
    widths = _pending_widths(products, ops)
    pending = set(widths)
    for op in ops:
        first_tied = 0 if op.name == "yield" else op.definition.tied
        allowed = set() if first_tied is None else {*op.operands[first_tied:]}
        if not {*op.operands} & pending <= allowed:
            raise VerificationFailure(
                f"{op.name} takes a sum of products that are under way; k.mma_wait gives it",
                op.location,
            )
        for region in op.regions:
            _check_yielded(op, region.yielded, pending)
    _check_widths(products, widths)
    for function in kernel.functions:
        _check_returned(function, pending)
    for block in blocks:
        _check_registers(block, {*kernel.block.arguments})
        _check_waits(block, uncommitted=False)
        _check_registers_fenced(block, {*block.arguments}, has_begun=False)


def _accumulator_operands(op: Op) -> list[Value]:
    """Return the operands whose registers the results take over; constants get a new register."""
    first_tied = op.definition.tied
    operands = () if first_tied is None else op.operands[first_tied:]
    return [value for value in operands if value.constant is None]


def _check_returned(function: Function, pending: set[Value]) -> None:
    """Raise VerificationFailure for a function that returns accumulators of pending products."""
    if pending.intersection(function.block.yielded):
        raise VerificationFailure(
            f"the function {function.name} gives sums of products that are under way; wait for "
            "them first",
            function.block.ops[-1].location,
        )


def _check_registers(block: Block, iteration_values: set[Value]) -> None:
    """Raise VerificationFailure for an accumulator in a register not private to this iteration.

    From the second iteration on, a register from outside a loop would hold the loop's own result; a
    function's argument is in a register of its caller.

    iteration_values: the values defined so far in this iteration or function; updated.
    """
    for op in block.ops:
        for value in _accumulator_operands(op):
            if value not in iteration_values:
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
        iteration_values.update(op.results)
        loop_values: set[Value] = set()
        for region in op.regions:
            if not op.definition.repeats:
                _check_registers(region, {*iteration_values, *region.arguments})
                continue
            # A loop's condition region runs once more than its body, so it must not overwrite the
            # carried accumulators.
            if region is op.regions[-1]:
                loop_values.update(op.carried)
            _check_registers(region, loop_values)


def _shares_register(op: Op) -> bool:
    """Return whether an op's results may share registers with its operands or yielded values.

    An `if` with a constant condition is replaced by its branch.
    """
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
    """Raise VerificationFailure for a wait that takes accumulators of groups it leaves pending.

    uncommitted: whether there may be uncommitted products before the block.
    Returns whether there may be uncommitted products after it.
    """
    group_by_sum: dict[Value, int] = {}
    group_count = 0
    # Products from before the block are in its first group if they may be uncommitted, and else in
    # an earlier one.
    outside_group = 0 if uncommitted else -1
    for op in block.ops:
        if op.name == "mma_commit":
            group_count, uncommitted = group_count + 1, False
        if is_product(op.definition):
            group_by_sum.update(dict.fromkeys(op.results, group_count))
            uncommitted = True
        if op.definition.waits:
            latest = max(
                (group_by_sum.get(value, outside_group) for value in op.operands), default=-1
            )
            if latest >= group_count - int(op.attributes["pending"]):
                raise VerificationFailure(
                    "mma_wait takes sums of a group that it does not wait for", op.location
                )
        if op.regions:
            uncommitted = _check_regions(op, uncommitted=uncommitted)
            if uncommitted:
                group_by_sum.update(dict.fromkeys(op.results, group_count))
    return uncommitted


def _check_regions(op: Op, *, uncommitted: bool) -> bool:
    """Apply `_check_waits` to the regions of an op, twice if it is a loop."""
    if not op.definition.repeats:
        uncommitted_after = [_check_waits(region, uncommitted=uncommitted) for region in op.regions]
        return True in uncommitted_after
    for _ in range(2):  # an iteration may begin with uncommitted products of the previous one
        for region in op.regions:
            uncommitted |= _check_waits(region, uncommitted=uncommitted)
    return uncommitted


def _check_widths(products: list[Op], widths: dict[Value, int]) -> None:
    """Raise VerificationFailure if a product takes a pending accumulator of another width."""
    for op in products:
        if any(
            widths.get(value, _accumulator_bits(op)) != _accumulator_bits(op)
            for value in _accumulator_operands(op)
        ):
            raise VerificationFailure(
                f"{op.name} takes a sum of products of another shape that are under way; "
                "k.mma_wait gives it",
                op.location,
            )


def _accumulator_bits(op: Op) -> int:
    """Return a product's element width in bits.

    The width distinguishes shapes with equal numbers of columns.
    """
    element = str(op.attributes["element"])
    return 32 if element == "f32" else 8 if element in SHORT else 16


def _check_registers_fenced(block: Block, unfenced: set[Value], *, has_begun: bool) -> None:
    """Raise VerificationFailure for a product that takes registers set since the last `mma_begin`.

    unfenced: the values set since then; updated. It excludes results of products, as chained
    products may use their registers directly.
    has_begun: whether an `mma_begin` has run before the block.
    """
    for op in block.ops:
        if op.name == "mma_begin":
            has_begun = True
            unfenced.clear()
        elif is_product(op.definition):
            row_registers = op.operands[:4] if op.name == "mma_rows" else ()
            if not has_begun or unfenced.intersection([*row_registers, *_accumulator_operands(op)]):
                raise VerificationFailure(
                    f"{op.name} takes registers that were set since the last k.mma_begin(); it "
                    "comes between",
                    op.location,
                )
        elif op.definition.repeats:
            # Carried values are moved to the registers of the next iteration, so they count as set.
            unfenced_inside = {*unfenced, *op.carried}
            for region in op.regions:
                _check_registers_fenced(region, unfenced_inside, has_begun=has_begun)
            unfenced.update(op.results)
        else:
            for region in op.regions:
                _check_registers_fenced(region, {*unfenced}, has_begun=has_begun)
            unfenced.update(op.results)


def is_product(row: OpDefinition) -> bool:
    """Return whether an op of the table starts an asynchronous product."""
    return row.tied is not None and not row.waits


def _pending_widths(products: list[Op], ops: list[Op]) -> dict[Value, int]:
    """Map the accumulators of pending products to their widths in bits, also across loops."""
    pending = {value: _accumulator_bits(op) for op in products for value in op.results}
    previous_count = 0
    while len(pending) > previous_count:
        previous_count = len(pending)
        for op in ops:
            if op.definition.repeats:
                next_values = op.regions[-1].yielded
                for yielded, carried, result in zip(
                    next_values, op.carried, op.results, strict=True
                ):
                    width = pending.get(yielded, pending.get(carried))
                    if width is not None:
                        pending |= {carried: width, result: width}
    return pending


def _check_yielded(op: Op, yielded: tuple[Value, ...], pending: set[Value]) -> None:
    """Raise VerificationFailure if a yield would move a pending accumulator to another register."""
    if not pending.intersection(yielded):
        return
    carried = op.carried if op.definition.repeats else (None,) * len(yielded)
    for value, argument in zip(yielded, carried, strict=True):
        if value in pending and _origin(value) is not argument:
            raise VerificationFailure(
                f"sums of products that are under way change places in the {op.name}; wait for "
                "them first",
                op.location,
            )


def _origin(value: Value) -> Value:
    """Return the initial value of a chain of products, whose register the accumulator occupies."""
    op = value.op
    while op is not None and is_product(op.definition):
        first_tied = op.definition.tied or 0
        position = next(n for n, result in enumerate(op.results) if result is value)
        value = op.operands[first_tied + position]
        op = value.op
    return value
