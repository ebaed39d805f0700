"""Parameters of Filecoin's circuits: names, digests, test keys, and files that are refused."""

from __future__ import annotations

import hashlib
import json
import os
import random
import shutil
from pathlib import Path
from typing import Any

import pytest

from quod.curve.encoding.points import encode_zcash_g2
from quod.curve.named.bls12_381 import BLS12_381
from quod.curve.weierstrass.affine import g2_group
from quod.errors import InputError, InsecureKeyError, MismatchError, OutputError
from quod.filecoin.parameters import (
    ParameterSet,
    ProofKind,
    default_folder,
    file_digest,
    make_parameters,
    open_proving_key,
    read_verifying_key,
)
from quod.filecoin.parameters import files as parameter_files
from quod.filecoin.parameters.digests import network_digests, network_set
from quod.filecoin.parameters.identifiers import Suffix
from quod.filecoin.proving import Prover
from quod.filecoin.registered_proofs import REGISTERED_SIZES
from quod.filecoin.sectors import sector_shape
from tests.filecoin.made_parameters import POREP, SEED, UPDATE, WINDOW, WINNING

SETS = [ParameterSet(kind, sector_shape(size)) for kind in ProofKind for size in REGISTERED_SIZES]
SUFFIXES: tuple[Suffix, ...] = ("params", "vk", "meta")
GIB = 1 << 30


def test_names_are_those_of_upstream() -> None:
    assert WINNING.file_name("vk") == (
        "v28-proof-of-spacetime-fallback-merkletree-poseidon_hasher-8-0-0-"
        "3ea05428c9d11689f23529cde32fd30aabd50f7d2c93657c1d3650bca3e8ea9e.vk"
    )
    assert POREP.file_name("params") == (
        "v28-stacked-proof-of-replication-merkletree-poseidon_hasher-8-0-0-sha256_hasher-"
        "032d3138d22506ec0082ed72b2dcba18df18477904e35bafee82b3793b06832f.params"
    )
    assert UPDATE.cache_id.startswith(
        "empty-sector-update-merkletree-poseidon_hasher-8-0-0-fb9e095bebdd7751"
    )
    large = ParameterSet(ProofKind.WINDOW, sector_shape(64 * GIB))
    assert large.cache_id.startswith(
        "proof-of-spacetime-fallback-merkletree-poseidon_hasher-8-8-2-2627e4006b67f99c"
    )
    assert len({parameters.cache_id for parameters in SETS}) == 20


@pytest.mark.fixtures
def test_all_names_and_digests_of_the_network(shared_fixtures: Path) -> None:
    table = json.loads((shared_fixtures / "filecoin" / "parameters.json").read_text())
    for parameters in SETS:
        entries = [table.pop(parameters.file_name(suffix)) for suffix in ("params", "vk")]
        assert {entry["sector_size"] for entry in entries} == {parameters.sector.size}
        digests = tuple(entry["digest"] for entry in entries)
        assert network_digests(parameters) == digests
        assert {network_set(digest) for digest in digests} == {parameters.name}
    # Quod has no updates with TreeD of Poseidon.
    assert all(name.startswith("v28-empty-sector-update-poseidon-") for name in table)


def test_numbers_of_public_inputs() -> None:
    """The sizes of upstream's verifying keys show them."""
    counts = {(each.kind.value, each.sector.size): each.public for each in SETS}
    assert counts["porep", 2048] == 39
    assert counts["porep", 32 * GIB] == 327
    assert counts["window", 2048] == 22
    assert counts["window", 32 * GIB] == 25_839
    assert counts["winning", 2048] == counts["winning", 32 * GIB] == 132
    assert counts["update", 2048] == counts["update", 32 * GIB] == 4


def test_no_digest_for_unpublished_sizes() -> None:
    assert network_digests(ParameterSet(ProofKind.POREP, sector_shape(4096))) == ()
    assert network_set("00" * 16) is None


def test_circuits_that_need_cuda_are_refused_elsewhere() -> None:
    for kind, size, largest in (
        (ProofKind.POREP, 32 * GIB, "1GiB"), (ProofKind.WINDOW, 64 * GIB, "1GiB"),
        (ProofKind.UPDATE, 512 << 20, "16MiB"),
    ):  # fmt: skip
        parameters = ParameterSet(kind, sector_shape(size))
        message = f"of {parameters.sector.name} need a CUDA device; .* sectors of up to {largest}"
        with pytest.raises(InputError, match=message):
            make_parameters(parameters, ".", 1)
        with pytest.raises(InputError, match=message):
            Prover(parameters, ".")
        with pytest.raises(InputError, match=message):
            Prover(parameters, test_seed=1)
        assert parameters.check_device("emulated").kind == "emulated"
    with pytest.raises(InputError, match="the kind of proof must be of the type ProofKind"):
        ParameterSet("window", sector_shape(2048))  # type: ignore[arg-type]
    with pytest.raises(InputError, match="the sector must be of the type SectorShape"):
        ParameterSet(ProofKind.WINDOW, 2048)  # type: ignore[arg-type]


def test_folder(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.delenv("FIL_PROOFS_PARAMETER_CACHE", raising=False)
    assert os.fspath(default_folder()) == "/var/tmp/filecoin-proof-parameters"
    monkeypatch.setenv("FIL_PROOFS_PARAMETER_CACHE", str(tmp_path))
    assert default_folder() == tmp_path
    with pytest.raises(
        InputError, match=r"has no parameters of winning-2KiB \(no file v28-.*\.vk\): download"
    ):
        read_verifying_key(WINNING)


def test_made_parameters(window_folder: Path) -> None:
    """The file has upstream's size, and the key is marked as a test key everywhere."""
    params, vk, meta = (window_folder / WINDOW.file_name(suffix) for suffix in SUFFIXES)
    assert params.stat().st_size == 11_501_496
    assert vk.read_bytes() == params.read_bytes()[:3076]
    assert meta.read_text() == '{"sector_size":2048}'
    for path in (window_folder, vk, params):
        with pytest.raises(InsecureKeyError, match="it is a test key"):
            read_verifying_key(WINDOW, path)
        assert read_verifying_key(WINDOW, path, allow_insecure=True).public == 22
    before = params.read_bytes()
    with pytest.raises(OutputError, match="exists"):
        make_parameters(WINDOW, window_folder, SEED)
    assert params.read_bytes() == before


def test_a_key_of_another_set(window_folder: Path) -> None:
    vk = window_folder / WINDOW.file_name("vk")
    with pytest.raises(MismatchError, match="has 22 public inputs; winning-2KiB needs 132"):
        read_verifying_key(WINNING, vk, allow_insecure=True)


def lacks_blake2b(name: str) -> Any:
    raise ValueError(f"unsupported hash type {name}")


def test_digests_of_the_network(window_folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    vk = window_folder / WINDOW.file_name("vk")
    expected = hashlib.blake2b(vk.read_bytes()).hexdigest()[:32]
    with monkeypatch.context() as context:
        context.setattr(parameter_files, "_DIGEST_CHUNK", 100)
        assert file_digest(vk) == expected
        # An OpenSSL without BLAKE2b.
        context.setattr(hashlib, "new", lacks_blake2b)
        assert file_digest(vk) == expected
    porep = network_digests(POREP)[1]
    monkeypatch.setattr(parameter_files, "file_digest", lambda path: porep)
    with pytest.raises(MismatchError, match="is a file of porep-2KiB, not of window-2KiB"):
        read_verifying_key(WINDOW, vk)


def test_changed_verifying_keys(window_folder: Path, tmp_path: Path) -> None:
    """Each change of a point that verifiers use is refused, even if the test key is accepted."""
    data = (window_folder / WINDOW.file_name("vk")).read_bytes()
    chance, copy = random.Random(35), tmp_path / "changed.vk"
    for _ in range(60):
        copy.write_bytes(data[: chance.randrange(len(data))])
        with pytest.raises(InputError, match=r"changed\.vk"):
            read_verifying_key(WINDOW, copy, allow_insecure=True)
    # beta_g1 and delta_g1 are for provers.
    offsets = [*range(96), *range(192, 576), *range(672, len(data))]
    for offset in chance.choices(offsets, k=60):
        changed = bytearray(data)
        changed[offset] ^= 1 << chance.randrange(8)
        copy.write_bytes(changed)
        with pytest.raises(InputError, match=r"changed\.vk"):
            read_verifying_key(WINDOW, copy, allow_insecure=True)


def test_cut_parameters(window_folder: Path, tmp_path: Path) -> None:
    copy = tmp_path / WINDOW.file_name("params")
    shutil.copy(window_folder / copy.name, copy)
    circuit, size = WINDOW.circuit(), copy.stat().st_size
    for length in (size - 1, size // 2, 5000, 3076, 3000, 1, 0):
        os.truncate(copy, length)
        with pytest.raises(InputError, match=r"\.params"):
            open_proving_key(WINDOW, circuit, tmp_path)


def test_keys_that_are_neither_the_network_s_nor_for_tests(
    window_folder: Path, tmp_path: Path
) -> None:
    """A key with another gamma, as a ceremony of others has it."""
    data = bytearray((window_folder / WINDOW.file_name("vk")).read_bytes())
    # gamma_g2 follows alpha_g1, beta_g1 and beta_g2.
    data[384:576] = _multiple_of_generator()
    (tmp_path / "other.vk").write_bytes(data)
    with pytest.raises(InputError, match="which is not that of the network's window-2KiB"):
        read_verifying_key(WINDOW, tmp_path / "other.vk", allow_insecure=True)


def _multiple_of_generator() -> bytes:
    law = g2_group(BLS12_381)
    return encode_zcash_g2(law.multiply(5, law.generator), compressed=False)


def test_a_file_that_is_replaced_after_its_digest(
    window_folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The key would not be the one that the digest identifies."""
    origin_of = parameter_files.origin_of

    def replaced(parameters: ParameterSet, file: Path, digest: str | None = None) -> object:
        origin = origin_of(parameters, file, digest)
        shutil.copy(file, tmp_path / "new")
        (tmp_path / "new").replace(file)
        return origin

    for suffix in SUFFIXES:
        shutil.copy(window_folder / WINDOW.file_name(suffix), tmp_path)
    monkeypatch.setattr(parameter_files, "origin_of", replaced)
    for read in (
        lambda: read_verifying_key(WINDOW, tmp_path, allow_insecure=True),
        lambda: read_verifying_key(WINDOW, tmp_path, allow_insecure=True, trusted=True),
        lambda: Prover(WINDOW, tmp_path),
    ):
        with pytest.raises(InputError, match="has changed since it was opened"):
            read()


@pytest.mark.parametrize("name", ["none", "a" * 5000, "a/\0", "/dev/null/a"])
def test_paths_that_cannot_be_read(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    for read in (read_verifying_key, Prover):
        with pytest.raises(InputError):
            read(WINDOW, name)
    if "\0" not in name:
        monkeypatch.setenv("FIL_PROOFS_PARAMETER_CACHE", name)
        with pytest.raises(InputError):
            Prover(WINDOW)
