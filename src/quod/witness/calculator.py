"""A circuit's witness calculator, compiled once and run in a new sandbox for each witness."""

from __future__ import annotations

import threading
from collections.abc import Iterable, Mapping

from quod.errors import InputError, MismatchError, ServiceError
from quod.extras import installation
from quod.field.moduli import Modulus
from quod.formats.curves import field_named, field_of_prime
from quod.formats.iden3 import Iden3File
from quod.formats.source import Path, read_small
from quod.formats.strict_json import shown
from quod.formats.wtns import KIND, VERSION, Witness, wtns_head
from quod.names import nearest
from quod.validation import file_path, shown_kind, whole_number_or_none
from quod.witness.errors import CalculatorError
from quod.witness.input_names import names_of_main, symbols_beside
from quod.witness.inputs import Inputs, Signals, halves
from quod.witness.limits import WitnessLimits
from quod.wording import counted

try:
    import wasmtime
except ImportError:
    raise ServiceError(f"witnesses need wasmtime: {installation('wasm')}") from None

from quod.witness.module_cache import module_of
from quod.witness.sandbox import MESSAGES, Sandbox

_MAX_BYTES = 256 << 20
_MAX_WORDS = 32
"""The limit of 32-bit words of a field element."""
_MAX_LISTED = 8
"""The maximum number of inputs that a message lists."""
_IMPORTS = (
    "exceptionHandler", "printErrorMessage", "writeBufferMessage", "showSharedRWMemory"
)  # fmt: skip
_REQUIRED_EXPORTS = (
    "init", "setInputSignal", "getWitness", "getWitnessSize", "getRawPrime", "getFieldNumLen32",
    "readSharedRWMemory", "writeSharedRWMemory",
)  # fmt: skip
# Exports of calculators since circom 2.0.3.
_NEWER_EXPORTS = ("getInputSignalSize", "getInputSize")


def read_wasm(path: Path) -> bytes:
    """Read the bytes of a calculator's file or pipe, at most 256 MB."""
    return read_small(path, limit=_MAX_BYTES, what="a witness calculator", begins=b"\0asm")


class WitnessCalculator:
    """A calculator compiled by circom 2.0.3 or later (`circom --wasm`).

    Parameters: `wasm` is the module. `name` is the calculator's name in errors. `curve` and
    `variables`, if given, must match the attributes. `limits` bounds the resources of a witness and
    of compiling. `symbols` is the circuit's .sym file, from which errors take the names of inputs.

    Attributes: `curve` is Quod's name of the curve whose scalar field is used, or circom's name of
    a prime without a pairing curve (`goldilocks`). `variables` is the number of values of a
    witness, `inputs` that of input values. Compiled code is stored in the user's cache. Threads may
    share a calculator and compute concurrently.

    Raises `InputError` if the bytes are not a module, `CalculatorError` if the module is not
    circom's or is too old, `MismatchError` if `curve` or `variables` does not match, and
    `WitnessLimitError` if compiling exceeds `limits`.
    """

    def __init__(
        self,
        wasm: bytes,
        *,
        name: str = "the witness calculator",
        curve: str | None = None,
        variables: int | None = None,
        limits: WitnessLimits | None = None,
        symbols: Path | None = None,
    ) -> None:
        if not isinstance(wasm, bytes):
            raise InputError(f"a witness calculator must be bytes, not {shown_kind(wasm)}")
        self.name = name = file_path(name)
        variables = whole_number_or_none("the variables of a key", variables, 1)
        self._symbols = None if symbols is None else file_path(symbols)
        self._limits = WitnessLimits() if limits is None else limits
        if curve is not None:
            field_named(curve)
        self._module = module_of(wasm, name, self._limits)
        self._has_messages = self._check_interface()
        sandbox = self._sandbox()
        self._words = sandbox.ask("getFieldNumLen32")
        self.variables = sandbox.ask("getWitnessSize") & 0xFFFFFFFF
        self.inputs = sandbox.ask("getInputSize") & 0xFFFFFFFF
        if not self.variables:
            raise CalculatorError(
                f"{name}: reports that a witness has no values; it has at least the constant 1"
            )
        self.curve, field = self._field(sandbox)
        self._prime = field.value
        self._sizes: dict[str, int] = {}
        self._lock = threading.Lock()
        if curve is not None and curve != self.curve:
            raise MismatchError(
                f"was compiled for the field of {self.curve}, but the key is over {curve}; "
                "see circom's --prime",
                path=name,
            )
        if variables is not None and variables != self.variables:
            raise MismatchError(
                f"computes a witness of {self.variables} values, but the key takes {variables}; "
                "they are of different circuits",
                path=name,
            )
        self._head = wtns_head(self.curve, self.variables)

    @classmethod
    def open(cls, path: Path, *, limits: WitnessLimits | None = None) -> WitnessCalculator:
        """Open a file or pipe of at most 256 MB; `InputError` if it cannot be read.

        Errors take names of inputs from the circuit's .sym file, if it is where circom wrote it.
        """
        name = file_path(path)
        return cls(read_wasm(path), name=name, limits=limits, symbols=symbols_beside(name))

    def calculate(self, inputs: Inputs, *, where: str = "inputs") -> bytes:
        """Return the .wtns file for inputs, byte for byte that of snarkjs.

        `inputs` is JSON or a mapping, `{"signal": number or list}`; errors call it `where`. Raises
        `InputError` for an input that is missing, unknown, of another length or not a number below
        the modulus, before anything is computed; `CircuitError` if the circuit rejects the inputs;
        `WitnessLimitError` if computing exceeds `limits`; `CalculatorError` if the calculator
        fails.
        """
        where = file_path(where)
        signals = Signals(inputs, self._prime, where)
        self._check_sizes(signals.numbers, where)
        records = signals.records(4 * self._words)
        sandbox = self._sandbox(where)
        return bytes(sandbox.calculate(records, self._head, self._words, self.variables))

    def witness(self, inputs: Inputs, *, where: str = "inputs") -> Witness:
        """Return the result of `calculate` as a validated witness; raises as `calculate` does."""
        return self.parse(self.calculate(inputs, where=where))

    def parse(self, wtns: bytes) -> Witness:
        """Parse a result of `calculate`; `InputError` for values that are invalid in a witness."""
        return Witness.of(Iden3File.parse(memoryview(wtns), self.name, KIND, VERSION))

    def _sandbox(self, where: str = "inputs") -> Sandbox:
        return Sandbox(self._module, self._has_messages, self._limits, self.name, where)

    def _check_interface(self) -> bool:
        """Check imports and exports against circom's.

        Returns True if the calculator exports the text of its error messages. Raises
        CalculatorError if the imports or exports differ.
        """
        functions = {
            export.name
            for export in self._module.exports
            if isinstance(export.type, wasmtime.FuncType)
        }
        for imported in self._module.imports:
            if isinstance(imported.type, wasmtime.MemoryType):
                raise self._outdated_error("it imports its memory")
            if imported.module != "runtime" or imported.name not in _IMPORTS:
                import_name = shown(f"{imported.module}.{imported.name}")
                raise CalculatorError(
                    f"{self.name}: imports {import_name}, which circom's calculators do not; give "
                    "the .wasm that circom wrote"
                )
        for name in _REQUIRED_EXPORTS:
            if name not in functions:
                raise CalculatorError(
                    f"{self.name}: is no circom 2 witness calculator: it does not export {name}; "
                    "compile the circuit with `circom --wasm`"
                )
        for name in _NEWER_EXPORTS:
            if name not in functions:
                raise self._outdated_error(f"it does not export {name}")
        return MESSAGES in functions

    def _outdated_error(self, reason: str) -> CalculatorError:
        return CalculatorError(
            f"{self.name}: was compiled by a circom before 2.0.3 ({reason}); compile the circuit "
            "with a later version"
        )

    def _field(self, sandbox: Sandbox) -> tuple[str, Modulus]:
        """Return the name and the field of the calculator's prime; CalculatorError if unknown."""
        if not 1 <= self._words <= _MAX_WORDS:
            raise CalculatorError(
                f"{self.name}: reports that a field element has {self._words} words"
            )
        prime = sandbox.prime(self._words)
        named_field = field_of_prime(prime)
        if named_field is None or named_field[1].words != self._words:
            raise CalculatorError(
                f"{self.name}: computes modulo 0x{prime:x} in {self._words} words, a field that "
                "Quod does not support; see circom's --prime"
            )
        return named_field

    def _learn_sizes(self, names: Iterable[str]) -> None:
        """Ask the calculator for the sizes of inputs that are not cached yet."""
        unknown = [name for name in names if name not in self._sizes]
        if unknown:
            with self._lock:
                sandbox = self._sandbox()
                for name in unknown:
                    size = sandbox.ask("getInputSignalSize", *halves(name))
                    # Only existing inputs are cached; unknown names would accumulate without limit.
                    if size > 0:
                        self._sizes[name] = size

    def _check_sizes(self, inputs: dict[str, list[int]], where: str) -> None:
        """Raise InputError unless all inputs are present, known and of the right size."""
        self._learn_sizes(inputs)
        for name, numbers in inputs.items():
            size = self._sizes.get(name, 0)
            # Calculators report size 0 for an unknown input and for one without values, so an
            # unknown name with an empty list passes.
            if size == 0 and numbers:
                raise InputError(
                    f"the circuit has no input {shown(name)}{self._hint(name)}", path=where
                )
            if size != len(numbers):
                raise InputError(
                    f"the input {shown(name)} takes {counted(size, 'number')}, and "
                    f"{len(numbers)} are given",
                    path=where,
                )
        total = sum(map(len, inputs.values()))
        if total != self.inputs:
            raise InputError(self._missing_message(inputs, total), path=where)

    def _inputs_of_symbols(self) -> list[str]:
        """Return the names of inputs in the .sym file; empty without one."""
        names = names_of_main(self._symbols)
        self._learn_sizes(names)
        return [name for name in names if name in self._sizes]

    def _missing_message(self, inputs: Mapping[str, list[int]], total: int) -> str:
        """Return a message that names the missing inputs, if symbols are available."""
        absent = [name for name in self._inputs_of_symbols() if name not in inputs]
        if absent:
            listed = ", ".join(
                f"{shown(name)} ({counted(self._sizes[name], 'number')})"
                for name in absent[:_MAX_LISTED]
            )
            others = len(absent) - _MAX_LISTED
            end = f" and {others} more" if others > 0 else ""
            subject = "the input" if len(absent) == 1 else "the inputs"
            return f"{subject} {listed}{end} {'is' if len(absent) == 1 else 'are'} missing"
        listed = ", ".join(inputs) if len(inputs) <= _MAX_LISTED else f"{len(inputs)} inputs"
        return (
            f"an input is missing: the circuit takes {self.inputs} numbers, and {total} are "
            f"given ({listed or 'no input'})"
        )

    def _hint(self, name: str) -> str:
        """Return advice on the name of an unknown input; empty without a similar name."""
        base = name.partition("[")[0]
        spellings = [text for text in (base, base.removeprefix("main.")) if text not in ("", name)]
        self._learn_sizes(spellings)
        for spelling in spellings:
            if size := self._sizes.get(spelling, 0):
                value = (
                    "value" if size == 1 else f"[...], one list of its {counted(size, 'number')}"
                )
                return f"; write {shown(spelling)}: {value}"
        suggestion = nearest(name, self._inputs_of_symbols())
        return "" if suggestion is None else f"; did you mean {shown(suggestion)}?"
