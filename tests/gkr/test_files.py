"""Files of verifying keys, inputs and proofs of layered circuits: round trips and errors."""

from __future__ import annotations

import json
import struct
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from quod.commitment import Ligero, Raw
from quod.commitment.scheme_names import (
    SCHEMES,
    WITH_POWERS,
    check_secret,
    parameters_of,
    scheme_named,
    scheme_with_powers,
)
from quod.device import open_device
from quod.errors import InputError, MismatchError, OutputError
from quod.field import EXTENSIONS, NAMED, from_integers
from quod.field.moduli import Modulus
from quod.formats import write_circuit6, write_circuit6_witness
from quod.gkr import (
    Prover,
    Reduction,
    VerifyingKey,
    read_inputs,
    read_proof,
    read_public_inputs,
    read_verifying_key,
    verify,
    write_inputs,
    write_proof,
    write_public_inputs,
    write_verifying_key,
)
from quod.gkr.files.describe import describe_file, value_bytes
from quod.gkr.files.inputs import parse_inputs, parse_public_inputs
from quod.gkr.files.key import parse_verifying_key
from quod.gkr.files.proof import parse_proof
from quod.gkr.security import usual_challenges
from quod.gkr.size import layer_bytes
from quod.layered import (
    CircuitBuilder,
    LayeredCircuit,
    Public,
    Random,
    read_circuit,
    to_circuit6,
    write_circuit,
)
from tests.formats import expander
from tests.formats.tiny import piped, refused, replaced, split
from tests.gkr.circuits import satisfied
from tests.reference import gkr as reference

M31 = NAMED["m31"]


def squares(field: Modulus = M31) -> LayeredCircuit:
    """Output 0 is the public input less the square of the first input."""
    builder = CircuitBuilder(field, 1, public=1)
    layer = builder.layer(1)
    layer.multiply(0, 0, 0, -1)
    layer.constant(0, Public(0))
    return builder.finished(zeros=1)


CIRCUIT = squares()
KEY = VerifyingKey.of(CIRCUIT, EXTENSIONS["m31.4"])


def document(**changes: Any) -> bytes:
    """The file of the key, with some of its values changed, or left out if they are None."""
    fields = {
        "format": "quod gkr verifying key 1", "circuit": CIRCUIT.digest.hex(), "field": "m31.4",
        "commitment": {"scheme": "raw"}, "chain": 64, "bits": 100, "public": 1, "zeros": 1,
        "hash": "sha3-256", "reduction": "places",
    }  # fmt: skip
    return json.dumps({k: v for k, v in (fields | changes).items() if v is not None}).encode()


def test_key_round_trips(tmp_path: Path) -> None:
    path = tmp_path / "key.json"
    write_verifying_key(path, KEY, CIRCUIT)
    assert json.loads(path.read_bytes()) == json.loads(document())
    assert read_verifying_key(path, CIRCUIT) == KEY
    with piped(path.read_bytes()) as pipe:
        assert read_verifying_key(pipe, CIRCUIT) == KEY


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"format": None}, "section format: must be"),
        ({"format": "quod gkr verifying key 2"}, "section format: must be"),
        ({"chain": None}, '"chain" is missing'),
        ({"more": 1}, '"more" is no part of a verifying key'),
        ({"circuit": "00"}, "section circuit: must be 64 hexadecimal digits"),
        ({"circuit": CIRCUIT.digest.hex().upper()}, "section circuit: must be 64 hexadecimal"),
        ({"circuit": 7}, "section circuit"),
        ({"field": "m31.5"}, 'section field: there is no field "m31.5"'),
        ({"field": 4}, "section field: there is no field a number"),
        ({"commitment": "raw"}, "section commitment: must be an object"),
        ({"commitment": {}}, "section commitment: must be an object"),
        ({"commitment": {"scheme": "merkle"}}, "section commitment: the commitment must be raw"),
        ({"commitment": {"scheme": "raw", "rows": 1}}, "has no parameter 'rows'"),
        (
            {"commitment": {"scheme": "ligero", "log_blowup": "1"}},
            "of the commitment ligero must be",
        ),
        ({"chain": 0}, "section chain: must be a whole number from 1 to"),
        ({"chain": 1 << 40}, "section chain"),
        ({"chain": True}, "section chain"),
        ({"bits": -1}, "section bits"),
        ({"commitment": {"scheme": "ligero", "hash": "poseidon2-m31"}}, "key.json: poseidon2-m31"),
        ({"hash": "poseidon2-goldilocks"}, "key.json: poseidon2-goldilocks derives challenges in"),
        ({"hash": None}, '"hash" is missing'),
        ({"hash": "sha3-512"}, "section hash: the hash must be sha3-256, sha-256"),
        ({"hash": ["sha-256"]}, "section hash: the hash must be sha3-256, sha-256"),
        ({"reduction": None}, '"reduction" is missing'),
        ({"reduction": "rows"}, "section reduction: the reduction must be places or columns"),
        ({"reduction": 1}, "section reduction: the reduction must be places or columns"),
        ({"bits": "100"}, "section bits"),
        ({"public": -1}, "section public"),
        ({"zeros": 0}, "section zeros"),
    ],
)
def test_invalid_keys_are_rejected(changes: dict[str, Any], said: str) -> None:
    assert parse_verifying_key(document(), "key.json").key == KEY
    with pytest.raises(InputError) as error:
        parse_verifying_key(document(**changes), "key.json")
    refused(error, "key.json", said)


def test_data_parallel_key_round_trips(tmp_path: Path) -> None:
    key = VerifyingKey.of(CIRCUIT, EXTENSIONS["m31.4"], reduction=Reduction.DATA_PARALLEL)
    write_verifying_key(tmp_path / "key.json", key, CIRCUIT)
    data = (tmp_path / "key.json").read_bytes()
    assert json.loads(data) == json.loads(document(reduction="columns"))
    assert read_verifying_key(tmp_path / "key.json", CIRCUIT) == key != KEY
    description = describe_file(memoryview(data), "key.json")
    assert description is not None
    assert description["reduction"] == "columns"


@pytest.mark.parametrize("reduction", Reduction)
@pytest.mark.parametrize("instances", [1, 3])
def test_the_length_of_proofs_is_known_before(reduction: Reduction, instances: int) -> None:
    """The raw commitment adds the inputs themselves."""
    circuit, rows, public = satisfied(M31, 3, instances=instances)
    key = VerifyingKey.of(circuit, EXTENSIONS["m31.4"], reduction=reduction)
    inputs = 4 * len(rows[0]) * (1 << (instances - 1).bit_length())
    proof = reference.prove(key, circuit, rows, public)
    assert len(proof) == inputs + layer_bytes(circuit, key.field, instances, reduction)


@pytest.mark.parametrize("data", [b"", b"[]", b"{", b'{"format": NaN}', b"\xff", document() * 2])
def test_invalid_documents_are_rejected_as_keys(data: bytes) -> None:
    with pytest.raises(InputError, match=r"key\.json"):
        parse_verifying_key(data, "key.json")


@pytest.mark.parametrize(
    ("changes", "kind", "said"),
    [
        ({"circuit": "00" * 32}, MismatchError, "for another circuit"),
        ({"public": 2}, MismatchError, "says that the circuit has 2 public inputs"),
        ({"zeros": 2}, MismatchError, "and 2 zero outputs, and it has 1 and 1"),
        ({"field": "goldilocks.2"}, InputError, "challenges must be in m31"),
        ({"chain": 63}, InputError, "chain of 63 hashes is too short for"),
        ({"bits": 125}, InputError, "at least 125"),
    ],
)
def test_keys_that_are_not_of_the_circuit_are_refused(
    tmp_path: Path, changes: dict[str, Any], kind: type[Exception], said: str
) -> None:
    path = tmp_path / "key.json"
    path.write_bytes(document(chain=65, bits=80))
    assert read_verifying_key(path, CIRCUIT).chain == 65
    path.write_bytes(document(**changes))
    with pytest.raises(kind, match=said) as error:
        read_verifying_key(path, CIRCUIT)
    assert str(error.value).startswith(f"{path}: ")


def test_a_key_without_a_name_is_not_written(tmp_path: Path) -> None:
    toy = squares(Modulus("m31", 2**61 - 1))
    key = VerifyingKey.of(toy, toy.field, allow_bits=0)
    with pytest.raises(InputError, match="not the one that files call m31"):
        write_verifying_key(tmp_path / "key.json", key, toy)
    with pytest.raises(MismatchError):
        write_verifying_key(tmp_path / "key.json", KEY, toy)

    class Own(Raw):
        @property
        def name(self) -> str:
            return "own"

    key = VerifyingKey.of(CIRCUIT, EXTENSIONS["m31.4"], commitment=Own())
    with pytest.raises(InputError, match="files cannot name the commitment raw"):
        write_verifying_key(tmp_path / "key.json", key, CIRCUIT)
    assert not list(tmp_path.iterdir())


POWERS = Path(__file__).parents[1] / "data" / "formats" / "bn254" / "powers.ptau"


@pytest.mark.parametrize("name", SCHEMES)
def test_schemes_by_name(name: str) -> None:
    scheme = scheme_with_powers(POWERS) if name == WITH_POWERS else scheme_named(name)
    assert scheme.name == name
    check_secret(scheme)
    again = scheme_named(name, parameters_of(scheme))
    assert again.parameters() == scheme.parameters()
    with pytest.raises(InputError, match=r"no parameter 'nothing'|has the parameters tau_g1, tau"):
        scheme_named(name, {"nothing": 1})


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"tau_g1": None}, "has the parameters tau_g1, tau_g2"),
        ({"tau_g3": []}, "has the parameters tau_g1, tau_g2"),
        ({"tau_g1": []}, "'tau_g1' must be a list of 2 points"),
        ({"tau_g2": [1, 2, 3]}, "'tau_g2' must be a list of 3 points"),
        ({"tau_g1": ["xy", "zz"]}, "'tau_g1' is not hexadecimal"),
        ({"tau_g1": ["00", "00"]}, "bytes"),
        ({"tau_g1": [f"{'00' * 31}40"] * 2}, "'tau_g1' is the point at infinity"),
        ({"tau_g1": [f"{'ff' * 31}3f"] * 2}, "modulus"),
    ],
)
def test_powers_of_keys_are_points(changes: dict[str, Any], said: str) -> None:
    sound = parameters_of(scheme_with_powers(POWERS))
    parameters = {key: value for key, value in (sound | changes).items() if value is not None}
    with pytest.raises(InputError, match=said):
        scheme_named("hyperkzg", parameters)


@pytest.mark.parametrize(
    ("name", "challenges"),
    [
        ("m31", "m31.4"), ("baby_bear", "baby_bear.4"), ("koala_bear", "koala_bear.4"),
        ("goldilocks", "goldilocks.2"), ("bn254.fr", "bn254.fr"), ("m61", None),
    ],
)  # fmt: skip
def test_usual_challenges(name: str, challenges: str | None) -> None:
    circuit = squares(NAMED[name])
    if challenges is None:
        with pytest.raises(InputError, match="name the field of challenges"):
            usual_challenges(circuit)
        return
    field = usual_challenges(circuit)
    assert field.name == challenges
    assert VerifyingKey.of(circuit, field).bits == 100


def inputs(data: object, circuit: LayeredCircuit = CIRCUIT) -> Any:
    return parse_inputs(json.dumps(data).encode(), "inputs.json", circuit)


def test_inputs_of_one_and_of_many_instances() -> None:
    for rows in ([3, 0], ["3", 0], [["3", "0"]]):
        for public in ([9], ["9"], [["9"]]):
            parsed = inputs({"inputs": rows, "public": public})
            assert (parsed.inputs, parsed.public, len(parsed)) == ([[3, 0]], [[9]], 1)
    parsed = inputs({"inputs": [[3, 0], ["2147483646", 1]], "public": [[9], [1]]})
    assert parsed.inputs == [[3, 0], [M31.value - 1, 1]]
    assert (parsed.first(1).inputs, parsed.first(1).public) == ([[3, 0]], [[9]])
    with pytest.raises(InputError, match="inputs for 2 instances, not for 3"):
        parsed.first(3)
    builder = CircuitBuilder(M31, 1)
    builder.layer(1).add(0, 0)
    alone = builder.finished()
    for public in ({}, {"public": [[], []]}):
        assert inputs({"inputs": [[0, 1], [0, 2]], **public}, alone).public == [[], []]


@pytest.mark.parametrize(
    ("document", "kind", "said"),
    [
        ([1, 2], InputError, 'must be an object with "inputs"'),
        ({"public": [1]}, InputError, 'must be an object with "inputs"'),
        ({"inputs": [1, 2], "public": [4], "more": 1}, InputError, '"more" is neither'),
        ({"inputs": 1, "public": [4]}, InputError, "section inputs: must be a list, not a number"),
        ({"inputs": [], "public": [4]}, InputError, "section inputs: has no instance"),
        ({"inputs": [1, 2, 3], "public": [4]}, MismatchError, "has 3 inputs, and the circuit 2"),
        ({"inputs": [[1, 2], 3], "public": [4]}, InputError, "instance 1 must be a list"),
        ({"inputs": [[1, 2], []], "public": [4]}, MismatchError, "instance 1 has 0 inputs"),
        ({"inputs": [1, 2]}, MismatchError, 'has 1 public inputs, and "public" is missing'),
        ({"inputs": [1, 2], "public": []}, InputError, "section public: has no instance"),
        ({"inputs": [1, 2], "public": [1, 2]}, MismatchError, "has 2 public inputs, and the"),
        ({"inputs": [1, 2], "public": [[1], [2]]}, InputError, "public inputs for 2"),
        *(
            ({"inputs": [0, value], "public": [4]}, InputError, "value 1 of instance 0 must be")
            for value in (-1, M31.value, str(M31.value), "01", "+1", " 1", "1e3", "", True, None,
                          [1], "9" * 4000)
        ),
        ({"inputs": [0, 10**30], "public": [4]}, InputError, "too many digits"),
        ({"inputs": [0, 0.5], "public": [4]}, InputError, "a fraction"),
    ],
)  # fmt: skip
def test_invalid_inputs_are_rejected(document: object, kind: type[Exception], said: str) -> None:
    with pytest.raises(kind) as error:
        inputs(document)
    refused(error, "inputs.json", said)


def test_public_inputs_round_trip(tmp_path: Path) -> None:
    path = tmp_path / "public.json"
    write_public_inputs(path, [[9], [M31.value - 1]])
    assert path.read_bytes() == b'[["9"], ["2147483646"]]\n'
    assert read_public_inputs(path, CIRCUIT) == [[9], [M31.value - 1]]
    with piped(path.read_bytes()) as pipe:
        assert read_public_inputs(pipe, CIRCUIT) == [[9], [M31.value - 1]]
    data = json.dumps({"inputs": [[1]], "public": 9 * [[1]]}).encode()
    assert parse_public_inputs(data, "p", CIRCUIT) == [[1]] * 9
    for wrong in (b"{}", b"7", b"[[1, 2]]", b"[]", b'[["x"]]'):
        with pytest.raises(InputError, match=r"^p"):
            parse_public_inputs(wrong, "p", CIRCUIT)


@pytest.mark.parametrize("name", ["m31", "baby_bear", "bn254.fr"])
def test_inputs_round_trip(name: str, tmp_path: Path) -> None:
    """In every form that a prover takes."""
    field = NAMED[name]
    circuit, path = squares(field), tmp_path / "inputs.json"
    rows, public = [[3, 0], [field.value - 2, 1]], [[9], [4]]
    array = from_integers(field, [value for row in rows for value in row])
    for form in (rows, array.reshape(2, 2, field.words)):
        write_inputs(path, circuit, form, public)
        reread = read_inputs(path, circuit)
        assert (reread.inputs, reread.public) == (rows, public)
    for single in (rows[1], array[2:]):
        write_inputs(path, circuit, single, public[1])
        reread = read_inputs(path, circuit)
        assert (reread.inputs, reread.public) == (rows[1:], public[1:])
    builder = CircuitBuilder(field, 1)
    builder.layer(1).add(0, 0)
    write_inputs(path, builder.finished(), rows)
    assert read_inputs(path, builder.finished()).public == [[], []]


@pytest.mark.parametrize(
    ("inputs", "public", "kind", "said"),
    [
        ([[3]], [[9]], MismatchError, "instance 0 has 1 inputs, and the circuit 2"),
        ([[3, 0]], [], InputError, "has no instance"),
        ([[3, 0]], [[9], [9]], InputError, "inputs for 1 instances, but public inputs for 2"),
        ([[3, -1]], [[9]], InputError, "inputs must be int in"),
        ([[3, 10**200]], [[9]], InputError, "inputs must be int in"),
        ([[3, 2**31 - 1]], [[9]], InputError, "value 1 of instance 0 must be an integer"),
        ([[3, "4"]], [[9]], InputError, "inputs must be a list of int per instance"),
        ([[3, 0], 7], [[9], [9]], InputError, "inputs must be a list of int per instance"),
        (np.zeros((1, 3, 1), np.uint32), [[9]], InputError, r"not uint32 of \(1, 3, 1\)"),
        (np.zeros((1, 2, 1), np.int64), [[9]], InputError, "not int64"),
        (np.full((1, 2, 1), 2**31 - 1, np.uint32), [[9]], InputError, "below its prime"),
    ],
)
def test_invalid_inputs_are_not_written(
    inputs: Any, public: Any, kind: type[Exception], said: str, tmp_path: Path
) -> None:
    with pytest.raises(kind, match=said):
        write_inputs(tmp_path / "inputs.json", CIRCUIT, inputs, public)
    assert not (tmp_path / "inputs.json").exists()


@pytest.mark.parametrize("name", ["m31", "baby_bear", "goldilocks", "bn254.fr"])
def test_inputs_from_witness_files(name: str, tmp_path: Path) -> None:
    field = NAMED[name]
    circuit = squares(field)
    rows = [[3, 0], [field.value - 2, 1], [7, field.value - 1]]
    public = [[9], [4], [49]]
    path = tmp_path / "witness"
    path.write_bytes(expander.witness_bytes(field.value, rows, public))
    reread = read_inputs(path, circuit)
    assert reread.public == public
    device = open_device("cpu")
    array = reread.for_prover(device)
    assert isinstance(array, np.ndarray)
    assert array.shape == (3, 2, field.words)
    wanted = from_integers(field, [value for row in rows for value in row])
    assert (array.reshape(-1, field.words) == wanted).all()
    assert (reread.first(2).for_prover(device) == array[:2]).all()
    for other, said in (
        (squares(NAMED["koala_bear"]), "the witness is over"),
        (CircuitBuilder(field, 2, public=1), "the witness has 2 inputs, and the circuit 4"),
        (CircuitBuilder(field, 1), "the witness has 1 public inputs, and the circuit 0"),
    ):
        if isinstance(other, CircuitBuilder):
            other.layer(1).add(0, 0)
            other = other.finished()
        with pytest.raises(MismatchError, match=said):
            read_inputs(path, other)


def test_proof_round_trips(tmp_path: Path) -> None:
    path = tmp_path / "proof.qgkp"
    write_proof(path, KEY, 3, b"a proof")
    reread = read_proof(path)
    assert (reread.circuit, reread.instances, reread.proof) == (CIRCUIT.digest, 3, b"a proof")
    reread.check(KEY, 3)
    with pytest.raises(MismatchError, match=r"qgkp: the proof is for 3 instances, not 2"):
        reread.check(KEY, 2)
    other = squares(NAMED["baby_bear"])
    with pytest.raises(MismatchError, match="for different circuits"):
        reread.check(VerifyingKey.of(other, EXTENSIONS["baby_bear.4"]), 3)
    with pytest.raises(InputError, match="the instances"):
        reread.check(KEY, "3")  # type: ignore[arg-type]
    data = path.read_bytes()
    for length in range(len(data)):
        with pytest.raises(InputError):
            parse_proof(memoryview(data[:length]), "proof.qgkp")
    sections = dict(split(data)[2])
    stated = sections[1][40:]
    for header in (
        sections[1] + b"\0", CIRCUIT.digest + bytes(8) + stated,
        CIRCUIT.digest + struct.pack("<Q", (1 << 24) + 1) + stated,
        sections[1][:40] + struct.pack("<I", (1 << 12) + 1) + stated[4:],
        sections[1].replace(b"quod gkr", b"quod\ngkr"),
        sections[1].replace(b"quod gkr", b"quod\xffgkr"),
    ):  # fmt: skip
        with pytest.raises(InputError) as error:
            parse_proof(memoryview(replaced(data, {1: header})), "proof.qgkp")
        refused(error, "proof.qgkp, section 1 (header), offset ")
    with pytest.raises(OutputError):
        write_proof(tmp_path / "nowhere" / "proof", KEY, 1, b"")


@pytest.mark.parametrize(
    ("other", "said"),
    [
        (VerifyingKey.of(CIRCUIT, EXTENSIONS["m31.4"], recursive=True),
         "hash is 'sha3-256', and the key's 'poseidon2-m31'"),
        (VerifyingKey.of(CIRCUIT, EXTENSIONS["m31.4"], reduction=Reduction.DATA_PARALLEL),
         "reduction is 'places', and the key's 'columns'"),
        (VerifyingKey.of(CIRCUIT, EXTENSIONS["m31.4"], commitment=Ligero()),
         "commitment is 'raw', and the key's 'ligero 1/4 110 sha3-256'"),
        (VerifyingKey.of(CIRCUIT, EXTENSIONS["m31.3"], allow_bits=0),
         r"field is '2147483647\[1,0,1\].*, and the key's '2147483647\[2147483642,0,0,1\]"),
    ],
    ids=["hash", "reduction", "commitment", "field"],
)  # fmt: skip
def test_proof_of_another_kind_is_rejected_by_its_header(
    other: VerifyingKey, said: str, tmp_path: Path
) -> None:
    path = tmp_path / "proof.qgkp"
    write_proof(path, VerifyingKey.of(CIRCUIT, EXTENSIONS["m31.4"]), 1, b"")
    with pytest.raises(MismatchError, match=f"qgkp: the proof's {said}"):
        read_proof(path).check(other, 1)
    data = path.read_bytes().replace(b"quod gkr 2", b"quod gkr 1")
    with pytest.raises(MismatchError, match="the proof's protocol is 'quod gkr 1', and the key's"):
        parse_proof(memoryview(data), "proof.qgkp").check(other, 1)


def test_written_files_prove_and_verify(tmp_path: Path) -> None:
    """The calls of all commands from Python, on a circuit of Expander."""
    write_circuit6(tmp_path / "circuit", to_circuit6(CIRCUIT))
    circuit = read_circuit(tmp_path / "circuit")
    key = VerifyingKey.of(circuit, usual_challenges(circuit))
    write_verifying_key(tmp_path / "key.json", key, circuit)
    rows = np.array([[[3], [0]], [[4], [1]], [[5], [2]]], np.uint32)
    write_circuit6_witness(tmp_path / "witness", M31, rows, rows[:, :1] * rows[:, :1])
    witness_inputs = read_inputs(tmp_path / "witness", circuit)
    prover = Prover("cpu", key, circuit, instances=3)
    proof = prover.prove(witness_inputs.for_prover(prover.device), witness_inputs.public)
    write_proof(tmp_path / "proof", key, 3, proof)
    write_public_inputs(tmp_path / "public.json", witness_inputs.public)

    key_read = read_verifying_key(tmp_path / "key.json", circuit)
    public = read_public_inputs(tmp_path / "public.json", circuit)
    proof_read = read_proof(tmp_path / "proof")
    proof_read.check(key_read, len(public))
    verify(key_read, circuit, public, proof_read.proof, instances=3)


DESCRIBED: list[tuple[str, Callable[[Path], object], dict[str, object]]] = [
    ("a circuit", lambda path: write_circuit(path, CIRCUIT),
     {"kind": "layered circuit (qcir)", "field": "m31", "inputs": 2, "zeros": 1}),
    ("a circuit of Expander", lambda path: path.write_bytes(expander.SMALL_CIRCUIT),
     {"kind": "layered circuit (Expander, CIRCUIT6)", "layers": 6, "provable": True,
      "gates": {"mul": 1, "add": 7, "const": 0, "uni": 0}}),
    ("of two elements", lambda path: path.write_bytes(
        expander.circuit_bytes(2, [expander.Segment(2, 2, add=[(0, 0, 1)])], [0])),
     {"field": "gf2", "provable": False}),
    ("too many gates", lambda path: path.write_bytes(expander.circuit_bytes(
        expander.M31, [expander.Segment(2, 2, [(at + 1, [(0, 0)] * 2)]) for at in range(70)]
        + [expander.Segment(2, 2, add=[(0, 0, 1)])], [0])),
     {"gates": {"mul": 0, "add": "2**62 or more", "const": 0, "uni": 0}}),
    ("a witness", lambda path: path.write_bytes(expander.SMALL_WITNESS),
     {"kind": "witness (Expander)", "instances": 16, "inputs": 4, "public": 0}),
    ("a key", lambda path: path.write_bytes(document()),
     {"kind": "verifying key of a layered circuit (JSON)", "field": "m31.4", "bits": 100}),
    ("a proof", lambda path: write_proof(path, KEY, 2, b"abc"),
     {"kind": "proof of a layered circuit (qgkp)", "instances": 2, "proof_bytes": 3,
      "zero_knowledge": False}),
    ("inputs", lambda path: path.write_bytes(b' {"inputs": [["1", "2"]], "public": ["3"]}'),
     {"kind": "inputs of a layered circuit (JSON)", "instances": 1, "inputs": 2, "public": 1}),
]  # fmt: skip


@pytest.mark.parametrize(("what", "write", "said"), DESCRIBED, ids=[row[0] for row in DESCRIBED])
def test_file_kinds_are_described(
    what: str, write: Callable[[Path], object], said: dict[str, object], tmp_path: Path
) -> None:
    path = tmp_path / "file"
    write(path)
    data = path.read_bytes()
    description = describe_file(memoryview(data), "file")
    assert description is not None
    assert list(description)[:3] == ["file", "kind", "bytes"]
    assert description["bytes"] == len(data)
    assert said.items() <= description.items()


def test_other_files_are_not_described() -> None:
    for data in (b"zkey\1\0\0\0", b"[1, 2]", b'{"pi_a": []}', b"", b'{"IC": "inputs"}'):
        assert describe_file(memoryview(data), "file") is None
    for data in (b"qcir", b"qgkp", b"CIRCUIT6", b'{"format": "quod gkr"}', b'{"inputs": 1}'):
        with pytest.raises(InputError, match=r"^file"):
            describe_file(memoryview(data), "file")


def test_the_memory_of_values() -> None:
    builder = CircuitBuilder(M31, 3)
    builder.layer(2).add(0, 0)
    builder.layer(1).add(0, 0, Random(0))
    circuit = builder.finished()
    # Above a random coefficient they are of the extension.
    instance_bytes = 4 * 8 + 4 * 4 + 16 * 2
    assert value_bytes(circuit, EXTENSIONS["m31.4"], 1) == instance_bytes
    assert value_bytes(circuit, EXTENSIONS["m31.4"], 5) == 8 * instance_bytes
    assert value_bytes(circuit, EXTENSIONS["m31.3"], 1) == 4 * 8 + 4 * 4 + 12 * 2
