"""The schema of the op table: the fields of a row, and type inference from operands."""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import Literal

from quod.frozen import frozen
from quod.kernel.ir import types
from quod.kernel.ir.types import Space, Type
from quod.kernel.machine import Capability
from quod.kernel.ops.semantics import Array

Effect = Literal["none", "carry", "read", "write", "subgroup", "barrier", "control"]
"""The effect of an op in addition to its results: none, it makes or uses a carry, reads memory,
writes memory, exchanges values within a subgroup, synchronises instances, or directs control flow.
"""
AccessKind = Literal["load", "store", "atomic", "copy"]
Varies = Literal["operands", "always", "never", "memory"]
Cost = Literal[
    "free", "product", "high product", "additions", "other", "barriers", "shuffles", "atomics",
    "memory", "control",
]  # fmt: skip

Evaluate = Callable[..., "Array | tuple[Array, ...]"]


@frozen
class OpDefinition:
    """One row of the op table.

    `operands` and `results` are type names. A name in `variables` is a type variable: it stands for
    any one of the listed types, the same one throughout the row. The signature is the type rule
    unless `type_rule` names a function of `type_rules`, for types that depend on attributes or
    regions.
    """

    name: str
    operands: tuple[str, ...]
    results: tuple[str, ...]
    doc: str
    variables: dict[str, tuple[Type, ...]]
    evaluate: Evaluate | None = None
    """The op's NumPy function; takes one array per operand."""
    group: str = ""
    """The section of docs/kernel-ops.md."""
    effect: Effect = "none"
    cost: Cost = "other"
    """The kind of instruction that the op counts as; a high product gives the upper half."""
    type_rule: str = ""
    interpreter_function: str = ""
    """The interpreter's function for an op without `evaluate`, if its name is not the op's."""
    evaluate_as: Callable[[Array, Type], Array] | None = None
    """The NumPy function of an op that depends on the result type; takes an array and that type."""
    evaluate_in_range: Evaluate | None = None
    """The NumPy function of a shift whose amount is known to be below the width."""
    update: Evaluate | None = None
    """The value an atomic op stores, as a function of the old value and the other operands."""
    combines: str = ""
    """The op with which a subgroup reduction combines its values, such as ``add``."""
    commutative: bool = False
    """True if the op's two operands can be swapped."""
    identity: int | None = None
    """The second operand x for which op(a, x) = a, an integer modulo 2**width; -1 is all ones."""
    absorber: int | None = None
    """The second operand x for which op(a, x) = x, an integer modulo 2**width."""
    factors: tuple[int, int] | None = None
    """The indices of the operands that are multiplied."""
    lane_rule: str = ""
    """The name of the op's rule in `analysis.lane_rules`, if it has one."""
    requires_uniformity: bool = False
    """True if the op is legal only where all instances of the workgroup reach it."""
    makes_roles: bool = False
    """True if the op makes a kernel warp-specialised: its subgroups may diverge."""
    arrives: Literal["", "one", "each"] = ""
    """Arrivals at an mbarrier per execution: a single one, or one per subgroup."""
    blocks: bool = False
    """True if the op blocks instances until others, or copied data, have arrived."""
    is_asynchronous: bool = False
    """True if the op accesses shared memory asynchronously: earlier stores need a proxy fence."""
    capability: Capability | None = None
    """The capability that a machine needs for the op."""
    access: AccessKind | None = None
    """The kind of access to memory through the op's pointers."""
    declares: Space | None = None
    """The memory space of the array that the op declares."""
    varies: Varies = "operands"
    """When results differ between instances: if operands differ, always, never, or if the loaded
    memory may differ.
    """
    subgroup_operands: tuple[int, ...] | None = None
    """The operands on which uniformity within one subgroup depends, if not on all."""
    cheap_to_recompute: bool = False
    """True if recomputing the result is cheaper than keeping it in a register."""
    regions: int = 0
    repeats: bool = False
    """True if the op is a loop."""
    condition_operands: int = 0
    """The number of leading operands that control branching; 0 if the first region yields the
    condition."""
    unnamed_attribute: str = ""
    """The attribute printed without its name in the text form."""
    derived: tuple[str, ...] = ()
    """Attributes that follow from the results and that the text form omits."""
    separator: str = ""
    """The keyword before the second region in the text form."""
    tied: int | None = None
    """The index of the first operand whose register a result takes over. From this one on, operands
    are accumulators of asynchronous products, which no other op may use before a wait."""
    waits: bool = False
    """True if the op waits for asynchronous products."""
    ulps: Mapping[str, float] = MappingProxyType({})
    """The maximum error by target, in units in the last place, if above one half."""
    renames: bool = False
    """True if a result may share its operand's register: types are equal, or both integers."""
    unwritten: bool = False
    """True if emitters write nothing for the op itself, only at its uses."""
    kept_for: str = ""
    """The reason for keeping an op that no kernel of this library uses."""

    @functools.cached_property
    def pure(self) -> bool:
        """True if the op can be folded, shared and removed."""
        return self.effect == "none"

    @functools.cached_property
    def removable(self) -> bool:
        """True if the op can be removed when none of its results is used."""
        return self.effect in ("none", "carry", "read", "subgroup")

    @functools.cached_property
    def special(self) -> bool:
        """True if types depend on attributes or regions, so that `infer` does not apply."""
        return bool(self.type_rule)

    @functools.cached_property
    def pointers(self) -> tuple[int, ...]:
        """The indices of pointer operands; each pointer's index, if any, is the next operand."""
        return tuple(index for index, name in enumerate(self.operands) if name.startswith("ptr<"))

    @functools.cached_property
    def derives_pointer(self) -> bool:
        """True if the result is the pointer operand with another address or type."""
        return bool(self.results) and self.results[0].startswith("ptr<") and bool(self.pointers)

    @functools.cached_property
    def reaches_memory(self) -> bool:
        """True if the op accesses memory through a pointer operand."""
        return bool(self.pointers) and not self.derives_pointer

    @functools.cached_property
    def ends(self) -> bool:
        """True for a branch or a counted loop: it terminates if its regions do."""
        return self.regions > 0 and self.condition_operands > 0

    @functools.cached_property
    def varies_plainly(self) -> bool:
        """True if the results vary exactly where an operand does, at any workgroup size."""
        depends_on_operands = self.varies == "operands" and self.subgroup_operands is None
        return depends_on_operands and not self.regions and self.name != "call"

    @functools.cached_property
    def _inferred(self) -> dict[tuple[Type, ...], tuple[Type, ...]]:
        return {}

    def infer(self, operand_types: tuple[Type, ...]) -> tuple[Type, ...]:
        """Return the result types for operand types; TypeError names an operand of wrong type."""
        result_types = self._inferred.get(operand_types)
        if result_types is None:
            result_types = self._inferred[operand_types] = tuple(self._infer(operand_types))
        return result_types

    def _infer(self, operand_types: Sequence[Type]) -> list[Type]:
        if len(operand_types) != len(self.operands):
            raise TypeError(
                f"{self.name} takes {len(self.operands)} operands, not {len(operand_types)}"
            )
        bindings: dict[str, Type] = {}
        for position, (name, type_) in enumerate(zip(self.operands, operand_types, strict=True)):
            if name not in self.variables:
                expected = types.parse_type(name)
                if expected is not type_:
                    raise TypeError(
                        f"operand {position + 1} of {self.name} must be {expected}, not {type_}"
                    )
            elif name not in bindings:
                allowed = self.variables[name]
                if type_ not in allowed:
                    names = ", ".join(t.name for t in allowed)
                    raise TypeError(
                        f"operand {position + 1} of {self.name} must be one of {names}, not {type_}"
                    )
                bindings[name] = type_
            elif bindings[name] is not type_:
                raise TypeError(
                    f"operands of {self.name} must have one type, not {bindings[name]} and {type_}"
                )
        return [
            bindings[name] if name in bindings else types.parse_type(name) for name in self.results
        ]
