"""Register allocation: registers are reused after their last read, so that they stay in cache."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from quod.r1cs.witness_program.instructions import ONE_REGISTER, Op

_BINARY = (Op.MULTIPLY, Op.ADD, Op.SUBTRACT, Op.UNLESS_ZERO)
_UNARY = (Op.BIT, Op.INTEGER, Op.GUARD, Op.INVERT)


def allocated(
    code: Sequence[int], terms: Sequence[int], read_at: Mapping[int, Sequence[int]], registers: int
) -> tuple[list[int], list[int], list[int], int]:
    """Allocate registers to instructions so that registers are reused after their last read.

    code: instructions of four numbers, each with a separate result register.
    read_at: registers that are read between instructions, by the index of the instruction that
        follows.
    Returns instructions, terms, the new register of each old one, and the number of registers.
    """
    count = len(code) // 4
    reads = [_reads(code, terms, index) for index in range(count)]
    # Instruction i reads at time 2 i; reads between it and the one before are at time 2 i - 1.
    last_read = [-1] * registers
    for index, operands in enumerate(reads):
        for register in operands:
            last_read[register] = 2 * index
    for index, registers_read in read_at.items():
        for register in registers_read:
            last_read[register] = max(last_read[register], 2 * index - 1)
    for register in range(ONE_REGISTER + 1):
        last_read[register] = 2 * count
    new_register = list(range(registers))
    free_registers: list[int] = []
    register_count = ONE_REGISTER + 1
    new_code, new_terms = list(code), list(terms)

    def release(registers_read: Sequence[int], time: int) -> None:
        for register in dict.fromkeys(registers_read):
            if last_read[register] == time:
                free_registers.append(new_register[register])

    for index, operands in enumerate(reads):
        release(read_at.get(index, ()), 2 * index - 1)
        op, d, a, b = code[4 * index : 4 * index + 4]
        if op in _BINARY:
            new_code[4 * index + 2 : 4 * index + 4] = new_register[a], new_register[b]
        elif op in _UNARY:
            new_code[4 * index + 2] = new_register[a]
        elif op == Op.LINEAR:
            new_terms[2 * a + 1 : 2 * (a + b) : 2] = [
                new_register[register] for register in operands
            ]
        release(operands, 2 * index)
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
