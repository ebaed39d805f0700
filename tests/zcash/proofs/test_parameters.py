"""Files of parameters: the ceremonies' by their digests, test keys, and all others."""

from __future__ import annotations

from pathlib import Path

import pytest

from quod.errors import InputError, InsecureKeyError, MismatchError
from quod.zcash.proofs.kinds import KINDS, MASP_OUTPUT, SAPLING_OUTPUT, SAPLING_SPEND, ProofKind
from quod.zcash.proofs.parameters import (
    Origin,
    make_test_parameters,
    open_proving_key,
    origin_of,
    read_verifying_key,
)
from quod.zcash.proofs.sapling_keys import sapling_verifying_key, sapling_verifying_keys

_TRANSCRIPT = 64 + 4
_CONTRIBUTION = 544


def test_sizes_of_files_follow_from_their_circuits() -> None:
    """Points, and transcripts of 97 contributions for Sapling and 2,511 for MASP."""
    assert len({kind.file_digest for kind in KINDS.values()}) == 5
    for kind in KINDS.values():
        assert len(bytes.fromhex(kind.file_digest)) == 64
        circuit = kind.circuit()
        a, b = (set(matrix.column.tolist()) for matrix in circuit.matrices[:2])
        public = circuit.public + 1
        a |= set(range(public))
        domain = 1 << (circuit.constraints + circuit.public).bit_length()
        points = public + (domain - 1) + (circuit.wires - public) + len(a) + 3 * len(b)
        size = 864 + 6 * 4 + 96 * points + _TRANSCRIPT
        count = 2511 if kind.protocol.has_assets else 97
        assert kind.file_bytes == size + count * _CONTRIBUTION, kind


def test_test_keys_need_the_switch(output_test_key: Path) -> None:
    assert origin_of(SAPLING_OUTPUT, output_test_key) is Origin.TEST
    for function in (read_verifying_key, open_proving_key):
        with pytest.raises(InsecureKeyError, match="anyone can forge"):
            function(SAPLING_OUTPUT, output_test_key)  # type: ignore[operator]
    key = read_verifying_key(SAPLING_OUTPUT, output_test_key, allow_insecure=True)
    assert key.public == 5
    with pytest.raises(MismatchError, match="has 5 public inputs; sapling-spend needs 7"):
        read_verifying_key(SAPLING_SPEND, output_test_key, allow_insecure=True)
    with pytest.raises(MismatchError, match="points"):
        open_proving_key(MASP_OUTPUT, output_test_key, allow_insecure=True)
    for wrong in (1, "yes", None):
        with pytest.raises(InputError, match="allow_insecure must be True or False"):
            read_verifying_key(SAPLING_OUTPUT, output_test_key, allow_insecure=wrong)  # type: ignore[arg-type]
    with pytest.raises(InputError, match="the kind must be of the type ProofKind"):
        read_verifying_key("sapling-output", output_test_key)  # type: ignore[arg-type]


def test_equal_seeds_make_equal_files(output_test_key: Path, tmp_path: Path) -> None:
    make_test_parameters(SAPLING_OUTPUT, tmp_path / "again.params", seed=1)
    assert (tmp_path / "again.params").read_bytes() == output_test_key.read_bytes()


@pytest.mark.fixtures
def test_files_of_the_ceremony(shared_fixtures: Path, tmp_path: Path) -> None:
    path = shared_fixtures / "zcash" / SAPLING_OUTPUT.file_name
    assert origin_of(SAPLING_OUTPUT, path) is Origin.CEREMONY
    key, embedded = (
        read_verifying_key(SAPLING_OUTPUT, path), sapling_verifying_key(SAPLING_OUTPUT)
    )  # fmt: skip
    assert _points(key) == _points(embedded)
    for kind in KINDS.values():
        if kind != SAPLING_OUTPUT:
            with pytest.raises(
                MismatchError, match=rf"is sapling-output\.params, not {kind}\.params"
            ):
                origin_of(kind, path)
    # A change of the transcript alone, behind all points, changes the digest.
    damaged = bytearray(path.read_bytes())
    damaged[-1] ^= 1
    (tmp_path / "damaged.params").write_bytes(damaged)
    assert origin_of(SAPLING_OUTPUT, tmp_path / "damaged.params") is Origin.OTHER
    for function in (read_verifying_key, open_proving_key):
        with pytest.raises(InputError, match=r"is not sapling-output\.params: BLAKE2b-512 is"):
            function(SAPLING_OUTPUT, tmp_path / "damaged.params", allow_insecure=True)  # type: ignore[operator]


def test_the_ceremony_s_spend_key(spend_parameters: Path) -> None:
    key = read_verifying_key(SAPLING_SPEND, spend_parameters)
    assert _points(key) == _points(sapling_verifying_key(SAPLING_SPEND))


def test_keys_that_need_no_file() -> None:
    keys = sapling_verifying_keys()
    assert keys.spend is not None
    assert keys.output is not None
    assert (keys.spend.public, keys.output.public, keys.convert) == (7, 5, None)
    with pytest.raises(InputError, match=r"read it from masp-output\.params"):
        sapling_verifying_key(MASP_OUTPUT)


def _points(key: object) -> list[object]:
    names = ("alpha_g1", "beta_g2", "gamma_g2", "delta_g2", "ic")
    return [getattr(key, name) for name in names]


def test_kinds_are_immutable() -> None:
    with pytest.raises(AttributeError):
        SAPLING_SPEND.file_digest = ""  # type: ignore[misc]
    assert isinstance(SAPLING_SPEND, ProofKind)
