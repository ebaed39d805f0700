"""The statement of a proof of a layered circuit: all that precedes the commitment."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from quod.commitment.scheme import MAX_LOG2_SIZE
from quod.errors import InputError
from quod.field.element_bytes import encode
from quod.gkr.key import VerifyingKey
from quod.gkr.reduction import by_reduction, is_linear
from quod.gkr.security import log_instances
from quod.layered.circuit import LayeredCircuit
from quod.security import MIN_BITS
from quod.sumcheck.verifier import MAX_VARIABLES
from quod.transcript.elements import describe
from quod.transcript.labels import Label
from quod.transcript.transcript import Transcript

_PROTOCOL, _PROTOCOL_WITH_RANDOMS = "quod gkr 2", "quod gkr 3"


def protocol(key: VerifyingKey) -> str:
    """Return the name and version of the protocol of a key's proofs.

    Version 3 applies the hash chain a second time, after random coefficients. Proofs of circuits
    without any are of version 2.
    """
    return _PROTOCOL_WITH_RANDOMS if key.randoms else _PROTOCOL


class Statement:
    """The statement that inputs exist for which a circuit's outputs are 0 in each instance.

    public: the public inputs of each instance; a list of int for one instance, a list of such
        lists for several.
    instances: the number of instances.
    Raises MismatchError if the circuit is not the key's, and InputError for malformed public inputs
    and too little soundness.
    """

    def __init__(
        self, key: VerifyingKey, circuit: LayeredCircuit, public: Sequence[object], instances: int,
        *, checked: int | None = None, allow_bits: int = MIN_BITS,
    ) -> None:  # fmt: skip
        """Validate the statement.

        checked: the result of `checked_key` for these arguments, if the caller has it.
        """
        if checked is None:
            checked = checked_key(key, circuit, instances, allow_bits)
        self.log_instances = checked
        self.key, self.circuit, self.instances = key, circuit, int(instances)
        values: object = public
        if isinstance(values, (list, tuple)) and not values and not circuit.public:
            self.public: list[tuple[int, ...]] = [()] * self.instances
            """The public inputs of each instance."""
            return
        rows = by_instance("public inputs", values, self.instances)
        self.public = [_checked_row(circuit, row) for row in rows]
        for number in circuit.public_factors:
            if len({row[number] for row in self.public}) > 1:
                raise InputError(
                    f"public input {number} is a factor in the circuit, so it must be the "
                    "same in all instances"
                )

    @property
    def padded(self) -> list[tuple[int, ...]]:
        """The public inputs of 2**log_instances instances; the last row is repeated as padding."""
        missing = (1 << self.log_instances) - self.instances
        return self.public + [self.public[-1]] * missing

    def begin(self, transcript: Transcript) -> None:
        """Absorb the statement into the transcript."""
        self.absorb_common(transcript)
        self.absorb_public(transcript)

    def absorb_common(self, transcript: Transcript) -> None:
        """Absorb the part that statements of one key and number of instances share."""
        key = self.key
        transcript.begin(protocol(key))
        transcript.absorb(Label.FIELD, describe(key.field))
        reduction_prefix = by_reduction(key.reduction, places="", columns="columns ")
        parameters = f"chain {key.chain} {reduction_prefix}inputs {key.commitment.parameters()}"
        transcript.absorb(Label.PARAMETERS, parameters.encode())
        transcript.absorb(Label.CIRCUIT, key.circuit)
        transcript.absorb(Label.INSTANCES, self.instances.to_bytes(8, "little"))

    def absorb_public(self, transcript: Transcript) -> None:
        """Absorb the public inputs, which come last."""
        data = encode(self.circuit.field, [(value,) for row in self.public for value in row])
        count = self.circuit.public.to_bytes(8, "little")
        transcript.absorb_digest(Label.PUBLIC_INPUT, self.circuit.field, data, before=count)


def checked_key(key: VerifyingKey, circuit: LayeredCircuit, instances: int, allow_bits: int) -> int:
    """Check a key for a circuit; return log2 of the number of instances, rounded up.

    Raises MismatchError for a key of another circuit, InputError if soundness is below the bits of
    the key or `allow_bits`, or if there are too many instances.
    """
    key.check_circuit(circuit)
    log_size = log_instances(instances)
    max_log_size = _max_log_instances(key, circuit)
    if log_size > max_log_size:
        raise InputError(
            f"{int(instances):,} instances of this circuit are too many for one proof; prove at "
            f"most {1 << max_log_size:,} at a time"
        )
    key.check_bits(circuit, int(instances), allow_bits)
    return log_size


def _max_log_instances(key: VerifyingKey, circuit: LayeredCircuit) -> int:
    """Return the limit that follows from the limits of variables of commitments and sumchecks."""
    limits = [MAX_LOG2_SIZE - circuit.log_inputs]
    if by_reduction(key.reduction, places=True, columns=False):
        limits += [
            MAX_VARIABLES - circuit.log_below(number)
            for number, kinds in enumerate(circuit.kinds)
            if not is_linear(kinds)
        ]
    return max(0, min(limits))


def checked_lists(what: str, values: object, public: object) -> tuple[list[Any], list[Any]]:
    """Return both lists; raise InputError unless they are lists of the same length.

    what: the name of the values in errors.
    """
    if not isinstance(values, (list, tuple)) or not isinstance(public, (list, tuple)):
        raise InputError(f"{what} and the public inputs must be lists, with one entry per proof")
    if len(values) != len(public):
        raise InputError(
            f"{what} are given for {len(values)} proofs, but public inputs for {len(public)}"
        )
    return list(values), list(public)


def by_instance(what: str, values: object, instances: int) -> list[object]:
    """Return the list of values of each instance; a single instance needs no outer list.

    Raises InputError for another number of lists.
    """
    if not isinstance(values, (list, tuple)):
        raise InputError(f"the {what} must be a list")
    nested = bool(values) and all(isinstance(row, (list, tuple)) for row in values)
    if instances == 1 and not nested:
        return [values]
    if len(values) != instances:
        raise InputError(f"there are {instances} instances, but {what} for {len(values)}")
    return list(values)


def _checked_row(circuit: LayeredCircuit, row: object) -> tuple[int, ...]:
    p = circuit.field.value
    if (
        not isinstance(row, (list, tuple))
        or len(row) != circuit.public
        or any(type(value) is not int or not 0 <= value < p for value in row)
    ):
        raise InputError(
            f"the public inputs of an instance must be {circuit.public} int from 0 to {p - 1}"
        )
    return tuple(row)
