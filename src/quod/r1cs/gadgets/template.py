"""Templates: a compiled circuit, such as a circom template's .r1cs, inside a circuit in Python.

Its constraints are copied unchanged. The caller provides a function that computes its values, such
as one that calls its `quod.witness.WitnessCalculator`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import pairwise

from quod.errors import InputError, MismatchError
from quod.field.array import words_to_integers
from quod.field.moduli import Modulus
from quod.formats import R1cs, SparseMatrix
from quod.r1cs.gadgets.signals import signals
from quod.r1cs.signal import Signal, hide_frames_of
from quod.r1cs.system import ConstraintSystem, Operand
from quod.validation import in_order

hide_frames_of(__file__)

Calculate = Callable[[list[int]], Sequence[int]]
"""A function from the values of a template's inputs to the values of all wires of its file."""


class Template:
    """A constraint system in a file that circuits call with signals for its inputs.

    inputs: the number of inputs, the public ones first.
    outputs: the number of outputs.
    Raises InputError if outputs, public inputs and private inputs are not the first wires of the
    file, in this order: circom drops inputs that no constraint uses, and circuits in Python may
    declare inputs and outputs at any time.
    """

    def __init__(self, r1cs: R1cs, calculate: Calculate) -> None:
        self._file = r1cs
        self._calculate = calculate
        self.outputs = r1cs.public_outputs
        self.inputs = r1cs.public_inputs + r1cs.private_inputs
        if not r1cs.has_labels:
            raise InputError(
                "the file has no wire labels, so it is unknown whether each input has a wire; "
                "compile the template with circom",
                path=r1cs.path,
            )
        # circom numbers all signals: 1, the outputs and inputs of the template, then all others.
        labelled = 1 + self.outputs + self.inputs
        if sorted(r1cs.wire_labels[:labelled].tolist()) != list(range(labelled)):
            raise InputError(
                "the wires after the constant 1 are not the outputs, public inputs and private "
                "inputs, in this order. For a circom template, use each input in a constraint, or "
                "compile with --O0; in a circuit in Python, add outputs before public inputs, and "
                "declare private inputs before other wires",
                path=r1cs.path,
            )
        self._rows = [_rows(matrix, r1cs.fr) for matrix in r1cs.matrices]

    def __call__(
        self, system: ConstraintSystem, inputs: Sequence[Operand], name: str = "template"
    ) -> list[Signal]:
        """Add the template's constraints to a system, in a namespace, and return its outputs.

        Raises MismatchError if the system is over another field.
        """
        if system.prime != self._file.fr.value:
            raise MismatchError(
                f"the template is over {self._file.curve}, but the circuit is over {system.curve}"
            )
        input_signals = signals(system, "the inputs of the template", inputs, self.inputs)
        with system.namespace(name):
            inner_count = self._file.wires - 1 - self.outputs - self.inputs
            count = self.outputs + inner_count
            hint_signals = system.hint(self._values, input_signals, count) if count else []
            outputs, inner_wires = hint_signals[: self.outputs], hint_signals[self.outputs :]
            wires = [system.one, *outputs, *input_signals, *inner_wires]
            for row in zip(*self._rows, strict=True):
                a, b, c = (
                    system.sum([wires[index] for index, _ in terms], [value for _, value in terms])
                    for terms in row
                )
                system.enforce(a, b, c)
        return outputs

    def _values(self, *inputs: int) -> list[int]:
        """Return the values of the outputs, followed by those of the wires after the inputs."""
        values = list(
            in_order("the result of a template's calculator", self._calculate(list(inputs)))
        )
        first_input = 1 + self.outputs
        if len(values) != self._file.wires:
            raise MismatchError(
                f"the calculator returned {len(values)} values, but the template has "
                f"{self._file.wires} wires"
            )
        return values[1:first_input] + values[first_input + self.inputs :]


def _rows(matrix: SparseMatrix, field: Modulus) -> list[list[tuple[int, int]]]:
    """Return the terms (wire, coefficient) of each row of a matrix."""
    terms = list(zip(matrix.column.tolist(), words_to_integers(field, matrix.value), strict=True))
    return [terms[start:end] for start, end in pairwise(matrix.row_ptr.tolist())]
