"""The instruction mix of a kernel: what one instance computes and moves."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field

from quod.kernel.ir import types
from quod.kernel.ir.nodes import Block, Location, Op


@dataclass(eq=False)
class Mix:
    """What one instance does: a count by kind, and the loops whose length is not known.

    Kinds are multiply-adds (32 by 32 to 64 bits; both halves of one product are one), additions,
    floats, other ops, the bytes that it loads and stores in device memory (`loaded`, `stored`) and
    in shared memory (`shared`), bytes of the sectors that it has its share of (`moved`), barriers,
    atomics, shuffles. `loops` count one round each, which is not in `counts`.
    """

    counts: Counter[str] = field(default_factory=Counter)
    loops: list[tuple[Location, Mix]] = field(default_factory=list)

    def include(self, other: Mix, times: int = 1) -> None:
        """Adds what happens so many times."""
        for kind, count in other.counts.items():
            self.counts[kind] += count * times
        self.loops += other.loops

    def whole(self) -> Counter[str]:
        """All counts, with one round of each loop of unknown length."""
        total = Counter(self.counts)
        for _, body in self.loops:
            total += body.whole()
        return total


def count_products(ops: Iterable[Op]) -> int:
    """Multiply-adds of the ops of one region; the two halves of a product are one instruction."""
    halves: dict[tuple[int, int], tuple[int, bool]] = {}
    for op in ops:
        factors, high_half = op.definition.factors, op.definition.cost == "high product"
        if factors is None or not op.results[0].type.is_integer:
            continue
        a, b = (op.operands[at] for at in factors)
        if op.name == "mul" and _is_shift(a.constant, b.constant):
            continue
        key = (min(id(a), id(b)), max(id(a), id(b)))
        bits, high = halves.get(key, (0, False))
        halves[key] = (max(bits, a.type.bits), high or high_half)
    # Two words of 64 bits are four products of 32, of which the low half needs three.
    return sum(1 if bits == 32 else 4 if high else 3 for bits, high in halves.values())


def _is_shift(*constants: object) -> bool:
    return any(isinstance(c, int) and c > 0 and c & (c - 1) == 0 for c in constants)


def computing(block: Block) -> Counter[str]:
    """The ops of a region that compute, without those in its regions."""
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
