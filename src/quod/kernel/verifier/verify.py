"""The verifier: the rules that every kernel must satisfy before code generation."""

from __future__ import annotations

from collections.abc import Collection

from quod.kernel.builder.roles import Roles, check_named_barriers, is_of_role
from quod.kernel.errors import VerificationFailure, an
from quod.kernel.ir import types
from quod.kernel.ir.nodes import Block, Function, Kernel, Location, Op, walk
from quod.kernel.ir.types import PointerType, Type
from quod.kernel.ir.value import Value
from quod.kernel.machine import DEFAULT_SHARED_BYTES, Capability, Machine
from quod.kernel.ops import type_rules as op_types
from quod.kernel.ops.scalar import OPS
from quod.kernel.ops.tile import CLUSTERS
from quod.kernel.verifier.async_products import check_sums, is_product
from quod.kernel.verifier.dependents import check_dependents
from quod.kernel.verifier.role_tiles import check_roles
from quod.kernel.verifier.tensor_maps import check_maps
from quod.kernel.verifier.uniformity import Uniformity, uniformity_of

MAXIMUM_WORKGROUP_SIZE = 1024
MAXIMUM_SUBGROUP_SIZE = 32
MAX_PRIVATE_BYTES = 8192
"""The private memory per instance that every WGSL implementation has (its section "Limits")."""


_SUBGROUP_FEATURES = {
    Capability.SUBGROUPS: "subgroups", Capability.TENSOR_CORES: "tensor cores",
    Capability.MATRIX_STORES: "stores of matrices", Capability.TILE_COPIES: "copies of tiles",
    Capability.WARPGROUPS: "products of tiles", Capability.NAMED_BARRIERS: "named barriers",
    Capability.FLOAT8_CORES: "tensor cores of 8-bit floats",
}  # fmt: skip
"""Names for messages of the capabilities whose ops involve subgroups."""


_SUBGROUPS_PER_OP = {
    Capability.TENSOR_CORES: 1, Capability.FLOAT8_CORES: 1, Capability.MATRIX_STORES: 1,
    Capability.WARPGROUPS: 4,
}  # fmt: skip
"""The number of whole subgroups of 32 that ops of a capability need."""


def verify(kernel: Kernel, machine: Machine | None = None) -> None:
    """Raise VerificationFailure, naming the Python line, if the kernel breaks a rule.

    - Operands, results and regions have the types of the op.
    - Values are used in the scope of their definition; carries are used once, immediately.
    - Functions are not recursive.
    - All instances of a workgroup reach barriers and subgroup ops.
    - Shared memory and features are within the machine's limits.
    - Only further products and waits use the accumulators of pending products.
    - Before the wait for preceding launches, only constant arrays are accessed.
    - Tile copies use tensor maps that were acquired.
    - Roles match the counts of their barriers and stay within the available registers.
    """
    _check_calls(kernel)
    op_names: set[str] = set()
    for function in kernel.functions:
        op_names |= _Scope(kernel, function.block, function.location).check()
    if kernel.block.yielded:
        raise VerificationFailure("a kernel gives no values", kernel.block.ops[-1].location)
    op_names |= _Scope(kernel, kernel.block, kernel.location).check()
    # The other checks visit all ops, so each is left out of kernels that cannot break its rules.
    rows = [OPS[name] for name in op_names]
    _check_budgets(kernel, machine)
    if any(row.capability in _SUBGROUP_FEATURES for row in rows):
        _check_subgroups(kernel, machine)
    if any(is_product(row) for row in rows):
        check_sums(kernel)
    if kernel.constant or "dependency_wait" in op_names or "launch_dependents" in op_names:
        check_dependents(kernel)
    if "copy_tile" in op_names:
        check_maps(kernel)
    makes_roles = any(row.makes_roles for row in rows)
    if not makes_roles and not any(row.requires_uniformity for row in rows):
        return
    uniformity = uniformity_of(kernel)
    roles = Roles(kernel, uniformity) if makes_roles else None
    if roles is not None:
        check_named_barriers(kernel, roles)
        check_roles(kernel, roles)
    _UniformityCheck(roles).check(kernel.block, uniformity, None, None)


def _check_calls(kernel: Kernel) -> None:
    """Raise VerificationFailure for a call to an unknown function, or for recursion."""
    function_ids = {id(function) for function in kernel.functions}
    finished: set[int] = set()

    def visit(block: Block, callers: tuple[Function, ...]) -> None:
        for op in walk(block):
            if op.name != "call":
                continue
            function = op.attributes.get("function")
            if not isinstance(function, Function) or id(function) not in function_ids:
                name = getattr(function, "name", function)
                raise VerificationFailure(f"{name} is no function of this kernel", op.location)
            if function in callers:
                raise VerificationFailure(f"the function {function.name} calls itself", op.location)
            if id(function) not in finished:
                visit(function.block, (*callers, function))
                finished.add(id(function))

    visit(kernel.block, ())
    for function in kernel.functions:
        if id(function) not in finished:
            visit(function.block, (function,))


class _Scope:
    """The checks of a kernel's or function's body: structure, types, scopes and the carry rule."""

    def __init__(self, kernel: Kernel, block: Block, location: Location) -> None:
        self._kernel = kernel
        self._block = block
        self._location = location
        self._visible: set[Value] = set()
        self._names: set[str] = set()

    def check(self) -> set[str]:
        """Check the body; return the names of its ops."""
        self._check_block(self._block, self._location)
        return self._names

    def _define(self, values: tuple[Value, ...], added: list[Value], location: Location) -> None:
        visible = self._visible
        count = len(visible) + len(values)
        visible.update(values)
        if len(visible) != count:
            raise VerificationFailure("a value is defined twice", location)
        added += values

    def _check_block(self, block: Block, location: Location) -> list[Value]:
        """Check a region; return its values, which stay in scope until the caller removes them."""
        added: list[Value] = []
        self._define(block.arguments, added, location)
        if not block.ops or block.ops[-1].name != "yield":
            raise VerificationFailure("a region ends without a yield", location)
        pending: Value | None = None
        for op in block.ops:
            definition = OPS.get(op.name)
            if definition is None:
                raise VerificationFailure(f"there is no op {op.name}", op.location)
            self._names.add(op.name)
            if op.name == "yield" and op is not block.ops[-1]:
                raise VerificationFailure(
                    "a yield stands before the end of its region", op.location
                )
            if definition.declares is not None and block is not self._kernel.block:
                raise VerificationFailure(
                    f"{definition.declares} memory is declared at the top of a kernel", op.location
                )
            if not self._visible.issuperset(op.operands):
                self._refuse_operands(op)
            operand_types = op_types.types_of(op.operands)
            _check_types(op, operand_types)
            if types.cc in operand_types:
                _check_carry(op, pending)
            if definition.effect == "carry":
                pending = next((value for value in op.results if value.type is types.cc), None)
            elif op.regions or definition.effect in ("control", "barrier"):
                pending = None
            if op.regions:
                self._check_regions(op)
            self._define(op.results, added, op.location)
        return added

    def _refuse_operands(self, op: Op) -> None:
        """Raise VerificationFailure for the first operand that is not in scope."""
        for operand in op.operands:
            if operand not in self._visible:
                line = f" (made on line {operand.op.location.line})" if operand.op else ""
                raise VerificationFailure(
                    f"{op.name} uses a value from another region or function{line}; carry it, give "
                    "it, or pass it as an argument",
                    op.location,
                )

    def _check_regions(self, op: Op) -> None:
        inside: list[Value] = []
        for region in op.regions:
            inside += self._check_block(region, op.location)
            if op.definition.condition_operands:
                # Only the second region of a `while` loop sees the values of the first.
                self._visible.difference_update(inside)
                inside = []
        self._visible.difference_update(inside)


def _check_types(op: Op, operand_types: tuple[Type, ...]) -> None:
    """Raise VerificationFailure if operands, results, attributes or regions do not fit the op."""
    definition = op.definition
    if op.regions and not definition.regions:
        raise VerificationFailure(f"{op.name} has no regions", op.location)
    if definition.type_rule:
        getattr(op_types, definition.type_rule)(op)
        return
    try:
        results = definition.infer(operand_types)
    except TypeError as error:
        raise VerificationFailure(str(error), op.location) from None
    result_types = op_types.types_of(op.results)
    if result_types != results:
        result_names, expected_names = op_types.names_of(result_types), op_types.names_of(results)
        raise VerificationFailure(
            f"{op.name} gives {expected_names}, not {result_names}", op.location
        )


def _check_carry(op: Op, pending: Value | None) -> None:
    """Check the carry rule: at most one use, in the same block, no other carry in between.

    `pending` is the carry that the op may use.
    """
    for operand in op.operands:
        if operand.type is not types.cc:
            continue
        if op.definition.effect != "carry":
            raise VerificationFailure(
                f"{op.name} cannot take a carry; use addc to turn it into a number", op.location
            )
        if operand is not pending:
            raise VerificationFailure(
                f"{op.name} uses a carry that is not the last one made; a carry is used once, "
                "in its own region, before any other carry, call or barrier",
                op.location,
            )


def _check_budgets(kernel: Kernel, machine: Machine | None) -> None:
    if not 1 <= kernel.workgroup_size <= MAXIMUM_WORKGROUP_SIZE:
        raise VerificationFailure(
            f"a workgroup has 1 to {MAXIMUM_WORKGROUP_SIZE} instances, not {kernel.workgroup_size}",
            kernel.location,
        )
    if kernel.cluster not in CLUSTERS:
        raise VerificationFailure(
            f"a cluster has 1, 2, 4 or 8 workgroups, not {kernel.cluster}", kernel.location
        )
    limit = machine.shared_bytes_limit if machine is not None else DEFAULT_SHARED_BYTES
    shared_bytes = private_bytes = 0
    for op in kernel.block.ops:
        space, pointer = op.definition.declares, op.results[0].type if op.results else None
        if not space or not isinstance(pointer, PointerType):
            continue
        nbytes = pointer.element.bytes * int(op.attributes["count"])
        if space == "private":
            private_bytes += nbytes
            if private_bytes > MAX_PRIVATE_BYTES:
                raise VerificationFailure(
                    f"the kernel needs {private_bytes} bytes of private memory, and an "
                    f"instance has {MAX_PRIVATE_BYTES}; take shared or global memory",
                    op.location,
                )
        if space == "shared":
            shared_bytes += nbytes
            if shared_bytes > limit:
                raise VerificationFailure(
                    f"the kernel needs {shared_bytes} bytes of shared memory, and the "
                    f"machine has {limit}",
                    op.location,
                )
    if shared_bytes != kernel.shared_bytes:
        raise VerificationFailure(
            f"the kernel says that it needs {kernel.shared_bytes} bytes of shared memory, but "
            f"declares {shared_bytes}",
            kernel.location,
        )


def _check_subgroups(kernel: Kernel, machine: Machine | None) -> None:
    """Raise VerificationFailure if subgroup ops need features or sizes that are not available."""
    blocks = (kernel.block, *(function.block for function in kernel.functions))
    first_ops: dict[Capability, Op] = {}
    for block in blocks:
        for op in walk(block):
            capability = op.definition.capability
            if capability in _SUBGROUP_FEATURES:
                first_ops.setdefault(capability, op)
    size = kernel.subgroup_size
    for capability, op in first_ops.items():
        if machine is not None and not machine.has(capability):
            raise VerificationFailure(
                f"{op.name} needs {_SUBGROUP_FEATURES[capability]}, which the machine for "
                f"{machine.target} has not",
                op.location,
            )
    for capability, subgroups in _SUBGROUPS_PER_OP.items():
        if capability in first_ops and (size != 32 or kernel.workgroup_size % (32 * subgroups)):
            op = first_ops[capability]
            requirement = (
                "whole subgroups of 32" if subgroups == 1 else f"{subgroups} subgroups of 32 each"
            )
            raise VerificationFailure(
                f"{op.name} is for {requirement}, not for a workgroup of "
                f"{kernel.workgroup_size} in subgroups of {size}",
                op.location,
            )
    if not 1 <= size <= MAXIMUM_SUBGROUP_SIZE:
        raise VerificationFailure(
            f"a subgroup has 1 to {MAXIMUM_SUBGROUP_SIZE} instances, not {size}", kernel.location
        )
    if kernel.workgroup_size % size and kernel.workgroup_size > size:
        raise VerificationFailure(
            f"a workgroup of {kernel.workgroup_size} instances is not made of subgroups of {size}",
            kernel.location,
        )


_SINGLE_SUBGROUP = (Capability.SUBGROUPS, Capability.TENSOR_CORES, Capability.MATRIX_STORES)
"""The capabilities whose ops involve a single subgroup."""


class _UniformityCheck:
    """The check that all instances of a workgroup reach barriers and subgroup ops.

    In a kernel with roles, all instances of a subgroup must reach subgroup ops and ops of roles.
    """

    def __init__(self, roles: Roles | None) -> None:
        self._has_roles = roles is not None
        self._branches: Collection[Op] = () if roles is None else roles.branches
        self._checked: set[tuple[int, bool, bool]] = set()

    def check(
        self, block: Block, uniformity: Uniformity, divergent: Op | None, in_subgroup: Op | None
    ) -> None:
        """Check a region.

        divergent: the enclosing op at which instances of the workgroup diverge, if any.
        in_subgroup: the enclosing op at which instances of one subgroup diverge, if any.
        """
        for op in block.ops:
            is_for_subgroup = op.definition.capability in _SINGLE_SUBGROUP
            is_for_subgroup = is_for_subgroup or (self._has_roles and is_of_role(op))
            enclosing = in_subgroup if is_for_subgroup else divergent
            if op.definition.requires_uniformity and enclosing is not None:
                raise VerificationFailure(
                    f"{an(op.name)} that not every instance reaches: it stands under the "
                    f"{enclosing.name} of line {enclosing.location.line}, whose condition differs "
                    "between instances",
                    op.location,
                )
            region_divergence = (divergent, in_subgroup)
            if uniformity.diverges(op):
                region_divergence = (op, in_subgroup if op in self._branches else op)
            for region in op.regions:
                self.check(region, uniformity, *region_divergence)
            if op.name == "call":
                inside = uniformity.inside(op)
                key = (id(inside), divergent is not None, in_subgroup is not None)
                if key not in self._checked:
                    self._checked.add(key)
                    function: Function = op.attributes["function"]
                    self.check(function.block, inside, divergent, in_subgroup)
