"""The resource limits of a witness calculator."""

from __future__ import annotations

from quod.errors import InputError
from quod.frozen import frozen
from quod.validation import shown, whole_number


@frozen
class WitnessLimits:
    """The limits of one witness, and of compiling a calculator.

    seconds: Time of a witness, enforced to within 0.2 s.
    memory_bytes: Memory of the calculator; the same limit holds for inputs and witness together.
    compile_seconds: CPU time of the compilation, over all cores.
    compile_bytes: Address space of the compilation.
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
        memory_bytes = whole_number("the memory of a witness", self.memory_bytes, 1 << 16, 1 << 32)
        compile_seconds = whole_number(
            "the seconds of a compilation", self.compile_seconds, 1, 86_400
        )
        compile_bytes = whole_number(
            "the memory of a compilation", self.compile_bytes, 1 << 30, 1 << 48
        )
        self.__dict__.update(
            memory_bytes=memory_bytes, compile_seconds=compile_seconds, compile_bytes=compile_bytes
        )
