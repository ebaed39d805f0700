"""quod groth16 verify --batch, and keys and proofs of bellman on the command line."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from quod.cli import entry
from quod.field.array import integers_to_words
from quod.field.moduli import BLS12_381_FQ
from quod.formats import write_bellman_key
from quod.groth16 import Proof, ProvingKey
from quod.groth16.encodings.bellman import proof_to_bytes
from tests.groth16.circuits import recurrence
from tests.groth16.conftest import Made, circuit_files

__all__ = ["circuit_files"]

EXAMPLE = Path(__file__).resolve().parents[2] / "examples" / "membership"
_PROOFS = 4


@pytest.fixture(scope="module")
def proved() -> tuple[list[str], list[Proof]]:
    """The public inputs of the example, and proofs."""
    key = ProvingKey.from_zkey(EXAMPLE / "circuit.zkey")
    proof_pairs = [key.prove(EXAMPLE / "witness.wtns", self_check=False) for _ in range(_PROOFS)]
    return [str(value) for value in proof_pairs[0][1]], [proof for proof, _ in proof_pairs]


@pytest.fixture
def lists(
    proved: tuple[list[str], list[Proof]], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> tuple[list[Any], list[Any]]:
    monkeypatch.chdir(tmp_path)
    public, proofs = proved
    return [[*public] for _ in proofs], [json.loads(proof.to_json()) for proof in proofs]


def verify(public: object, proofs: object, *options: str) -> int:
    Path("public.json").write_text(json.dumps(public))
    Path("proofs.json").write_text(json.dumps(proofs))
    files = [str(EXAMPLE / "verification_key.json"), "public.json", "proofs.json"]
    return entry.run(["groth16", "verify", "--batch", *files, *options])


def test_valid_proofs(
    lists: tuple[list[Any], list[Any]], capsys: pytest.CaptureFixture[str]
) -> None:
    assert verify(*lists) == 0
    assert capsys.readouterr().out == "OK: all 4 proofs are valid.\n"
    assert verify(*lists, "--quiet") == 0
    assert capsys.readouterr().out == ""


def test_invalid_proofs_are_named(
    lists: tuple[list[Any], list[Any]], capsys: pytest.CaptureFixture[str]
) -> None:
    public, proofs = lists
    public[1][0] = str(int(public[1][0]) ^ 1)
    public[2] = ["01", *public[2][1:]]
    proofs[3]["pi_a"][0] = "1"
    assert verify(public, proofs) == 6
    captured = capsys.readouterr()
    assert captured.out == ""
    warnings = [line for line in captured.err.splitlines() if "warning" in line]
    assert len(warnings) == 2
    assert "proof 2 is malformed: public.json[2]: [0] must be a decimal integer" in warnings[0]
    assert "proof 3 is malformed: pi_a is not on the curve" in warnings[1]
    assert (
        "quod: error: proofs.json: 3 of 4 proofs are not valid for their public inputs and this "
        "key (counted from 0: 1, 2, 3); do not accept them"
    ) in captured.err


@pytest.mark.parametrize(
    ("change", "code", "message"),
    [
        (lambda public, proofs: (public[1:], proofs), 4, "has the public inputs of 3 proofs and"),
        (lambda public, proofs: ([], []), 3, "proofs.json: has no proofs"),
        (lambda public, proofs: (public, proofs[0]), 3, "must be a list, not an object"),
        (lambda public, proofs: ({}, proofs), 3, "must be a list, not an object"),
        (lambda public, proofs: (public[0], proofs), 4, "has the public inputs of"),
        (lambda public, proofs: (public, [[], None, 1, {}]), 6, "4 of 4 proofs are not valid"),
        (lambda public, proofs: ([1, {}, "", None], proofs), 6, "4 of 4 proofs are not valid"),
    ],
)
def test_invalid_lists_are_rejected(
    lists: tuple[list[Any], list[Any]],
    capsys: pytest.CaptureFixture[str],
    change: Callable[[Any, Any], tuple[Any, Any]],
    code: int,
    message: str,
) -> None:
    assert verify(*change(*lists)) == code
    assert message in capsys.readouterr().err


# --- bellman


@pytest.fixture
def bellman(
    circuit_files: Callable[[str], Made], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> list[Proof]:
    """Files of a key of ours and of its proofs in bellman's form."""
    monkeypatch.chdir(tmp_path)
    files = circuit_files("bls12_381")
    key = ProvingKey.from_zkey(files.zkey, allow_insecure=True)
    verifying = key.verifying_key

    def words(*points: Any) -> Any:
        flat: list[int] = []
        for x, y in points:
            flat += [x, y] if isinstance(x, int) else [*x, *y]
        shape = (len(points), 2, 12) if isinstance(points[0][0], int) else (len(points), 2, 2, 12)
        return integers_to_words(BLS12_381_FQ, flat).reshape(shape)

    write_bellman_key(
        "key.vk",
        {
            "alpha_g1": words(key.alpha_g1)[0], "beta_g1": words(key.beta_g1)[0],
            "beta_g2": words(key.beta_g2)[0], "gamma_g2": words(verifying.gamma_g2)[0],
            "delta_g1": words(key.delta_g1)[0], "delta_g2": words(key.delta_g2)[0],
            "ic": words(*verifying.ic),
        },
    )  # fmt: skip
    proofs = [key.prove(files.wtns, seed=seed, self_check=False)[0] for seed in range(3)]
    public = [str(value) for value in recurrence("bls12_381", 20).public]
    Path("public.json").write_text(json.dumps(public))
    Path("publics.json").write_text(json.dumps([public] * 3))
    return proofs


BELLMAN = ["groth16", "verify", "key.vk", "public.json", "proof", "--insecure-test-key"]


def test_keys_and_proofs_of_bellman(
    bellman: list[Proof], capsys: pytest.CaptureFixture[str]
) -> None:
    for content in (
        proof_to_bytes(bellman[0]),
        proof_to_bytes(bellman[0], compressed=False),
        bellman[0].to_json().encode(),
    ):
        Path("proof").write_bytes(content)
        assert entry.run(BELLMAN) == 0
    assert entry.run(BELLMAN[:-1]) == 9
    wrong = replaced(bellman[0], bellman[1])
    Path("proof").write_bytes(proof_to_bytes(wrong))
    assert entry.run(BELLMAN) == 6
    Path("proof").write_bytes(b"\0" + proof_to_bytes(wrong)[1:])
    capsys.readouterr()
    assert entry.run(BELLMAN) == 3
    assert "quod: error: proof, section pi_a, offset 0: " in capsys.readouterr().err


def test_a_batch_of_bellmans_proofs(
    bellman: list[Proof], capsys: pytest.CaptureFixture[str]
) -> None:
    batch = [*BELLMAN[:3], "publics.json", *BELLMAN[4:], "--batch"]
    Path("proof").write_bytes(b"".join(map(proof_to_bytes, bellman)))
    assert entry.run(batch) == 0
    first = proof_to_bytes(replaced(bellman[0], bellman[1]))
    Path("proof").write_bytes(first + b"\0" * 192 + proof_to_bytes(bellman[2]))
    capsys.readouterr()
    assert entry.run(batch) == 6
    error = capsys.readouterr().err
    assert "proof 1 is malformed: proof, section pi_a, offset 192: " in error
    assert "2 of 3 proofs are not valid for their public inputs and this key" in error
    assert "(counted from 0: 0, 1)" in error


def replaced(proof: Proof, other: Proof) -> Proof:
    """A proof that is well formed and does not hold."""
    return Proof(proof.curve, proof.a, proof.b, other.c)
