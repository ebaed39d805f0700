"""The instruction mix of a kernel: the operations and memory traffic of one instance."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field

from quod.kernel.ir import types
from quod.kernel.ir.nodes import Block, Location, Op


@dataclass(eq=False)
class Mix:
    """The instruction mix of one instance.

    counts: counts by kind. Ops: multiply-adds (32 by 32 to 64 bits; both halves of a product count
        as one), additions, floats, other ops, barriers, atomics, shuffles. Bytes: accessed in
        device memory (`loaded`, `stored`) and shared memory (`shared`), and the instance's share of
        the sectors transferred (`moved`).
    loops: location and mix of one iteration of each loop of unknown length, not included in
        `counts`.
    """

    counts: Counter[str] = field(default_factory=Counter)
    loops: list[tuple[Location, Mix]] = field(default_factory=list)

    def include(self, other: Mix, times: int = 1) -> None:
        """Add another mix, `times` times."""
        for kind, count in other.counts.items():
            self.counts[kind] += count * times
        self.loops += other.loops

    def whole(self) -> Counter[str]:
        """Return all counts, with one iteration of each loop of unknown length."""
        total = Counter(self.counts)
        for _, body in self.loops:
            total += body.whole()
        return total


def count_products(ops: Iterable[Op]) -> int:
    """Count the multiply-adds of a region's ops; both halves of a product count once."""
    products: dict[tuple[int, int], tuple[int, bool]] = {}
    for op in ops:
        factors, high_half = op.definition.factors, op.definition.cost == "high product"
        if factors is None or not op.results[0].type.is_integer:
            continue
        a, b = (op.operands[index] for index in factors)
        if op.name == "mul" and _is_shift(a.constant, b.constant):
            continue
        key = (min(id(a), id(b)), max(id(a), id(b)))
        bits, high = products.get(key, (0, False))
        products[key] = (max(bits, a.type.bits), high or high_half)
    # A product of 64-bit words takes four products of 32 bits; the low half takes three.
    return sum(1 if bits == 32 else 4 if high else 3 for bits, high in products.values())


def _is_shift(*constants: object) -> bool:
    return any(isinstance(c, int) and c > 0 and c & (c - 1) == 0 for c in constants)


def computing(block: Block) -> Counter[str]:
    """Count the computing ops of a region by kind, without nested regions."""
    counts: Counter[str] = Counter({"multiply-adds": count_products(block.ops)})
    for op in block.ops:
        cost = op.definition.cost
        if cost in ("free", "memory", "control"):
            continue
        if cost in ("barriers", "shuffles", "atomics"):
            counts[cost] += 1
        elif op.results and op.results[0].type in types.FLOATS:
            counts["floats"] += 1
        elif op.definition.factors is not None:
            continue
        else:
            words = max(1, op.results[0].type.bits // 32) if op.results else 1
            counts[cost] += words
    return counts
