"""Register allocation: registers are reused after their last read, so that they stay in cache."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from quod.r1cs.witness_program.instructions import ONE_REGISTER, Op

_TWO = (Op.MULTIPLY, Op.ADD, Op.SUBTRACT, Op.UNLESS_ZERO)
_ONE = (Op.BIT, Op.INTEGER, Op.GUARD, Op.INVERT)


def allocated(
    code: Sequence[int], terms: Sequence[int], kept: Iterable[int], registers: int
) -> tuple[list[int], list[int], list[int], int]:
    """Allocate registers to instructions so that registers are reused.

    code: instructions of four numbers, each with a separate result register.
    kept: registers that are read after the last instruction.
    Returns instructions, terms, the new register of each old one, and the number of registers.
    """
    count = len(code) // 4
    reads = [_reads(code, terms, index) for index in range(count)]
    last = [-1] * registers
    for index, operands in enumerate(reads):
        for register in operands:
            last[register] = index
    for register in (*range(ONE_REGISTER + 1), *kept):
        last[register] = count
    new = list(range(registers))
    free: list[int] = []
    used = ONE_REGISTER + 1
    done, done_terms = list(code), list(terms)
    for index, operands in enumerate(reads):
        op, d, a, b = code[4 * index : 4 * index + 4]
        if op in _TWO:
            done[4 * index + 2 : 4 * index + 4] = new[a], new[b]
        elif op in _ONE:
            done[4 * index + 2] = new[a]
        elif op == Op.LINEAR:
            done_terms[2 * a + 1 : 2 * (a + b) : 2] = [new[register] for register in operands]
        free += [new[register] for register in dict.fromkeys(operands) if last[register] == index]
        if free:
            new[d] = free.pop()
        else:
            new[d], used = used, used + 1
        done[4 * index + 1] = new[d]
        if last[d] < 0:
            free.append(new[d])
    return done, done_terms, new, used


def _reads(code: Sequence[int], terms: Sequence[int], at: int) -> Sequence[int]:
    op, _, a, b = code[4 * at : 4 * at + 4]
    if op in _TWO:
        return a, b
    if op in _ONE:
        return (a,)
    return terms[2 * a + 1 : 2 * (a + b) : 2] if op == Op.LINEAR else ()
