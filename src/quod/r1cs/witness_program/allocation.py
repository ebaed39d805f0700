"""Register allocation: registers are reused after their last read, so that they stay in cache."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from quod.r1cs.witness_program.instructions import ONE_REGISTER, Op

_BINARY = (Op.MULTIPLY, Op.ADD, Op.SUBTRACT, Op.UNLESS_ZERO)
_UNARY = (Op.BIT, Op.INTEGER, Op.GUARD, Op.INVERT)


def allocated(
    code: Sequence[int], terms: Sequence[int], kept: Iterable[int], registers: int
) -> tuple[list[int], list[int], list[int], int]:
    """Allocate registers to instructions so that registers are reused after their last read.

    code: instructions of four numbers, each with a separate result register.
    kept: registers that are read after the last instruction.
    Returns instructions, terms, the new register of each old one, and the number of registers.
    """
    count = len(code) // 4
    reads = [_reads(code, terms, index) for index in range(count)]
    last_read = [-1] * registers
    for index, operands in enumerate(reads):
        for register in operands:
            last_read[register] = index
    for register in (*range(ONE_REGISTER + 1), *kept):
        last_read[register] = count
    new_register = list(range(registers))
    free_registers: list[int] = []
    register_count = ONE_REGISTER + 1
    new_code, new_terms = list(code), list(terms)
    for index, operands in enumerate(reads):
        op, d, a, b = code[4 * index : 4 * index + 4]
        if op in _BINARY:
            new_code[4 * index + 2 : 4 * index + 4] = new_register[a], new_register[b]
        elif op in _UNARY:
            new_code[4 * index + 2] = new_register[a]
        elif op == Op.LINEAR:
            new_terms[2 * a + 1 : 2 * (a + b) : 2] = [
                new_register[register] for register in operands
            ]
        free_registers += [
            new_register[register]
            for register in dict.fromkeys(operands)
            if last_read[register] == index
        ]
        if free_registers:
            new_register[d] = free_registers.pop()
        else:
            new_register[d], register_count = register_count, register_count + 1
        new_code[4 * index + 1] = new_register[d]
        if last_read[d] < 0:
            free_registers.append(new_register[d])
    return new_code, new_terms, new_register, register_count


def _reads(code: Sequence[int], terms: Sequence[int], index: int) -> Sequence[int]:
    """Return the registers that an instruction reads."""
    op, _, a, b = code[4 * index : 4 * index + 4]
    if op in _BINARY:
        return a, b
    if op in _UNARY:
        return (a,)
    return terms[2 * a + 1 : 2 * (a + b) : 2] if op == Op.LINEAR else ()
