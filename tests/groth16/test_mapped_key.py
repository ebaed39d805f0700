"""Keys and witnesses whose files are written to, cut short or replaced while they are in use."""

from __future__ import annotations

import os
import shutil
import struct
from collections.abc import Callable
from pathlib import Path

import pytest

from quod.errors import InputError
from quod.formats import Witness, Zkey
from quod.formats.zkey.file import POINTS
from quod.groth16 import ProvingKey
from tests.formats.tiny import split
from tests.groth16.conftest import Made

Make = Callable[[str], Made]


@pytest.fixture
def path(circuit_files: Make, tmp_path: Path) -> Path:
    return Path(shutil.copy(circuit_files("bn254").zkey, tmp_path / "circuit.zkey"))


def scribble(path: Path) -> None:
    """Overwrites a key's points and coefficients in place; its size stays."""
    size = path.stat().st_size
    with open(path, "r+b") as file:
        file.seek(1024)
        file.write(b"\xff" * (size - 1024))


def cut(path: Path) -> None:
    os.truncate(path, 100)


def rename_over(path: Path) -> None:
    other = path.with_suffix(".new")
    other.write_bytes(path.read_bytes())
    os.replace(other, path)


@pytest.mark.parametrize(
    ("change", "part"),
    [(scribble, "was written to"), (cut, "was written to"), (rename_over, "another file replaced")],
)
def test_a_mapped_key_notices_that_its_file_changed(
    circuit_files: Make, path: Path, change: Callable[[Path], None], part: str
) -> None:
    key = ProvingKey.from_zkey(path)
    assert not key.zkey.owned
    key.prove(circuit_files("bn254").wtns)
    change(path)
    asked: list[Callable[[], object]] = [
        lambda: key.prove(circuit_files("bn254").wtns), key.check, lambda: key.weakness
    ]  # fmt: skip
    for ask in asked:
        with pytest.raises(InputError, match=f"circuit.zkey: has changed .*{part}.*open it again"):
            ask()
    key.close()


def test_no_verifying_key_of_another_file(path: Path) -> None:
    """Overwriting the file would otherwise change what the verifier accepts."""
    key = ProvingKey.from_zkey(path, allow_insecure=True)
    scribble(path)
    with pytest.raises(InputError, match="has changed since it was opened"):
        _ = key.verifying_key


def test_a_mapped_key_outlives_the_removal_of_its_file(circuit_files: Make, path: Path) -> None:
    key = ProvingKey.from_zkey(path)
    path.unlink()
    key.prove(circuit_files("bn254").wtns)
    key.close()


@pytest.mark.parametrize("change", [scribble, cut, rename_over, os.unlink])
def test_an_owned_key_does_not_depend_on_its_file(
    circuit_files: Make, path: Path, change: Callable[[Path], None]
) -> None:
    expected, _ = ProvingKey.from_zkey(path).prove(circuit_files("bn254").wtns, seed=1)
    key = ProvingKey.from_zkey(path, owned=True)
    assert key.zkey.owned
    change(path)
    assert key.prove(circuit_files("bn254").wtns, seed=1)[0] == expected
    key.check()
    key.close()


def test_wire_indices_changed_in_the_file_are_safe(circuit_files: Make, path: Path) -> None:
    expected, _ = ProvingKey.from_zkey(path).prove(circuit_files("bn254").wtns, seed=1)
    key = ProvingKey.from_zkey(path)
    before = path.stat()
    data = path.read_bytes()
    entries = dict(split(data)[2])[4]
    start = data.index(entries) + 4
    with open(path, "r+b") as file:
        for at in range(start, start + len(entries) - 4, 12 + key.zkey.fr.bytes):
            file.seek(at + 8)
            file.write(struct.pack("<I", 1 << 31))
    # Nothing tells that the file has changed.
    os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))
    assert key.prove(circuit_files("bn254").wtns, seed=1)[0] == expected
    key.close()


def test_a_witness_does_not_depend_on_its_file(circuit_files: Make, tmp_path: Path) -> None:
    files = circuit_files("bn254")
    path = Path(shutil.copy(files.wtns, tmp_path / "w.wtns"))
    witness = Witness.open(path)
    values = witness.values.copy()
    with open(path, "r+b") as file:
        file.write(b"\xff" * 200)
    assert (witness.values == values).all()
    os.truncate(path, 0)
    assert (witness.values == values).all()
    assert not witness.values.flags.writeable
    ProvingKey.from_zkey(files.zkey).prove(witness)


def test_arrays_of_an_owned_key_are_read_only(path: Path) -> None:
    assert not Zkey.open(path, owned=True).a.flags.writeable
    assert not Zkey.open(path).a.flags.writeable


def test_later_changes_to_caller_arrays_are_ignored(circuit_files: Make, path: Path) -> None:
    """Kernels follow entry indices, which the caller could change later."""
    expected, _ = ProvingKey.from_zkey(path).prove(circuit_files("bn254").wtns, seed=1)
    mapped = Zkey.open(path)
    coefficients = mapped.coefficients.copy()
    arrays = {name: getattr(mapped, name) for name in POINTS}
    zkey = Zkey.from_arrays(
        "a key", curve="bn254", public=mapped.public, domain_size=mapped.domain_size,
        constraints=mapped.constraints, coefficients=coefficients, **arrays,
    )  # fmt: skip
    assert not zkey.owned
    key = ProvingKey(zkey)
    coefficients["signal"] = 0
    assert key.prove(circuit_files("bn254").wtns, seed=1)[0] == expected
    key.close()
