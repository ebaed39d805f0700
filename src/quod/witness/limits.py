"""How much a witness calculator may take."""

from __future__ import annotations

from quod.errors import InputError
from quod.frozen import frozen
from quod.validation import shown, whole_number


@frozen
class WitnessLimits:
    """What one witness may take, and the compilation of a calculator.

    `seconds` are those of a witness, to a tenth or two; `memory_bytes` are of the calculator's
    memory, and of the witness with its inputs once more. `compile_seconds` are of all processors
    together, `compile_bytes` of address space.
    """

    seconds: float = 60.0
    memory_bytes: int = 2 << 30
    compile_seconds: int = 600
    compile_bytes: int = 16 << 30

    def __post_init__(self) -> None:
        seconds: object = self.seconds
        if type(seconds) not in (int, float) or not 0 < self.seconds <= 86_400:
            raise InputError(
                f"the seconds of a witness must be above 0 and at most 86400, not {shown(seconds)}"
            )
        memory = whole_number("the memory of a witness", self.memory_bytes, 1 << 16, 1 << 32)
        wait = whole_number("the seconds of a compilation", self.compile_seconds, 1, 86_400)
        most = whole_number("the memory of a compilation", self.compile_bytes, 1 << 30, 1 << 48)
        self.__dict__.update(memory_bytes=memory, compile_seconds=wait, compile_bytes=most)
