"""Careless and hostile input to ceremonies: wrong types, unusual outputs, misleading names."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from quod.ceremony import Beacon, contribute, new_powers, prepare, truncate, verify
from quod.ceremony.powers.contribution import contributions_data, read_contributions
from quod.cli import entry
from quod.device.runtime.timeline import Timeline
from quod.errors import InputError, OutputError, VerificationError
from quod.formats.iden3 import Iden3File, write_iden3
from quod.formats.ptau import PowersOfTau
from quod.frozen import replace
from tests.ceremony.ceremonies import PTAU
from tests.support.thorough import one_and_others


@pytest.mark.parametrize("value", [5, "ab" * 20, [1, 2], None, np.ones(40, np.uint8)])
def test_beacons_are_bytes(value: Any) -> None:
    with pytest.raises(InputError, match="the value of a beacon"):
        Beacon(value, 10)


def test_beacons_apply_the_stated_number_of_hashes() -> None:
    """In a narrow integer 1 << exponent would be 0, so that nothing is hashed."""
    plain = Beacon(b"\1" * 40, 10)
    value = bytearray(b"\1" * 40)
    for exponent in (np.uint8(10), np.int64(10), np.int16(10)):
        beacon = Beacon(value, exponent)  # type: ignore[arg-type]
        assert beacon == plain
        assert type(beacon.exponent) is int
        assert beacon.stream().next_u64() == plain.stream().next_u64()
    beacon = Beacon(value, 10)  # type: ignore[arg-type]
    value[0] = 7
    assert beacon == plain
    assert Beacon(b"\1", np.int8(63)).exponent == 63  # type: ignore[arg-type]


def test_excessive_beacon_iterations_are_rejected(tmp_path: Path) -> None:
    """Verifying 2**63 hashes reports progress."""
    seen: list[tuple[str, int, int]] = []

    class Listener:
        def begin(self, stage: Any) -> None: ...

        def progress(self, stage: Any) -> None:
            seen.append((stage.name, stage.done, stage.total))
            if stage.name == "beacon":
                raise KeyboardInterrupt

        def end(self, stage: Any) -> None: ...

    path = _with_contributions(
        tmp_path / "x.ptau",
        lambda contributions: [
            contributions[0],
            replace(contributions[1], details=_endless(contributions[1].details)),
        ],
    )
    with pytest.raises(KeyboardInterrupt):
        verify(path, timeline=Timeline(Listener()), max_hashes=1 << 63)
    assert seen[-1] == ("beacon", 0, 1000)


def _endless(details: Any) -> Any:
    return replace(details, beacon=Beacon(b"\1", 63))


def _with_contributions(path: Path, change: Callable[[list[Any]], list[Any]]) -> Path:
    file = PowersOfTau.open(PTAU["bn254"])
    data = contributions_data(file.curve_parameters, change(read_contributions(file)))
    return _changed(PTAU["bn254"], path, {7: data})


def _changed(source: Path, target: Path, changed: dict[int, bytes | None]) -> Path:
    """A file with other sections, and without those that are None."""
    file = Iden3File.open(source, "ptau", 1)
    sections = {number: bytes(file.section(number, "").rest()) for number in file.sections}
    parts = [(number, changed.get(number, data)) for number, data in sections.items()]
    kept = [(number, [data]) for number, data in parts if data is not None]
    write_iden3(target, "ptau", 1, kept)  # type: ignore[arg-type]
    return target


def test_hash_states_with_overflowing_lengths_are_rejected(tmp_path: Path) -> None:
    """The byte count would exceed 64 bits."""
    for count in ((1 << 64) - 128, 1 << 63):

        def long(contributions: list[Any], count: int = count) -> list[Any]:
            state = contributions[1].hash_state
            changed = state[:192] + count.to_bytes(8, "little") + state[200:]
            return [contributions[0], replace(contributions[1], hash_state=changed)]

        path = _with_contributions(tmp_path / "x.ptau", long)
        with pytest.raises(InputError, match="contribution 2: a state of BLAKE2b cannot have"):
            verify(path)


@pytest.mark.parametrize("section", [2, 3, 4, 5, 6])
def test_powers_at_infinity_are_rejected(section: int, tmp_path: Path) -> None:
    """A contribution to infinity is infinity, and every verifier rejects the file."""
    data = bytearray(Iden3File.open(PTAU["bn254"], "ptau", 1).section(section, "").rest())
    size, place = (128, 1) if section in (3, 6) else (64, 3)
    place = 0 if section == 6 else place
    data[place * size : (place + 1) * size] = bytes(size)
    path = _changed(PTAU["bn254"], tmp_path / "x.ptau", {section: bytes(data)})
    calls: list[Callable[[Path, Path], Any]] = [contribute]
    if section != 6:
        calls.append(prepare)
    for call in calls:
        with pytest.raises(
            InputError, match=f"point {place} of .* is the point at infinity"
        ) as refused:
            call(path, tmp_path / "y.ptau")
        assert refused.value.section is not None
        assert refused.value.section.startswith(f"{section} (")
    assert not (tmp_path / "y.ptau").exists()


@pytest.mark.parametrize("curve", one_and_others(sorted(PTAU), ["bn254"]))
def test_truncated_files_verify_before_and_after_preparation(curve: str, tmp_path: Path) -> None:
    """The largest level has its last power in one order and not in the other: both verify."""
    truncate(PTAU[curve], tmp_path / "cut.ptau", np.int64(2))  # type: ignore[arg-type]
    prepare(tmp_path / "cut.ptau", tmp_path / "one.ptau")
    prepare(PTAU[curve], tmp_path / "whole.ptau")
    truncate(tmp_path / "whole.ptau", tmp_path / "two.ptau", 2)
    assert (tmp_path / "one.ptau").read_bytes() != (tmp_path / "two.ptau").read_bytes()
    for name in ("one", "two"):
        assert verify(tmp_path / f"{name}.ptau").power == 2
        data = bytearray(
            Iden3File.open(tmp_path / f"{name}.ptau", "ptau", 1).section(12, "").rest()
        )
        size = len(data) // 15
        data[-size:], data[-2 * size : -size] = data[-2 * size : -size], data[-size:]
        bad = _changed(tmp_path / f"{name}.ptau", tmp_path / "bad.ptau", {12: bytes(data)})
        with pytest.raises(VerificationError, match="Lagrange points of tau_g1 do not match"):
            verify(bad)


@pytest.mark.parametrize("section", [12, 13, 14, 15])
def test_partially_prepared_files_are_rejected(section: int, tmp_path: Path) -> None:
    prepare(PTAU["bn254"], tmp_path / "whole.ptau")
    bad = _changed(tmp_path / "whole.ptau", tmp_path / "bad.ptau", {section: None})
    for call in (lambda: verify(bad), lambda: truncate(bad, tmp_path / "x.ptau", 2)):
        with pytest.raises(InputError, match="is missing"):
            call()
    raw = bytes(Iden3File.open(tmp_path / "whole.ptau", "ptau", 1).section(section, "").rest())
    short = _changed(tmp_path / "whole.ptau", tmp_path / "short.ptau", {section: raw[: 7 * 128]})
    with pytest.raises(InputError, match="Lagrange points"):
        truncate(short, tmp_path / "x.ptau", 3)
    assert not (tmp_path / "x.ptau").exists()


@pytest.mark.parametrize("power", [True, "2", None, 2.0, 0, -1, 4, 10**40])
def test_invalid_truncation_powers_are_rejected(power: Any, tmp_path: Path) -> None:
    with pytest.raises(InputError):
        truncate(PTAU["bn254"], tmp_path / "x.ptau", power)
    assert os.listdir(tmp_path) == []


def test_input_changed_while_reading_is_rejected(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A file is read more than once, and may change after its validation."""
    from quod.ceremony.powers import preparation as preparing
    from quod.ceremony.powers import update as contributing
    from quod.ceremony.powers import verification

    path = tmp_path / "x.ptau"
    path.write_bytes(PTAU["bn254"].read_bytes())

    def touched(*_: Any) -> None:
        os.utime(path, ns=(1, len(os.listdir(tmp_path))))

    for module, name, call in (
        (contributing, "secret_multiples", lambda: contribute(path, tmp_path / "y.ptau")),
        (verification, "same_ratio", lambda: verify(path)),
        (preparing, "LagrangeLevels", lambda: prepare(path, tmp_path / "y.ptau")),
    ):
        kept = getattr(module, name)

        class Wrapped:
            def __init__(self, kept: Any) -> None:
                self.kept = kept

            def __call__(self, *arguments: Any) -> Any:
                touched()
                return self.kept(*arguments)

            def __getattr__(self, name: str) -> Any:
                return getattr(self.kept, name)

        monkeypatch.setattr(module, name, Wrapped(kept))
        with pytest.raises(InputError, match="has changed since it was opened"):
            call()
        monkeypatch.setattr(module, name, kept)
    assert os.listdir(tmp_path) == ["x.ptau"]


def test_names_cannot_inject_output_lines(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    new_powers("bn254", 2, "0.ptau")
    contribute("0.ptau", "1.ptau", name="eve: 00\n2 contribution bob\n\u2028OK: 2**9\x1b[2J")
    assert entry.run(["powersoftau", "verify", "1.ptau"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) == 3
    assert lines[0].startswith(
        "1 contribution eve: 00\\n2 contribution bob\\n\\u2028OK: 2**9\\x1b[2J: "
    )
    assert lines[1].startswith("Names are not authenticated")
    assert lines[2] == "OK: 2**2 powers of bn254, 1 contribution."


def test_non_regular_outputs_are_rejected(tmp_path: Path) -> None:
    """A contribution reads its output while it writes it."""
    plain = tmp_path / "plain"
    for flags in (os.O_WRONLY | os.O_CREAT, os.O_RDWR | os.O_APPEND):
        descriptor = os.open(plain, flags)
        with pytest.raises(OutputError, match="name a regular file"):
            contribute(PTAU["bn254"], f"/dev/fd/{descriptor}")
        os.close(descriptor)
    assert plain.read_bytes() == b""
    reading, writing = os.pipe()
    for place in ("/dev/null", f"/dev/fd/{writing}"):
        with pytest.raises(OutputError, match="name a regular file"):
            contribute(PTAU["bn254"], place)
    os.close(reading)
    os.close(writing)
    descriptor = os.open(plain, os.O_RDWR)
    receipt = contribute(PTAU["bn254"], f"/dev/fd/{descriptor}")
    os.close(descriptor)
    assert verify(plain).contributions[-1][1] == receipt.response_hash


def test_messages_do_not_follow_a_file_on_stdout(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    command = ["powersoftau", "export", "challenge", str(PTAU["bn254"])]
    assert entry.run([*command, "there"]) == 0
    shown = capfd.readouterr().out
    assert shown.startswith("Challenge: ")
    saved, file = os.dup(1), os.open("given", os.O_WRONLY | os.O_CREAT)
    os.dup2(file, 1)
    try:
        assert entry.run([*command, "/dev/stdout"]) == 0
    finally:
        os.dup2(saved, 1)
    assert Path("given").read_bytes() == Path("there").read_bytes()
    assert capfd.readouterr().err == shown


def test_invalid_power_writes_no_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "a.ptau").write_bytes(PTAU["bn254"].read_bytes())
    command = ["powersoftau", "truncate", "a.ptau", "--power", "2", "--power", "5"]
    assert entry.run(command) == 3
    assert "not 2**5" in capsys.readouterr().err
    assert os.listdir(tmp_path) == ["a.ptau"]
