"""What the op table says of an op: the fields of a row, and the types that operands give."""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Literal

from quod.frozen import frozen
from quod.kernel.ir import types
from quod.kernel.ir.types import Space, Type
from quod.kernel.machine import Capability
from quod.kernel.ops.semantics import Array

Effect = Literal["none", "carry", "read", "write", "subgroup", "barrier", "control"]
AccessKind = Literal["load", "store", "atomic", "copy"]
Varies = Literal["operands", "always", "never", "memory"]
Cost = Literal[
    "free", "product", "high product", "additions", "other", "barriers", "shuffles", "atomics",
    "memory", "control",
]  # fmt: skip

Evaluate = Callable[..., "Array | tuple[Array, ...]"]

_inferred: dict[tuple[str, tuple[Type, ...]], list[Type]] = {}


@frozen
class OpDefinition:
    """One row of the op table.

    `operands` and `results` are type names; a name in `variables` stands for any one of the types
    that it lists, the same one throughout the row. The signature is the type rule unless
    `type_rule` names a function of `op_types`: then the types depend on attributes or regions too.
    """

    name: str
    operands: tuple[str, ...]
    results: tuple[str, ...]
    doc: str
    variables: dict[str, tuple[Type, ...]]
    evaluate: Evaluate | None = None
    """The meaning: takes an array an operand."""
    group: str = ""
    """The section of docs/kernel-ops.md."""
    effect: Effect = "none"
    cost: Cost = "other"
    """What it counts as in the instruction mix; a high product needs the upper half of one."""
    type_rule: str = ""
    step: str = ""
    """The interpreter's function for an op that does not compute, if it has another name."""
    evaluate_as: Callable[[Array, Type], Array] | None = None
    """The meaning where the type of the result counts: takes an array and that type."""
    evaluate_in_range: Evaluate | None = None
    """The meaning of a shift by less than the width."""
    update: Evaluate | None = None
    """What an atomic op leaves in memory: takes what it found and the other operands."""
    combines: str = ""
    """The op that it makes one value of a subgroup's with."""
    commutative: bool = False
    """Whether its two operands may change places."""
    identity: int | None = None
    """The integer, modulo the width, that as second operand gives the first; -1 is all ones."""
    absorber: int | None = None
    """The integer, modulo the width, that as second operand is the result."""
    factors: tuple[int, int] | None = None
    """The operands that it multiplies."""
    lanes: str = ""
    """The rule of `analysis.lane_rules` for an op that computes, if it has one."""
    together: bool = False
    """Whether it stands only where every instance of the workgroup comes."""
    makes_roles: bool = False
    """Whether subgroups of a kernel that has it may go their own ways."""
    arrives: Literal["", "one", "each"] = ""
    """Who arrives at an mbarrier: one instance of those that come, or each subgroup."""
    stays: bool = False
    """Whether instances stay there until others have done something."""
    beside: bool = False
    """Whether it reaches shared memory beside instances, whose stores it knows by a fence."""
    capability: Capability | None = None
    """What a machine needs for it."""
    access: AccessKind | None = None
    """What it does to memory through its pointers."""
    declares: Space | None = None
    """The memory that it declares an array in."""
    varies: Varies = "operands"
    """When its results differ between instances: where operands do, or as memory does, ..."""
    varies_in_subgroup: tuple[int, ...] | None = None
    """In one subgroup: the operands alone that make its result vary, if not all."""
    reread: bool = False
    """Whether its result is cheaper to make again than to keep in a register."""
    regions: int = 0
    repeats: bool = False
    """Whether its regions are a loop's."""
    deciding: int = 0
    """Operands, the first ones, that say which way instances go; if 0, what region 1 yields."""
    bare: str = ""
    """The attribute that stands alone after the name in the text form."""
    derived: tuple[str, ...] = ()
    """Attributes that the results tell too, which the text form leaves out."""
    between: str = ""
    """The word of the text form before the second region."""
    tied: int | None = None
    """The operand from which on results are in the registers of operands, which nothing else may
    use: they are of products under way, or were until this op."""
    waits: bool = False
    """Whether products are not under way any more after it."""
    ulps: Mapping[str, float] = MappingProxyType({})
    """Its greatest error by target, in units of the last place, where that is above a half."""
    renames: bool = False
    """Whether a result of an operand's type, or of another type of integers, may be in the register
    of that."""
    unwritten: bool = False
    """Whether nothing is written where it stands: what it gives is written where it is used."""
    kept_for: str = ""
    """Why it stays although no kernel of this library uses it."""

    @functools.cached_property
    def pure(self) -> bool:
        """Whether the op may be folded, shared and removed."""
        return self.effect == "none"

    @functools.cached_property
    def removable(self) -> bool:
        """Whether the op may be removed when none of its results is used."""
        return self.effect in ("none", "carry", "read", "subgroup")

    @functools.cached_property
    def special(self) -> bool:
        """Whether its types depend on attributes or regions: `infer` is not for it."""
        return bool(self.type_rule)

    @property
    def pointers(self) -> tuple[int, ...]:
        """The operands that are pointers; the index into each, if any, is the next operand."""
        return tuple(at for at, name in enumerate(self.operands) if name.startswith("ptr<"))

    @property
    def derives_pointer(self) -> bool:
        """Whether its result is its pointer with another address or type."""
        return bool(self.results) and self.results[0].startswith("ptr<") and bool(self.pointers)

    @property
    def reaches_memory(self) -> bool:
        """Whether it does something at the address that a pointer among its operands is."""
        return bool(self.pointers) and not self.derives_pointer

    @functools.cached_property
    def ends(self) -> bool:
        """Whether the regions end if what is in them does: the rounds are known before."""
        return self.regions > 0 and self.deciding > 0

    @functools.cached_property
    def varies_plainly(self) -> bool:
        """Whether its results differ where any of its operands does, in a workgroup of any size."""
        plain = self.varies == "operands" and self.varies_in_subgroup is None
        return plain and not self.regions and self.name != "call"

    def infer(self, operand_types: list[Type]) -> list[Type]:
        """Result types for the given operand types; TypeError says which operand is wrong."""
        key = (self.name, tuple(operand_types))
        found = _inferred.get(key)
        if found is None:
            found = _inferred[key] = self._infer(operand_types)
        return found.copy()

    def _infer(self, operand_types: list[Type]) -> list[Type]:
        if len(operand_types) != len(self.operands):
            raise TypeError(
                f"{self.name} takes {len(self.operands)} operands, not {len(operand_types)}"
            )
        bound: dict[str, Type] = {}
        for position, (name, given) in enumerate(zip(self.operands, operand_types, strict=True)):
            if name not in self.variables:
                wanted = types.parse_type(name)
                if wanted is not given:
                    raise TypeError(
                        f"operand {position + 1} of {self.name} must be {wanted}, not {given}"
                    )
            elif name not in bound:
                allowed = self.variables[name]
                if given not in allowed:
                    names = ", ".join(t.name for t in allowed)
                    raise TypeError(
                        f"operand {position + 1} of {self.name} must be one of {names}, not {given}"
                    )
                bound[name] = given
            elif bound[name] is not given:
                raise TypeError(
                    f"operands of {self.name} must have one type, not {bound[name]} and {given}"
                )
        return [bound[name] if name in bound else types.parse_type(name) for name in self.results]
