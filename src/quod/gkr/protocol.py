"""The protocol after the commitment: the order and the sizes of messages and challenges.

The steps follow from the circuit, the reduction and the number of instances, never from a proof.
No other module counts messages. The prover takes the offsets at which its launches write, both
verifiers take the order and the sizes of the messages that they read, and `quod.gkr.size` and
`quod.gkr.security` take totals. The steps are

    Delay, Challenges (random coefficients)
    Delay, Challenges (point of the outputs), Challenges (point of the instances)
    for each layer, from the outputs to the inputs:
        for each of its sumchecks: Rounds, Values
        Challenges (they combine the claims about the layer below)

A circuit without random coefficients has neither the first delay nor challenges for them.
docs/gkr.md has the protocol with its claims.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import cached_property
from typing import ClassVar
from weakref import WeakKeyDictionary

from quod.frozen import frozen
from quod.gkr.reduction import (
    Reduction,
    by_reduction,
    degree_by_columns,
    exponents_of,
    find_sent_wires,
    is_linear,
)
from quod.layered.circuit import LayeredCircuit
from quod.transcript.labels import Label


@frozen(eq=False)
class Delay:
    """The sequential hash delay: `VerifyingKey.chain` empty messages."""

    label: ClassVar[Label] = Label.CHAIN


@frozen(eq=False)
class Challenges:
    """`count` consecutive challenges. All but the first follow an empty message."""

    label: ClassVar[Label] = Label.NEXT
    count: int


@frozen(eq=False)
class Rounds:
    """The rounds of a sumcheck: in each a message of `degree` elements, then a challenge.

    first: the index of the first element after the commitment.
    wires: the number of variables over the wires below the layer; their rounds come first.
    instances: the number of variables over the instances. If it is not 0, eq weights the
        polynomial, at the point of the instances and at 1/2 in the wire variables.
    degree: the degree of the polynomial without eq.
    """

    label: ClassVar[Label] = Label.ROUND
    first: int
    wires: int
    instances: int
    degree: int

    @property
    def variables(self) -> int:
        """The number of rounds."""
        return self.wires + self.instances

    @property
    def elements(self) -> int:
        """The number of elements of all rounds."""
        return self.variables * self.degree


@frozen(eq=False)
class Values:
    """The evaluations of the tables at the point of a sumcheck.

    first: the index of the first element after the commitment.
    count: the number of elements.
    by_runs: whether the transcript absorbs digests of runs of elements (`quod.transcript.runs`)
        instead of one message.
    """

    label: ClassVar[Label] = Label.VALUES
    first: int
    count: int
    by_runs: bool


Step = Delay | Challenges | Rounds | Values


@frozen(eq=False)
class Sumcheck:
    """A sumcheck of a layer.

    failure: the error message if its values do not agree with its rounds.
    """

    rounds: Rounds
    values: Values
    failure: str


@frozen(eq=False)
class Layer:
    """The steps from the claims about a layer to the claims about the layer below.

    The values of the sumchecks are claims about the layer below, which `challenges` combine.
    """

    number: int
    sumchecks: tuple[Sumcheck, ...]
    challenges: Challenges

    @property
    def steps(self) -> Iterator[Step]:
        """All steps of the layer, in order."""
        for sumcheck in self.sumchecks:
            yield sumcheck.rounds
            yield sumcheck.values
        yield self.challenges


class ProtocolSteps:
    """The steps of a proof after its commitment; `layers` is ordered from outputs to inputs.

    Offsets and sizes are in elements of the field of challenges.
    """

    def __init__(
        self, circuit: LayeredCircuit, log_instances: int, layer_steps: LayerSteps
    ) -> None:
        self.delays = (Delay(), Delay())
        """The delay before the random coefficients, and the delay before the first point."""
        self.randoms = Challenges(circuit.randoms)
        self.outputs = Challenges(circuit.log_outputs)
        self.instances = Challenges(log_instances)
        self.elements = 0
        """The number of elements of a proof after the commitment."""
        indices = reversed(range(len(circuit.layers)))
        self.layers = tuple(
            layer_steps(circuit, index, log_instances, self._sumcheck) for index in indices
        )

    def _sumcheck(
        self, failure: str, *, wires: int, instances: int, degree: int, values: int,
        by_runs: bool = False,
    ) -> Sumcheck:  # fmt: skip
        """Return a sumcheck whose elements follow those of the previous sumcheck."""
        rounds = Rounds(self.elements, wires, instances, degree)
        end_values = Values(rounds.first + rounds.elements, values, by_runs)
        self.elements = end_values.first + end_values.count
        return Sumcheck(rounds, end_values, failure)

    def layer(self, number: int) -> Layer:
        """Return a layer by its number; 0 is the layer above the inputs."""
        return self.layers[-1 - number]

    @property
    def steps(self) -> Iterator[Step]:
        """All steps, in the order of prover and verifier."""
        if self.randoms.count:
            # The circuit itself could compute hashes, as its gates have the random coefficients.
            yield from (self.delays[0], self.randoms)
        yield from (self.delays[1], self.outputs, self.instances)
        for layer in self.layers:
            yield from layer.steps

    @cached_property
    def round_degrees(self) -> int:
        """The sum of the degrees of all rounds' polynomials."""
        return sum(
            sumcheck.rounds.elements for layer in self.layers for sumcheck in layer.sumchecks
        )

    @cached_property
    def combining_challenges(self) -> int:
        """The number of challenges that combine claims."""
        return sum(layer.challenges.count for layer in self.layers)


class StepsInOrder:
    """The position of a reader in the sequence of steps.

    Its methods raise AssertionError for a step that is not the next one, so a reader neither skips
    nor reorders messages.
    """

    def __init__(self, steps: ProtocolSteps) -> None:
        self._steps = steps.steps

    def take(self, step: Step) -> None:
        """Advance past a step; raise AssertionError if it is not the next one."""
        self._expect(step)

    def end(self) -> None:
        """Raise AssertionError if a step was not taken."""
        self._expect(None)

    def _expect(self, step: Step | None) -> None:
        next_step = next(self._steps, None)
        if step is not next_step:
            raise AssertionError(f"the protocol goes on with {next_step}, and not with {step}")


LayerSteps = Callable[[LayeredCircuit, int, int, Callable[..., Sumcheck]], Layer]

_steps: WeakKeyDictionary[LayeredCircuit, dict[tuple[Reduction, int], ProtocolSteps]] = (
    WeakKeyDictionary()
)


def protocol_steps(
    circuit: LayeredCircuit, reduction: Reduction, log_instances: int
) -> ProtocolSteps:
    """Return the steps of proofs of 2**log_instances instances, cached by circuit."""
    layer = by_reduction(reduction, places=_two_phase, columns=_data_parallel)
    cached = _steps.setdefault(circuit, {})
    if (reduction, log_instances) not in cached:
        cached[reduction, log_instances] = ProtocolSteps(circuit, log_instances, layer)
    return cached[reduction, log_instances]


def _two_phase(
    circuit: LayeredCircuit, number: int, log_instances: int, sumcheck: Callable[..., Sumcheck]
) -> Layer:
    """Return the steps of a two-phase layer.

    The first sumcheck is over the gates' first inputs and the instances, the second over the second
    inputs of product gates. A layer without products and powers has no rounds over instances.
    """
    kinds, log_below = circuit.kinds[number], circuit.log_below(number)
    has_products = "multiply" in kinds
    first = sumcheck(
        f"layer {number} is not what the proof claims", wires=log_below,
        instances=0 if is_linear(kinds) else log_instances,
        degree=max([2, *(exponent + 1 for exponent in exponents_of(kinds))]),
        values=1 + has_products,
    )  # fmt: skip
    if not has_products:
        return Layer(number, (first,), Challenges(0))
    second = sumcheck(
        f"the products of layer {number} are not what the proof claims", wires=log_below,
        instances=0, degree=2, values=1,
    )  # fmt: skip
    # The two claims about the inputs are not combined: the commitment is opened at both points.
    return Layer(number, (first, second), Challenges(int(number > 0)))


def _data_parallel(
    circuit: LayeredCircuit, number: int, log_instances: int, sumcheck: Callable[..., Sumcheck]
) -> Layer:
    """Return the steps of a data-parallel layer: rounds over the instances, then wires' values.

    A linear layer has no rounds.
    """
    degree = degree_by_columns(circuit.kinds[number])
    sumcheck_steps = sumcheck(
        f"layer {number} is not what the proof claims", wires=0,
        instances=log_instances if degree > 1 else 0, degree=degree,
        values=len(find_sent_wires(circuit, number)), by_runs=True,
    )  # fmt: skip
    return Layer(number, (sumcheck_steps,), Challenges(circuit.log_below(number)))
