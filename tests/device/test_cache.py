"""The cache of compiled code: damage, several processes at once, size, folders that do not work."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from quod.device.cache import CompileCache, default_folder, key_of

KEY = key_of("some", "key")
CONTENT = bytes(range(256)) * 4


def files_of(folder: Path) -> list[Path]:
    return [path for path in folder.rglob("*") if path.is_file()]


def entry_of(cache: CompileCache) -> Path:
    (path,) = files_of(cache.folder)
    return path


@pytest.fixture
def cache(tmp_path: Path) -> CompileCache:
    return CompileCache(tmp_path / "cache")


def test_miss_then_hit(cache: CompileCache) -> None:
    assert cache.get(KEY) is None
    cache.put(KEY, CONTENT)
    assert cache.get(KEY) == CONTENT
    assert CompileCache(cache.folder).get(KEY) == CONTENT
    assert cache.get(key_of("another")) is None
    cache.put(KEY, b"")
    assert cache.get(KEY) == b""
    cache.discard(KEY)
    assert cache.get(KEY) is None
    assert files_of(cache.folder) == []


@given(st.lists(st.binary(max_size=8), max_size=4), st.lists(st.binary(max_size=8), max_size=4))
def test_keys_are_equal_only_for_equal_parts(a: list[bytes], b: list[bytes]) -> None:
    assert (key_of(*a) == key_of(*b)) == (a == b)


def test_a_flipped_bit_anywhere_is_noticed(cache: CompileCache) -> None:
    cache.put(KEY, CONTENT[:64])
    path = entry_of(cache)
    sound = path.read_bytes()
    for position in range(len(sound)):
        damaged = bytearray(sound)
        damaged[position] ^= 1 << (position % 8)
        path.write_bytes(damaged)
        assert cache.get(KEY) is None
        assert not path.exists()
    cache.put(KEY, CONTENT)
    assert cache.get(KEY) == CONTENT


@pytest.mark.parametrize("size", [0, 1, 12, 13, 44, 45, 46, 100])
def test_a_truncated_entry_is_noticed(cache: CompileCache, size: int) -> None:
    cache.put(KEY, CONTENT)
    path = entry_of(cache)
    path.write_bytes(path.read_bytes()[:size])
    assert cache.get(KEY) is None
    assert not path.exists()


def test_an_entry_with_something_behind_it_is_noticed(cache: CompileCache) -> None:
    cache.put(KEY, CONTENT)
    path = entry_of(cache)
    path.write_bytes(path.read_bytes() + b"x")
    assert cache.get(KEY) is None


def test_an_entry_under_another_name_is_noticed(cache: CompileCache) -> None:
    cache.put(KEY, CONTENT)
    other = KEY[0] + key_of("other")[1:]
    entry_of(cache).rename(entry_of(cache).with_name(other))
    assert cache.get(other) is None


HAMMER = """
import random, sys
from pathlib import Path
from quod.device.cache import CompileCache, key_of
cache = CompileCache(Path(sys.argv[1]), limit_bytes=16 * 6000)
choose = random.Random(int(sys.argv[2]))
hits = 0
for _ in range(1500):
    number = choose.randrange(40)
    key, content = key_of(str(number)), bytes([number]) * (500 + number)
    if choose.random() < 0.1:
        cache.discard(key)
    found = cache.get(key)
    assert found in (None, content), number
    hits += found is not None
    if found is None:
        cache.put(key, content)
print(hits)
"""


def test_processes_share_a_folder(tmp_path: Path) -> None:
    command = [sys.executable, "-c", HAMMER, str(tmp_path)]
    running = [
        subprocess.Popen([*command, str(seed)], stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        for seed in range(3)
    ]
    for process in running:
        out, error = process.communicate(timeout=60)
        assert process.returncode == 0, error.decode()
        assert int(out) > 500
    assert all(len(path.name) == 64 for path in files_of(tmp_path))


def test_size_is_bounded_and_what_was_used_longest_ago_goes_first(tmp_path: Path) -> None:
    cache = CompileCache(tmp_path, limit_bytes=16 * 1000)
    keys = [f"a{number:063x}" for number in range(12)]
    long_ago = time.time() - 10_000
    for number, key in enumerate(keys[:8]):
        cache.put(key, bytes(75))  # 120 bytes with what precedes the content
        os.utime(cache.folder / "a" / key, (long_ago + number, long_ago + number))
    assert [cache.get(key) is not None for key in keys[:1]] == [True]  # the oldest is used again
    for key in keys[8:]:
        cache.put(key, bytes(75))
    present = [key in {path.name for path in files_of(tmp_path)} for key in keys]
    assert present == [True, *4 * [False], *7 * [True]]
    assert sum(path.stat().st_size for path in files_of(tmp_path)) <= 1000


def test_an_entry_that_is_larger_than_its_share_is_not_kept(tmp_path: Path) -> None:
    cache = CompileCache(tmp_path, limit_bytes=16 * 100)
    cache.put(KEY, bytes(50))
    assert cache.get(KEY) is not None
    cache.put(KEY, bytes(60))
    assert cache.get(KEY) == bytes(50)


def test_files_of_processes_that_died_while_writing_are_removed(cache: CompileCache) -> None:
    cache.put(KEY, CONTENT)
    shard = entry_of(cache).parent
    old, fresh = shard / ".new-old", shard / ".new-fresh"
    old.write_bytes(b"x")
    fresh.write_bytes(b"x")
    os.utime(old, (time.time() - 7200, time.time() - 7200))
    cache.put(KEY, CONTENT)
    assert not old.exists()
    assert fresh.exists()


def test_putting_looks_at_one_sixteenth_of_the_entries(
    cache: CompileCache, monkeypatch: pytest.MonkeyPatch
) -> None:
    looked_at = []
    scan = os.scandir

    def noting(path: str) -> object:
        looked_at.append(path)
        return scan(path)

    monkeypatch.setattr(os, "scandir", noting)
    cache.put(KEY, CONTENT)
    assert looked_at == [cache.folder / KEY[0]]


@pytest.mark.parametrize("kind", ["a file", "below a file", "a link to nowhere"])
def test_a_folder_that_cannot_be_used_is_a_miss(tmp_path: Path, kind: str) -> None:
    place = tmp_path / "place"
    if kind == "a link to nowhere":
        place.symlink_to(tmp_path / "absent" / "deeper")
    else:
        place.write_bytes(b"x")
    cache = CompileCache(place / "below" if kind == "below a file" else place)
    cache.put(KEY, CONTENT)
    assert cache.get(KEY) is None
    cache.discard(KEY)


def test_a_folder_that_cannot_be_written(
    cache: CompileCache, monkeypatch: pytest.MonkeyPatch
) -> None:
    cache.put(KEY, CONTENT)

    # The tests may run as root, whom permissions do not stop.
    def refuse(*arguments: object, **options: object) -> None:
        raise PermissionError(13, "Permission denied")

    for name in ("utime", "unlink", "replace", "mkdir"):
        monkeypatch.setattr(os, name, refuse)
    monkeypatch.setattr("tempfile.mkstemp", refuse)
    assert cache.get(KEY) == CONTENT
    cache.put(key_of("other"), CONTENT)
    assert cache.get(key_of("other")) is None


def test_a_full_disk_leaves_nothing(cache: CompileCache, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*paths: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "replace", fail)
    cache.put(KEY, CONTENT)
    assert files_of(cache.folder) == []


def test_an_interrupt_while_writing_leaves_nothing(
    cache: CompileCache, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupt(*paths: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(os, "replace", interrupt)
    with pytest.raises(KeyboardInterrupt):
        cache.put(KEY, CONTENT)
    assert files_of(cache.folder) == []


def test_the_folder_is_private_and_where_the_user_says(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("QUOD_CACHE_DIR", str(tmp_path / "chosen"))
    assert default_folder() == tmp_path / "chosen"
    CompileCache().put(KEY, CONTENT)
    assert (tmp_path / "chosen").stat().st_mode & 0o077 == 0
    monkeypatch.setenv("QUOD_CACHE_DIR", "")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "xdg"))
    assert default_folder() == tmp_path / "xdg" / "quod"
    monkeypatch.delenv("XDG_CACHE_HOME")
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    assert default_folder() == tmp_path / "home" / ".cache" / "quod"


def test_texts_for_people(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    place = CompileCache(tmp_path / "cache").keep_text("f.ll", "text")
    assert place is not None
    assert place.read_text() == "text"
    assert place.parent.parent == tmp_path / "cache"
    (tmp_path / "file").write_bytes(b"")
    monkeypatch.setattr("tempfile.gettempdir", lambda: str(tmp_path))
    assert CompileCache(tmp_path / "file").keep_text("f.ll", "x") == tmp_path / "f.ll"
    monkeypatch.setattr("tempfile.gettempdir", lambda: str(tmp_path / "file"))
    assert CompileCache(tmp_path / "file").keep_text("f.ll", "x") is None
