"""Secrets: their range, their erasure, and kernels that compute with them."""

from __future__ import annotations

import copy
import ctypes
import pickle
import resource
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from quod.ceremony import multiples
from quod.ceremony import secret as module
from quod.ceremony.core_dumps import no_core_dumps
from quod.ceremony.multiples import powers_of, secret_multiples
from quod.ceremony.secret import Secret, wiped
from quod.curve.array import from_points, to_points
from quod.curve.groups import GROUPS
from quod.curve.named import CURVES
from quod.curve.weierstrass.affine import affine_group
from quod.device.cpu.device import CpuDevice
from quod.device.emulated.device import EmulatedDevice
from quod.device.memory.buffer import Buffer
from quod.device.protocol import AnyDevice
from quod.errors import DeviceError, InputError
from quod.field.array import words_to_integers
from tests.support.thorough import one_and_others

FR = CURVES["bn254"].fr


def _number(secret: Secret) -> int:
    (number,) = words_to_integers(FR, secret.words)
    return number


def test_secrets_are_drawn_below_the_order_and_wiped() -> None:
    numbers = set()
    for _ in range(50):
        with Secret.drawn(FR, "text") as secret:
            assert 0 < _number(secret) < FR.value
            numbers.add(_number(secret))
        assert not secret.words.any()
    assert len(numbers) == 50


def test_user_text_is_mixed_into_secrets(monkeypatch: pytest.MonkeyPatch) -> None:
    def constant(words: np.ndarray) -> None:
        words[:] = 7

    monkeypatch.setattr(module, "_fill", constant)
    numbers = {_number(Secret.drawn(FR, text)) for text in ("", "a", "b")}
    assert len(numbers) == 3


def test_a_secret_is_wiped_when_its_block_fails() -> None:
    kept = Secret.drawn(FR)
    with pytest.raises(KeyboardInterrupt), kept:
        raise KeyboardInterrupt
    assert not kept.words.any()
    array = np.ones(3, np.uint32)
    with pytest.raises(ZeroDivisionError), wiped(array):
        raise ZeroDivisionError
    assert not array.any()


def test_a_source_that_fails_is_an_error(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(module, "_SOURCE", str(tmp_path / "nothing"))
    with pytest.raises(DeviceError, match="could not be read"):
        Secret.drawn(FR)
    (tmp_path / "nothing").write_bytes(b"short")
    with pytest.raises(DeviceError, match="gave 5 bytes"):
        Secret.drawn(FR)


def test_a_secret_has_no_text_and_no_copy() -> None:
    with Secret.of_public(FR, 12345) as secret:
        assert "12345" not in repr(secret)
        with pytest.raises(TypeError):
            pickle.dumps(secret)
        with pytest.raises(TypeError):
            copy.deepcopy(secret)
    with pytest.raises(InputError, match="gives the secret 0"):
        Secret.of_public(FR, 0)


def test_core_dumps_are_disabled_while_a_secret_exists() -> None:
    before = resource.getrlimit(resource.RLIMIT_CORE)
    with no_core_dumps():
        assert resource.getrlimit(resource.RLIMIT_CORE)[0] == 0
    assert resource.getrlimit(resource.RLIMIT_CORE) == before


def _is_dumpable() -> bool:
    # prctl(PR_GET_DUMPABLE)
    return bool(ctypes.CDLL(None).prctl(3, 0, 0, 0, 0))


@pytest.mark.skipif(sys.platform != "linux", reason="uses a function of Linux")
def test_core_dump_pipes_are_disabled_too() -> None:
    """The size limit does not stop core dump pipes; nested blocks are independent."""
    assert _is_dumpable()
    limit = resource.getrlimit(resource.RLIMIT_CORE)
    first, second = no_core_dumps(), no_core_dumps()
    first.__enter__()
    second.__enter__()
    assert not _is_dumpable()
    first.__exit__(None, None, None)
    assert not _is_dumpable()
    assert resource.getrlimit(resource.RLIMIT_CORE)[0] == 0
    second.__exit__(None, None, None)
    assert _is_dumpable()
    assert resource.getrlimit(resource.RLIMIT_CORE) == limit


@pytest.mark.skipif(sys.platform != "linux", reason="uses a function of Linux")
def test_process_can_disable_core_dumps_permanently() -> None:
    code = (
        "import ctypes, resource; from quod.ceremony.core_dumps import *; forbid_core_dumps()\n"
        "print(ctypes.CDLL(None).prctl(3, 0, 0, 0, 0), resource.getrlimit(resource.RLIMIT_CORE)[1])"
    )
    assert subprocess.check_output([sys.executable, "-c", code]).split() == [b"0", b"0"]


@pytest.mark.parametrize("kind", one_and_others([CpuDevice, EmulatedDevice]))
def test_secret_scalars_are_wiped_from_device_memory(
    kind: type[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Intermediate coordinates are wiped too, in every memory space."""
    device, buffers, secret_rows = kind(), [], []
    allocate, normalise = device.allocate, getattr(multiples, "normalise_within")  # noqa: B009

    def kept(*arguments: Any, **named: Any) -> Buffer:
        buffers.append(allocate(*arguments, **named))
        return buffers[-1]

    def content(memory: Any) -> np.ndarray:
        if not isinstance(memory, Buffer):
            return memory.reshape(-1).copy()
        words = np.empty(memory.nbytes // 4, np.uint32)
        device.download(memory, words)
        return words

    arrays: list[np.ndarray] = []

    def normalised(*arguments: Any) -> Any:
        done = normalise(*arguments)
        for memory in arguments[3:]:
            secret_rows.append(content(memory))
            arrays.extend([memory] if not isinstance(memory, Buffer) else [])
        return done

    monkeypatch.setattr(device, "allocate", kept)
    monkeypatch.setattr(multiples, "normalise_within", normalised)
    group = GROUPS["bn254.g1"]
    points = from_points(group, [affine_group(group).generator] * 3)
    with Secret.drawn(group.scalars) as secret:
        secret_rows.append(secret.words.copy())
        secret_multiples(device, group, points, secret.words[None])
    assert all(row.any() for row in secret_rows)
    # The first product is 1, as a coordinate of the generator.
    told = _runs(*secret_rows) - _runs(points)
    assert len(told) > 8
    assert not told & _runs(*arrays, *(content(buffer) for buffer in buffers))


def _runs(*arrays: np.ndarray) -> set[bytes]:
    """Four words each, but for zeros: more than there are by chance."""
    return {
        four.tobytes()
        for array in arrays
        for four in array.reshape(-1)[: array.size // 4 * 4].reshape(-1, 4)
        if four.any()
    }


def test_inverses_and_powers() -> None:
    with Secret.drawn(FR) as secret, Secret.drawn(FR) as first, secret.inverse() as inverse:
        s, f = _number(secret), _number(first)
        assert _number(inverse) * s % FR.value == 1
        out = np.empty((300, FR.words), np.uint32)
        for start in (0, 1, 77, (1 << 33) + 5):
            powers_of(secret, first, start, out)
            expected = [f * pow(s, start + i, FR.value) % FR.value for i in range(300)]
            assert words_to_integers(FR, out) == expected
        powers_of(secret, None, 3, out[:5])
        assert words_to_integers(FR, out[:5]) == [pow(s, 3 + i, FR.value) for i in range(5)]


@pytest.mark.parametrize("name", one_and_others(["bn254.g1", "bls12_381.g2"]))
def test_multiples(name: str, device: AnyDevice) -> None:
    group = GROUPS[name]
    law = affine_group(group)
    points = [law.generator, None, law.multiply(77, law.generator)]
    array = from_points(group, points)
    fr = group.scalars
    with Secret.drawn(fr) as first, Secret.drawn(fr) as second:
        numbers = [words_to_integers(fr, each.words)[0] for each in (first, second, first)]
        scalars = np.stack([first.words, second.words, first.words])
        expected = [law.multiply(number, point) for number, point in zip(numbers, points)]
        assert to_points(group, secret_multiples(device, group, array, scalars)) == expected
        same = to_points(group, secret_multiples(device, group, array, first.words[None]))
        assert same[2] == expected[2]
        assert same[1] is None
    assert len(secret_multiples(device, group, array[:0], scalars[:0])) == 0
