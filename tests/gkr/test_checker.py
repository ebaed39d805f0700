"""The fast verifier gives the verdicts of the reference verifier on every device."""

from __future__ import annotations

import ast
import itertools
import random
from pathlib import Path
from typing import Any

import pytest

from quod.commitment import Hyrax, Ligero, Raw
from quod.commitment.scheme import Scheme
from quod.device.discovery import open_device
from quod.device.protocol import AnyDevice
from quod.errors import DeviceError, InputError, MismatchError, QuodError, VerificationError
from quod.field import EXTENSIONS, NAMED, FieldSpec, Modulus
from quod.field.element_bytes import Plain
from quod.gkr import Prover, Reduction, Verifier, VerifyingKey, verify
from quod.gkr.checker import factors as checker_factors
from quod.gkr.checker import schedule as checker_schedule
from quod.gkr.checker.data_parallel import schedule as columns_schedule
from quod.gkr.checker.two_phase import plan as places_plan
from quod.gkr.statement import Statement
from quod.layered import LayeredCircuit
from quod.transcript import Hash
from tests.gkr.circuits import Rows, satisfied
from tests.gkr.mutations import mutated
from tests.gkr.test_gkr import FIELDS
from tests.reference import gkr as reference
from tests.support.idle_device import Idle
from tests.support.skipping_device import SkippingDevice
from tests.support.thorough import one_and_others

M31_4 = EXTENSIONS["m31.4"]


class Proven:
    """A circuit, and a proof of it by the model or by a prover that checks nothing."""

    def __init__(
        self, field: FieldSpec, seed: int, *, commitment: Scheme | None = None,
        instances: int = 1, allow_bits: int = 100, hash: Hash | None = None,
        recursive: bool = False, reduction: Reduction = Reduction.TWO_PHASE, **form: Any,
    ) -> None:  # fmt: skip
        parts = satisfied(field.modulus, seed, instances=instances, **form)
        self.circuit: LayeredCircuit = parts[0]
        self.inputs: Rows = parts[1]
        self.public: Rows = parts[2]
        self.instances, self.allow_bits = instances, allow_bits
        self.key = VerifyingKey.of(
            self.circuit, field, commitment=commitment, allow_bits=allow_bits, hash=hash,
            recursive=recursive, reduction=reduction,
        )  # fmt: skip
        prover = Prover("cpu", self.key, self.circuit, instances=instances, allow_bits=allow_bits)
        self.proof = prover.prove(self.inputs, self.public, check=False)

    def verifier(self, device: Any = "cpu", batch: int = 1) -> Verifier:
        return Verifier(
            device, self.key, self.circuit, instances=self.instances, batch=batch,
            allow_bits=self.allow_bits,
        )  # fmt: skip

    def expected(self, proof: bytes, public: Rows | None = None) -> QuodError | None:
        """Return the error of the plain verifier."""
        try:
            public_rows = self.public if public is None else public
            verify(
                self.key, self.circuit, public_rows, proof, instances=self.instances,
                allow_bits=self.allow_bits,
            )  # fmt: skip
        except (VerificationError, InputError) as error:
            return error
        return None


def same(actual: QuodError | None, expected: QuodError | None) -> bool:
    places = [getattr(error, "offset", None) for error in (actual, expected)]
    return (type(actual), str(actual), places[0]) == (type(expected), str(expected), places[1])


BOTH = pytest.mark.parametrize("reduction", Reduction)
ON_ONE = pytest.mark.parametrize(
    "reduction", one_and_others([Reduction.DATA_PARALLEL, Reduction.TWO_PHASE])
)


@pytest.mark.crossed("device", "reduction")
@pytest.mark.parametrize(
    ("instances", "name", "reduction"),
    one_and_others(
        [(1, "m31.4", Reduction.TWO_PHASE), *((3, name, Reduction.TWO_PHASE) for name in FIELDS),
         (3, "m31.4", Reduction.DATA_PARALLEL), (3, "bn254.fr", Reduction.DATA_PARALLEL)],
        always=[(1, "m31.4", Reduction.TWO_PHASE)],
    ),
)  # fmt: skip
def test_honest_proofs_and_wrong_ones(
    device: AnyDevice, instances: int, name: str, reduction: Reduction
) -> None:
    hash = Hash.SHA_256 if name == "m31.4" and instances > 1 else Hash.SHA3_256
    proven = Proven(
        FIELDS[name], 2, instances=instances, log_inputs=2, randoms=instances > 1, hash=hash,
        reduction=reduction,
    )  # fmt: skip
    wrong = list(itertools.islice(mutated(FIELDS[name], proven.proof, 1), 6))
    proofs = [proven.proof, *wrong, proven.proof]
    refusals = proven.verifier(device, 4).errors([proven.public] * 8, proofs)
    assert refusals[0] is refusals[-1] is None
    assert None not in refusals[1:-1]
    assert all(map(same, refusals, map(proven.expected, proofs)))


@pytest.mark.thorough
@pytest.mark.parametrize(("instances", "name"), one_and_others([(3, "m31.4"), (1, "goldilocks.2")]))
def test_recursive_proofs_and_wrong_ones(device: AnyDevice, instances: int, name: str) -> None:
    proven = Proven(
        FIELDS[name], 2, instances=instances, log_inputs=2, randoms=instances > 1, recursive=True
    )
    wrong = list(itertools.islice(mutated(FIELDS[name], proven.proof, 1), 4))
    proofs = [proven.proof, *wrong, proven.proof]
    refusals = proven.verifier(device, 4).errors([proven.public] * 6, proofs)
    assert refusals[0] is refusals[-1] is None
    assert None not in refusals[1:-1]
    assert all(map(same, refusals, map(proven.expected, proofs)))


@pytest.mark.thorough
def test_gpu_code_for_recursive_proofs(gpu_device: AnyDevice) -> None:
    proven = Proven(M31_4, 3, powers=False, layers=1, log_inputs=2, recursive=True)
    wrong = proven.proof[:-16] + bytes(16)
    verifier = proven.verifier(gpu_device, 2)
    accepted, refused = verifier.errors([proven.public] * 2, [proven.proof, wrong])
    assert accepted is None
    assert same(refused, proven.expected(wrong))


@pytest.mark.parametrize(
    "reduction",
    [Reduction.TWO_PHASE, pytest.param(Reduction.DATA_PARALLEL, marks=pytest.mark.thorough)],
)
def test_gpu_code_matches_the_reference(gpu_device: AnyDevice, reduction: Reduction) -> None:
    proven = Proven(
        M31_4, 3, powers=False, layers=2, instances=2, log_inputs=2, reduction=reduction
    )
    wrong = proven.proof[:-16] + bytes(16)
    verifier = proven.verifier(gpu_device, 2)
    accepted, refused = verifier.errors([proven.public] * 2, [proven.proof, wrong])
    assert accepted is None
    assert same(refused, proven.expected(wrong))


SMALL: dict[Any, dict[str, int]] = {
    checker_factors: {"_TILE": 2, "_MIN_LOG_LOW": 1},
    checker_schedule: {"_TILE": 2, "_ROWS": 2, "_GATES_EACH": 3},
    columns_schedule: {"_VALUES_EACH": 3, "_LOG_LOW": 1, "_MIN_LOG_FACTOR": 1},
}


@BOTH
@pytest.mark.parametrize("seed", one_and_others(range(6), always=[1]))
def test_more_circuits(seed: int, reduction: Reduction, monkeypatch: pytest.MonkeyPatch) -> None:
    """Tiles, partial sums and chunks have the smallest sizes too."""
    if seed % 2:
        for module, small in SMALL.items():
            for name, value in small.items():
                monkeypatch.setattr(module, name, value)
        monkeypatch.setattr(places_plan, "_CPU_TABLE_ENTRIES", 1 << seed)
    proven = Proven(
        M31_4, 10 + seed, layers=1 + seed % 4, instances=1 + 2 * seed, randoms=seed % 3 == 0,
        reduction=reduction,
    )  # fmt: skip
    wrong = itertools.islice(mutated(M31_4, proven.proof, seed), 6)
    proofs = [proven.proof, *wrong]
    refusals = proven.verifier(batch=3).errors([proven.public] * 7, proofs)
    assert [error is None for error in refusals] == [True] + [False] * 6
    assert all(map(same, refusals, map(proven.expected, proofs)))


@ON_ONE
def test_layers_of_several_tiles(reduction: Reduction) -> None:
    proven = Proven(M31_4, 4, log_inputs=12, gates=1500, layers=2, reduction=reduction)
    verifier = proven.verifier()
    verifier.verify(proven.public, proven.proof)
    for place in (8, len(proven.proof) // 2, len(proven.proof) - 8):
        wrong = bytearray(proven.proof)
        wrong[place] ^= 1
        with pytest.raises((VerificationError, InputError)):
            verifier.verify(proven.public, bytes(wrong))


@pytest.mark.thorough
@pytest.mark.parametrize(
    ("reduction", "randoms"),
    one_and_others(
        [
            (Reduction.TWO_PHASE, False),
            (Reduction.TWO_PHASE, True),
            (Reduction.DATA_PARALLEL, True),
        ],
        always=[(Reduction.TWO_PHASE, True)],
    ),
)
def test_ten_thousand_mutated_proofs_are_refused(reduction: Reduction, randoms: bool) -> None:
    proven = Proven(M31_4, 5, layers=2, gates=5, randoms=randoms, reduction=reduction)
    verifier, batch = proven.verifier(batch=500), 500
    changed = mutated(M31_4, proven.proof, 7)
    for _ in range(10):
        proofs = list(itertools.islice(changed, batch))
        refusals = verifier.errors([proven.public] * batch, proofs)
        assert None not in refusals
        for place in range(0, batch, 100):
            assert same(refusals[place], proven.expected(proofs[place]))
    verifier.verify(proven.public, proven.proof)


@ON_ONE
def test_invalid_lengths_and_integers_are_rejected(reduction: Reduction) -> None:
    proven = Proven(M31_4, 5, layers=2, gates=5, instances=2, reduction=reduction)
    proof, p = proven.proof, proven.circuit.field.value
    proofs = [proof[:stop] for stop in range(0, len(proof), 7)]
    proofs += [proof + b"\0", proof + proof, b""]
    for place in range(0, len(proof), 4):
        number = int.from_bytes(proof[place : place + 4], "little") + p
        if number < 1 << 32:
            proofs.append(proof[:place] + number.to_bytes(4, "little") + proof[place + 4 :])
    refusals = proven.verifier(batch=32).errors([proven.public] * len(proofs), proofs)
    assert all(isinstance(error, InputError) for error in refusals)
    assert all(map(same, refusals, map(proven.expected, proofs)))
    assert None not in proven.verifier().errors(
        [proven.public] * 2, [proof[4:], proof[4:] + b"1234"]
    )


@BOTH
@pytest.mark.parametrize("instances", [1, 2])
def test_other_statements_are_refused(instances: int, reduction: Reduction) -> None:
    proven = Proven(M31_4, 5, layers=2, gates=5, instances=instances, reduction=reduction)
    verifier = proven.verifier(batch=3)
    publics = []
    for place in range(proven.circuit.public):
        changed = [list(row) for row in proven.public]
        for row in changed:
            row[place] = (row[place] + 1) % proven.circuit.field.value
        publics.append(changed)
    refusals = verifier.errors(publics, [proven.proof] * len(publics))
    assert all(isinstance(error, VerificationError) for error in refusals)
    for error, changed in zip(refusals, publics, strict=True):
        assert same(error, proven.expected(proven.proof, changed))
    other, *_ = satisfied(proven.circuit.field, 6, layers=2, gates=5)
    with pytest.raises(MismatchError):
        Verifier("cpu", proven.key, other)


def test_the_first_proof_that_is_refused_is_named() -> None:
    proven = Proven(M31_4, 5, layers=2, gates=5)
    verifier, proof = proven.verifier(batch=2), proven.proof
    verifier.verify_many([], [])
    verifier.verify_many([proven.public] * 5, [proof] * 5)
    wrong = proof[:-16] + bytes(16)
    with pytest.raises(VerificationError, match=r"proof 3: .*layer"):
        verifier.verify_many([proven.public] * 5, [proof, proof, proof, wrong, proof[:-1]])
    with pytest.raises(InputError, match=r"proof 1: offset .*: the proof ends at byte") as error:
        verifier.verify_many([proven.public] * 3, [proof, proof[:-1], wrong])
    assert error.value.offset == len(proof) - 16


@ON_ONE
def test_outputs_that_are_not_zero_are_refused(reduction: Reduction) -> None:
    """Toy-field proofs of the model pass as often as with the reference verifier."""
    toy = Modulus("toy.127", 127)
    proven = Proven(
        toy, 2, log_inputs=1, layers=1, gates=3, powers=False, allow_bits=0, reduction=reduction
    )
    generator, publics, proofs = random.Random(1), [], []
    for _ in range(150):
        public = [
            [*proven.public[0][:2], *(generator.randrange(127) for _ in proven.public[0][2:])]
        ]
        publics.append(public)
        proofs.append(reference.prove(proven.key, proven.circuit, proven.inputs, public))
    refusals = proven.verifier(batch=64).errors(publics, proofs)
    assert 0 < refusals.count(None) < 30
    assert all(map(same, refusals, map(proven.expected, proofs, publics)))


@pytest.mark.parametrize(
    ("reduction", "scheme", "field", "instances"),
    [
        *(
            (reduction, Ligero(column_bits=10), M31_4, instances)
            for reduction in Reduction for instances in (1, 2)
        ),
        (Reduction.TWO_PHASE, Hyrax(), FIELDS["bn254.fr"], 2),
        pytest.param(
            Reduction.DATA_PARALLEL, Hyrax(), FIELDS["bn254.fr"], 2, marks=pytest.mark.thorough
        ),
    ],
)  # fmt: skip
def test_other_commitments_are_checked_by_their_own_verifier(
    scheme: Scheme, field: FieldSpec, instances: int, reduction: Reduction
) -> None:
    proven = Proven(
        field, 5, layers=2, gates=5, instances=instances, commitment=scheme, allow_bits=0,
        reduction=reduction,
    )  # fmt: skip
    proof = proven.proof
    wrong = list(itertools.islice(mutated(field, proof, 3), 20 if field is M31_4 else 5))
    proofs = [proof, proof + b"\0", proof[:-1], *wrong]
    refusals = proven.verifier(batch=4).errors([proven.public] * len(proofs), proofs)
    assert refusals[0] is None
    assert None not in refusals[1:]
    assert all(map(same, refusals, map(proven.expected, proofs)))


class OtherInputs(reference.ModelByColumns):
    """Proves what is true of its inputs, and commits to others."""

    place = 0

    def _layer(self, number: int, below: reference.Level) -> None:
        is_by_columns = self.statement.key.reduction is Reduction.DATA_PARALLEL
        model = reference.ModelByColumns if is_by_columns else reference.ModelProver
        model._layer(self, number, below)

    def _committed(self, table: list[Plain]) -> list[Plain]:
        (value,) = table[self.place]
        changed = ((value + 1) % self.circuit.field.value,)
        return [*table[: self.place], changed, *table[self.place + 1 :]]


@BOTH
@pytest.mark.parametrize("instances", one_and_others([1, 3]))
def test_uncommitted_inputs_are_rejected(instances: int, reduction: Reduction) -> None:
    """All layers agree except for a single input."""
    proven = Proven(M31_4, 5, layers=2, gates=5, instances=instances, reduction=reduction)
    verifier = proven.verifier()
    statement = Statement(proven.key, proven.circuit, proven.public, instances)
    for OtherInputs.place in range(0, len(proven.inputs[0]) * instances, 3):
        proof = OtherInputs(statement, proven.inputs).prove()
        with pytest.raises(VerificationError, match="the committed table has a different value"):
            verifier.verify(proven.public, proof)
        assert isinstance(proven.expected(proof), VerificationError)


# --- faulty devices


def test_idle_device_is_detected() -> None:
    proven = Proven(M31_4, 5, layers=2, gates=5)
    device: Any = Idle(open_device("cpu"))
    with pytest.raises(DeviceError, match="without computing the check"):
        proven.verifier(device).verify(proven.public, proven.proof)


@BOTH
def test_skipped_kernels_never_accept_a_proof(reduction: Reduction) -> None:
    """The device raises an error; the proof is not rejected either."""
    proven = Proven(M31_4, 5, layers=2, gates=5, reduction=reduction)
    publics = [[*proven.public[0][:2], *proven.public[0][2:]]]
    device = SkippingDevice()
    names: list[str] = []
    device.leaves = lambda name: names.append(name) or 0  # type: ignore[func-returns-value]
    verifier = proven.verifier(device)
    verifier.verify(publics, proven.proof)
    assert len(set(names)) == (9 if reduction is Reduction.DATA_PARALLEL else 7)
    for name in set(names):
        for count in (1, 1 << 20):
            device.leaves = lambda kernel, skipped=name, many=count: (
                many if kernel == skipped else 0
            )
            # On memory that has a proof that passed, and on that of a new one.
            for checker in (verifier, proven.verifier(device)):
                with pytest.raises(DeviceError, match="without computing the check"):
                    checker.verify(proven.public, proven.proof)
    device.leaves = lambda _: 0
    verifier.verify(proven.public, proven.proof)


def test_a_prover_checks_its_proofs_on_its_device() -> None:
    proven = Proven(M31_4, 5, layers=2, gates=5)
    device = SkippingDevice()
    prover = Prover(device, proven.key, proven.circuit)
    assert prover.prove(proven.inputs, proven.public) == proven.proof
    device.leaves = lambda name: 1 if name == "first_phase" else 0
    for _ in range(2):
        with pytest.raises(DeviceError, match="made a proof that does not verify"):
            Prover(device, proven.key, proven.circuit).prove(proven.inputs, proven.public)
    device.leaves = lambda name: 1 if name == "check_layers" else 0
    with pytest.raises(DeviceError, match="without computing the check"):
        prover.prove(proven.inputs, proven.public)


def test_wrong_arguments_are_refused() -> None:
    proven = Proven(M31_4, 5, layers=1, gates=2)
    verifier = proven.verifier()
    assert verifier.peak_bytes > 0
    wrong: Any
    for wrong in (None, "text", [], [[1]], [proven.public] * 2):
        with pytest.raises(InputError):
            verifier.verify_many(wrong, [proven.proof])
    for wrong in (None, "text", 3, [proven.proof]):
        with pytest.raises(InputError):
            verifier.verify(proven.public, wrong)
        with pytest.raises(InputError):
            verifier.verify_many([proven.public], wrong if wrong != [proven.proof] else [wrong])
    with pytest.raises(InputError, match=r"^proof 1 must be bytes, not a str$"):
        verifier.errors([proven.public] * 2, [proven.proof, "text"])  # type: ignore[list-item]
    for wrong in (0, -1, 1 << 60, None, 1.0):
        with pytest.raises(InputError):
            Verifier("cpu", proven.key, proven.circuit, batch=wrong)
        with pytest.raises(InputError):
            Verifier("cpu", proven.key, proven.circuit, instances=wrong)
    assert isinstance(proven.key.commitment, Raw)
    assert NAMED["m31"] is proven.circuit.field


def test_checker_imports_no_prover_code() -> None:
    """The checker shares only statements, keys and protocol steps with other code."""
    modules = set()
    for path in Path(checker_schedule.__file__).parent.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.ImportFrom) and node.module is not None:
                package, _, name = node.module.partition("quod.gkr.")
                modules |= {name.split(".")[0]} if not package and name else set()
    assert modules == {"key", "protocol", "reduction", "statement", "checker"}
