"""The sandbox of one witness: the circuit, its imports and the glue in one store."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Final, TypeVar

import wasmtime

from quod.errors import QuodError
from quod.witness.engine import engine, ticks
from quod.witness.errors import CalculatorError, CircuitError, WitnessLimitError
from quod.witness.glue import builtin_modules
from quod.witness.limits import WitnessLimits

T = TypeVar("T")

PAGE: Final = 65_536
MESSAGES: Final = "getMessageChar"

_REASONS: Final = {
    1: "an input that the circuit does not have",
    2: "more values than the inputs have",
    3: "an input that was set twice",
    4: "the inputs do not satisfy the circuit: an assertion failed",
    5: "the calculator has not enough memory",
    6: "an input has more values than its signal",
}
# The only messages of calculators that errors show; others may contain secret values.
_LINE: Final = re.compile(
    rb"Error in (?:template )?([A-Za-z_][A-Za-z0-9_$.-]{0,99}) line: ([0-9]{1,9})"
)
_MAX_LINES: Final = 16
_MEMORIES = 3


class Sandbox:
    """A newly instantiated calculator for one witness.

    module: the compiled calculator.
    messages: whether it exports getMessageChar.
    name, where: the names of the calculator and of its inputs in errors.
    Raises `CalculatorError` if it cannot be instantiated, `WitnessLimitError` if that exceeds a
    limit.
    """

    def __init__(
        self, module: wasmtime.Module, messages: bool, limits: WitnessLimits, name: str, where: str
    ) -> None:
        self.name = name
        self._where = where
        self._limits = limits
        self.store = wasmtime.Store(engine())
        self.store.set_limits(
            memory_size=limits.memory_bytes, table_elements=10_000, instances=_MEMORIES, tables=4,
            memories=_MEMORIES,
        )  # fmt: skip
        # Compiled once per process; done before the deadline is set, so that it costs no time.
        runtime, glue = builtin_modules(engine(), messages)
        self.store.set_epoch_deadline(ticks(limits.seconds))
        with self._translated_errors():
            linker = wasmtime.Linker(engine())
            runtime_instance = wasmtime.Instance(self.store, runtime, [])
            self._runtime = runtime_instance.exports(self.store)
            linker.define_instance(self.store, "runtime", runtime_instance)
            self._circuit = linker.instantiate(self.store, module)
            linker.define_instance(self.store, "circuit", self._circuit)
            self._glue = linker.instantiate(self.store, glue).exports(self.store)

    def ask(self, function: str, *arguments: int) -> int:
        """Call a function of the circuit that returns a number."""
        with self._translated_errors():
            exported = _exported(self._circuit.exports(self.store), function, wasmtime.Func)
            return int(exported(self.store, *arguments))

    def prime(self, words: int) -> int:
        """Return the circuit's prime, which has `words` 32-bit words."""
        self._run("prime", words)
        return int.from_bytes(self._memory.read(self.store, 0, 4 * words), "little")

    def calculate(self, records: bytes, head: bytes, words: int, wires: int) -> bytearray:
        """Compute a witness of `wires` values from `records`; return `head` and the values."""
        size = len(records) + len(head) + 4 * words * wires
        extra_pages = -(-size // PAGE) - 1
        if size > self._limits.memory_bytes:
            raise self._limit_error("memory")
        with self._translated_errors():
            if extra_pages > 0:
                self._memory.grow(self.store, extra_pages)
            self._memory.write(self.store, bytearray(records + head), 0)
        self._run("calculate", len(records), words, len(records) + len(head), wires)
        return self._memory.read(self.store, len(records), size)

    @property
    def _memory(self) -> wasmtime.Memory:
        return _exported(self._glue, "memory", wasmtime.Memory)

    def _run(self, function: str, *arguments: int) -> None:
        with self._translated_errors():
            called = _exported(self._glue, function, wasmtime.Func)
            called(self.store, *(_signed(argument) for argument in arguments))

    @contextmanager
    def _translated_errors(self) -> Iterator[None]:
        """Translate the errors of wasmtime in the body to those of Quod."""
        try:
            yield
        except wasmtime.Trap as trap:
            raise self._error_of(trap) from None
        except wasmtime.WasmtimeError as error:
            if "memory" in str(error) and "limit" in str(error):
                raise self._limit_error("memory") from None
            raise CalculatorError(
                f"{self.name}: is not a circom witness calculator: it cannot be instantiated "
                f"({_first_line(error)}); give the .wasm that circom wrote"
            ) from None

    def _error_of(self, trap: wasmtime.Trap) -> QuodError:
        """Return the error for a trap; it shows only templates and lines of messages."""
        code = trap.trap_code
        if code is wasmtime.TrapCode.INTERRUPT:
            return self._limit_error("time")
        if code is wasmtime.TrapCode.STACK_OVERFLOW:
            return self._limit_error("stack")
        number = self._global("code")
        if code is wasmtime.TrapCode.UNREACHABLE and number in _REASONS:
            if number == 5:
                return self._limit_error("memory")
            lines = self._lines()
            where = ", ".join(f"{template} line {line}" for template, line in lines)
            return CircuitError(
                f"{_REASONS[number]}{f' ({where})' if where else ''}",
                code=number, lines=lines, path=self._where,
            )  # fmt: skip
        kind = "an unknown trap" if code is None else code.name.lower().replace("_", " ")
        return CalculatorError(
            f"{self.name}: the witness calculator crashed ({kind}); compile the circuit again"
        )

    def _lines(self) -> list[tuple[str, int]]:
        """Return the pairs of template and line in the circuit's messages."""
        messages = _exported(self._runtime, "messages", wasmtime.Memory)
        text = messages.read(self.store, 0, self._global("end"))
        matches = _LINE.findall(text)[:_MAX_LINES]
        return [(template.decode(), int(line)) for template, line in matches]

    def _global(self, name: str) -> int:
        return int(_exported(self._runtime, name, wasmtime.Global).value(self.store))

    def _limit_error(self, resource: str) -> WitnessLimitError:
        limit = {
            "time": f"{self._limits.seconds:g} s",
            "memory": f"{self._limits.memory_bytes:,} bytes of memory",
            "stack": "its stack",
        }[resource]
        return WitnessLimitError(f"{self.name}: the witness takes more than {limit}")


def _exported(exports: Mapping[str, object], name: str, kind: type[T]) -> T:
    export = exports[name]
    assert isinstance(export, kind)
    return export


def _signed(number: int) -> int:
    return number - (1 << 32) if number >> 31 else number


def _first_line(error: Exception) -> str:
    text = str(error).splitlines()[0]
    return "".join(char if char.isprintable() else "?" for char in text)[:200]
