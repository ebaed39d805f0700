"""Circuits: a traced constraint system with its matrices and its witness program."""

from __future__ import annotations

import io
from collections.abc import Callable, Mapping, Sequence
from functools import cached_property
from typing import BinaryIO, overload

from quod.device.discovery import DeviceChoice, resolve_device
from quod.device.protocol import AnyDevice, in_host_memory
from quod.errors import InputError, MismatchError
from quod.field.array import Words, integers_to_words, words_to_integers
from quod.field.moduli import Modulus
from quod.formats import R1cs, SparseMatrix, Witness
from quod.formats.curves import curve_named
from quod.formats.iden3 import Iden3File
from quod.formats.output import Content, write_all_atomically, write_atomically
from quod.formats.r1cs import KIND, VERSION, r1cs_writer
from quod.formats.source import Path
from quod.formats.wtns import write_wtns, wtns_writer
from quod.r1cs import digest
from quod.r1cs.checks import Failure, UnsatisfiedError, failing_rows, failures_of
from quod.r1cs.determinism.lints import Finding, lints_of
from quod.r1cs.determinism.report import Report
from quod.r1cs.determinism.report import check as decide
from quod.r1cs.determinism.sources import rows_of_circuit
from quod.r1cs.determinism.tamper import Accepted, tampered
from quod.r1cs.inputs import Inputs, input_values, place_of
from quod.r1cs.names import symbols, wire_labels
from quod.r1cs.profile import Profile
from quod.r1cs.repetition.flattening import flattened
from quod.r1cs.repetition.parts import Parts, parts_of
from quod.r1cs.resident_witness import OF_A_CIRCUIT
from quod.r1cs.shape import Counts, Shape, shape_of
from quod.r1cs.signal import ONE
from quod.r1cs.system import ConstraintSystem
from quod.r1cs.witness_program import replay
from quod.r1cs.witness_program.steps import Input
from quod.r1cs.witnesses import WitnessProgram
from quod.validation import called, check_function, in_order, whole_number


class Circuit:
    """A traced circuit with its witness program; `trace` returns one.

    curve: the name of the curve; the circuit is over its scalar field `field`.
    wires: the number of wires, including the constant 1.
    public: the number of public wires; in a witness they follow the constant 1.
    public_outputs: the number of public wires that are outputs. It is 0 if a public input was
        declared before an output, because circom's files have outputs first.
    constraints: the number of rows of the constraint system.
    """

    _source: Callable[[], ConstraintSystem]

    def __init__(self, system: ConstraintSystem) -> None:
        """Finish a traced system.

        Raises InputError if no constraint or hint determines the value of a wire.
        """
        system.finish()
        self._source = lambda: system
        public = len(system.public_names)
        counts = Counts(
            public, system.outputs if system.outputs_first else 0, system.private_inputs,
            1 + public + system.wires, system.rows, system.step_count,
        )  # fmt: skip
        self._describe(system.curve, counts, system.inputs)

    def _describe(self, curve: str, counts: Counts, inputs: Mapping[str, Input]) -> None:
        """Set the attributes that do not need the constraint system."""
        self.curve, self.counts, self.inputs = curve, counts, inputs
        self.field: Modulus = curve_named(curve).fr
        self.public = counts.public
        self.public_outputs = counts.public_outputs
        self.public_inputs = counts.public - counts.public_outputs
        self.private_inputs = counts.private_inputs
        self.wires = counts.wires
        self.constraints = counts.constraints

    def __repr__(self) -> str:
        return (
            f"<Circuit over {self.curve}: {self.constraints} constraints, {self.wires} wires, "
            f"{self.public} public>"
        )

    @property
    def path(self) -> str:
        """The circuit's name in errors: its size and curve."""
        return f"a circuit of {self.constraints} constraints over {self.curve}"

    @cached_property
    def traced(self) -> ConstraintSystem:
        """The constraint system that tracing the circuit's function built, with its placements."""
        return self._source()

    @cached_property
    def system(self) -> ConstraintSystem:
        """The constraint system with the rows of all placements.

        Raises InputError for a circuit of more rows than can be listed (`flattening.MAX_ROWS`).
        """
        return flattened(self.traced)

    @cached_property
    def parts(self) -> Parts:
        """The constraints of each repeated function once; see `quod.r1cs.repetition.parts`."""
        return parts_of(self.traced)

    @cached_property
    def shape(self) -> Shape:
        """The matrices with a table of distinct coefficients.

        Raises InputError for a circuit of more entries than can be listed (`parts.MAX_ENTRIES`).
        """
        return shape_of(self.parts)

    @cached_property
    def matrices(self) -> tuple[SparseMatrix, SparseMatrix, SparseMatrix]:
        """A, B and C with canonical coefficients; the wires of a row are in ascending order."""
        return self.shape.matrices()

    def circuit_hash(self) -> str:
        """The hash of the shape, 64 hexadecimal digits: bellman's `TestConstraintSystem::hash`."""
        return digest.circuit_hash(self.matrices, self.public, self.wires, self.field.bytes)

    # --- witnesses

    def witness(self, inputs: Inputs, *, check: bool = True) -> Witness:
        """Compute the values of all wires for these inputs.

        With `check`, every constraint is evaluated, and `UnsatisfiedError` names the constraints
        that fail. Raises `InputError` for inputs that do not fit the circuit. The first witness of
        a circuit without `ConstraintSystem.repeat` is computed step by step in Python. All others
        of a large circuit are computed by compiled programs (`prepare`).
        """
        (witness,) = self.witnesses([inputs], check=check)
        return witness

    def witnesses(
        self, inputs: Sequence[Inputs], *, check: bool = True, device: DeviceChoice | None = None
    ) -> list[Witness]:
        """Compute the witnesses of many inputs as one batch; see `witness`.

        On the CPU each input has a SIMD lane. On a GPU (`device`) each input has an instance, and
        the witnesses stay in device memory (`ResidentWitness`): proving keys on that device read
        them there, and `values` copies them to the host. A GPU is faster from hundreds of inputs
        on, and slower than the CPU for one input. An error about one of several inputs begins with
        its index, as in ``inputs[3]``.
        """
        batch = list(inputs)
        target = None if device is None else resolve_device(device)
        if not batch:
            return []
        if target is not None and not in_host_memory(target):
            return self._resident(batch, target, check=check)
        values = self.program.values(batch)
        if check:
            self._raise_for_failing(self._failing(values), lambda index: values[index])
        return [
            Witness(OF_A_CIRCUIT, self.curve, wire_values, wire_values.nbytes)
            for wire_values in values
        ]

    def _resident(
        self, inputs: Sequence[Inputs], device: AnyDevice, *, check: bool
    ) -> list[Witness]:
        """Compute witnesses in a device's memory; see `witnesses`."""
        witnesses, memories = self.program.resident(inputs, device)
        if check:
            failing = self.program.failing_in(memories, device)
            self._raise_for_failing(failing, lambda index: witnesses[index].values)
        return list(witnesses)

    def _raise_for_failing(self, failing: list[list[int]], values: Callable[[int], Words]) -> None:
        """Raise UnsatisfiedError for the first witness with failing rows, if any."""
        for index, rows in enumerate(failing):
            if rows:
                failures = self._failures(values(index), rows)
                raise UnsatisfiedError(failures, self.constraints, place_of(index, len(failing)))

    def prepare(self) -> None:
        """Compile the witness program now, or load it from the cache of compiled programs."""
        self.program.prepare()

    @cached_property
    def program(self) -> WitnessProgram:
        """The program that computes witnesses from inputs."""
        return WitnessProgram(self)

    def values(self, inputs: Inputs) -> list[int]:
        """Compute a witness as integers, step by step; no constraint is checked. See `witness`."""
        system = self.system
        wire_values = input_values(system.inputs, inputs, system.prime)
        return replay.in_order(system, replay.replayed(system, wire_values))

    @overload
    def check(self, witness: Witness | Sequence[int]) -> list[Failure]: ...
    @overload
    def check(
        self, *, inputs: Sequence[str] | None = None, targets: Sequence[str] | None = None,
        start: Inputs | Witness | Sequence[int] | None = None, seconds: float = 60.0,
    ) -> Report: ...  # fmt: skip
    def check(
        self, witness: Witness | Sequence[int] | None = None, *,
        inputs: Sequence[str] | None = None, targets: Sequence[str] | None = None,
        start: Inputs | Witness | Sequence[int] | None = None, seconds: float = 60.0,
    ) -> list[Failure] | Report:  # fmt: skip
        """Check a witness, or without one decide whether the inputs determine the outputs.

        With a witness, or a sequence of its integers: return the constraints that it does not
        satisfy. Raises MismatchError if the length or curve differs from the circuit's, and
        InputError if the first value is not 1.

        Without: return a report with a verdict for each target (docs/determinism.md). By default
        the targets are the public values that the circuit computes, and the inputs the declared
        ones. `start` is a witness, or values of the inputs for one, from which the search for
        counterexamples starts. Targets that are not decided within the time limit are unknown.
        Raises InputError for a name that no signal has, and for a start that does not satisfy the
        constraints.
        """
        if witness is None:
            question = rows_of_circuit(self.system, inputs=inputs, targets=targets)
            values = None
            if isinstance(start, Mapping):
                values = self.values(start)
            elif start is not None:
                values = self._integers(self._words_of(start))
            return decide(question, witness=values, seconds=seconds)
        words = self._words_of(witness)
        (rows,) = self._failing(words[None])
        return self._failures(words, rows)

    def _words_of(self, witness: Witness | Sequence[int]) -> Words:
        """Return the values of a witness; raises MismatchError or InputError as `check` does."""
        if isinstance(witness, Witness):
            if witness.curve != self.curve:
                raise MismatchError(
                    f"the witness is over {witness.curve} and the circuit over {self.curve}"
                )
            words = witness.values
        else:
            prime = self.field.value
            words = integers_to_words(
                self.field,
                [
                    whole_number("a value of a witness", value) % prime
                    for value in in_order("a witness", witness)
                ],
            )
        if len(words) != self.wires:
            raise MismatchError(
                f"the witness has {len(words)} values and the circuit {self.wires} wires"
            )
        if words[0, 0] != 1 or words[0, 1:].any():
            raise InputError("the first value of a witness must be 1")
        return words

    def _failing(self, witnesses: Words) -> list[list[int]]:
        """Return, for each witness, the rows that fail."""
        if self.program.is_prepared:
            return self.program.failing(witnesses)
        return [
            failing_rows(self.system, replay.by_wire(self.system, self._integers(words)))
            for words in witnesses
        ]

    def _failures(self, words: Words, rows: Sequence[int]) -> list[Failure]:
        def value_of(wire: int) -> int:
            index = -wire if wire < ONE else wire + self.public * (wire > ONE)
            (value,) = self._integers(words[index : index + 1])
            return value

        return failures_of(self.traced, value_of, rows)

    def _integers(self, words: Words) -> list[int]:
        return words_to_integers(self.field, words)

    # --- inspection

    def lints(self) -> list[Finding]:
        """Return findings from the structure of constraints; see `quod.r1cs.determinism.lints`."""
        return lints_of(self.system)

    def tamper(self, count: int, inputs: Inputs, *, seed: int = 0) -> list[Accepted]:
        """Change `count` non-input wires, one at a time; return the changes that pass the check.

        A non-empty result usually means missing constraints: see `quod.r1cs.determinism.tamper`.
        """
        return tampered(
            self.system, whole_number("count", count, 1), inputs,
            seed=seed,
        )  # fmt: skip

    def profile(self) -> Profile:
        """Count the constraints by the namespace and by the line of code that adds them."""
        return Profile(self.system)

    # --- files

    @cached_property
    def r1cs(self) -> R1cs:
        """The constraint system in memory, in the form of an open .r1cs file."""
        file = io.BytesIO()
        self._r1cs_writer()(file)
        name = "the constraints of a circuit"
        return R1cs.of(Iden3File.parse(memoryview(file.getvalue()), name, KIND, VERSION))

    def write_r1cs(self, path: Path) -> None:
        """Write the constraints as circom does (.r1cs); OutputError if that fails."""
        write_atomically(path, self._r1cs_writer())

    def write_sym(self, path: Path) -> None:
        """Write the names of all wires as circom does (.sym); OutputError if that fails."""
        write_atomically(path, self._symbols())

    def wasm(self) -> bytes:
        """Return the witness calculator: a WebAssembly module with the interface of circom's.

        It computes the witnesses of `witness`. In its interface an input of bits has a value for
        each bit. Raises InputError for a hint that is not a function of
        `quod.r1cs.portable_hints`, and for a circuit that is too large.
        """
        # Not at the top: commands that prove with a cached circuit need neither.
        from quod.r1cs.calculator.circuit_module import calculator_module

        return calculator_module(self)

    def write_wasm(self, path: Path) -> None:
        """Write the result of `wasm` to a file; also raises OutputError if writing fails."""
        write_atomically(path, self.wasm())

    def write_wtns(self, path: Path, inputs: Inputs) -> None:
        """Write the witness for these inputs as circom's witness calculators do (.wtns).

        Raises the errors of `witness`, and OutputError if writing fails.
        """
        write_wtns(path, self.curve, self.witness(inputs).values)

    def write_files(
        self, r1cs: Path, *, sym: Path | None = None, wasm: Path | None = None,
        wtns: Path | None = None, inputs: Inputs | None = None,
    ) -> None:  # fmt: skip
        """Write several files of the circuit, all or none; None stands for no file.

        inputs: those of the witness in `wtns`.
        Raises InputError for `wtns` without `inputs`, and the errors of `write_r1cs`, `write_wasm`
        and `write_wtns`.
        """
        contents: dict[Path, Content] = {r1cs: self._r1cs_writer()}
        if sym is not None:
            contents[sym] = self._symbols()
        if wasm is not None:
            contents[wasm] = self.wasm()
        if wtns is not None:
            if inputs is None:
                raise InputError("a witness needs inputs")
            contents[wtns] = wtns_writer(self.curve, self.witness(inputs).values)
        write_all_atomically(contents, private=[] if wtns is None else [wtns])

    def _symbols(self) -> bytes:
        return symbols(self.system).encode()

    def _r1cs_writer(self) -> Callable[[BinaryIO], None]:
        a, b, c = self.matrices
        return r1cs_writer(
            curve=self.curve, wires=self.wires, public_outputs=self.public_outputs,
            public_inputs=self.public_inputs, private_inputs=self.private_inputs, a=a, b=b, c=c,
            wire_labels=wire_labels(
                self.inputs, self.public_outputs, self.public, self.wires
            ),
        )  # fmt: skip


def trace(function: Callable[..., object], curve: str = "bn254") -> Circuit:
    """Trace a function into a circuit over the scalar field of a curve.

    The function is called once with an empty system. It declares inputs and outputs
    (`ConstraintSystem.private`, `public`, `output`) and computes with signals; its result is
    ignored. Its further parameters are inputs, with the types of
    `quod.r1cs.functions.signature` as annotations; those with a default value are none. Raises
    InputError for an unknown curve, for a wire without a value, for a parameter without such a
    type, and for a generator or coroutine function, which a call does not run. Raises `TraceError`
    if the function uses the value of a signal.
    """
    check_function("a circuit", function)
    from quod.r1cs.functions.signature import declared_inputs

    system = ConstraintSystem(curve)
    called("the circuit's function", function, system, *declared_inputs(function, system))
    return Circuit(system)
