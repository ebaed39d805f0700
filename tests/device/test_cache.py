"""The cache of compiled code: damage, several processes at once, size, folders that do not work."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import time
import warnings
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from quod.device.cache import cache as cache_module
from quod.device.cache.cache import CacheWarning, CompileCache, default_folder, key_of
from quod.private_folder import NotOwnError

KEY = key_of("some", "key")
CONTENT = bytes(range(256)) * 4


def files_of(folder: Path) -> list[Path]:
    return [path for path in folder.rglob("*") if path.is_file()]


def folder_of(cache: CompileCache) -> Path:
    assert cache.folder is not None
    return cache.folder


def entry_of(cache: CompileCache) -> Path:
    (path,) = files_of(folder_of(cache))
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
    assert files_of(folder_of(cache)) == []


@given(st.lists(st.binary(max_size=8), max_size=4), st.lists(st.binary(max_size=8), max_size=4))
def test_keys_are_equal_only_for_equal_parts(a: list[bytes], b: list[bytes]) -> None:
    assert (key_of(*a) == key_of(*b)) == (a == b)


def test_flipped_bits_are_detected(cache: CompileCache) -> None:
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
def test_truncated_entries_are_detected(cache: CompileCache, size: int) -> None:
    cache.put(KEY, CONTENT)
    path = entry_of(cache)
    path.write_bytes(path.read_bytes()[:size])
    assert cache.get(KEY) is None
    assert not path.exists()


def test_trailing_bytes_are_detected(cache: CompileCache) -> None:
    cache.put(KEY, CONTENT)
    path = entry_of(cache)
    path.write_bytes(path.read_bytes() + b"x")
    assert cache.get(KEY) is None


def test_renamed_entries_are_detected(cache: CompileCache) -> None:
    cache.put(KEY, CONTENT)
    other = KEY[0] + key_of("other")[1:]
    entry_of(cache).rename(entry_of(cache).with_name(other))
    assert cache.get(other) is None


HAMMER = """
import random, sys
from pathlib import Path
from quod.device.cache.cache import CompileCache, key_of
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
        out, error = process.communicate(timeout=300)
        assert process.returncode == 0, error.decode()
        assert int(out) > 500
    assert all(len(path.name) == 64 for path in files_of(tmp_path))


def test_size_is_bounded_with_lru_eviction(tmp_path: Path) -> None:
    cache = CompileCache(tmp_path, limit_bytes=16 * 1000)
    keys = [f"a{number:063x}" for number in range(12)]
    long_ago = time.time() - 10_000
    for number, key in enumerate(keys[:8]):
        cache.put(key, bytes(75))  # 120 bytes with what precedes the content
        os.utime(tmp_path / "a" / key, (long_ago + number, long_ago + number))
    assert [cache.get(key) is not None for key in keys[:1]] == [True]  # the oldest is used again
    for key in keys[8:]:
        cache.put(key, bytes(75))
    present = [key in {path.name for path in files_of(tmp_path)} for key in keys]
    assert present == [True, *4 * [False], *7 * [True]]
    assert sum(path.stat().st_size for path in files_of(tmp_path)) <= 1000


def test_entries_larger_than_a_shard_are_not_kept(tmp_path: Path) -> None:
    cache = CompileCache(tmp_path, limit_bytes=16 * 100)
    cache.put(KEY, bytes(50))
    assert cache.get(KEY) is not None
    cache.put(KEY, bytes(60))
    assert cache.get(KEY) == bytes(50)


def test_files_of_processes_that_died_while_writing_are_removed(cache: CompileCache) -> None:
    cache.put(KEY, CONTENT)
    shard = entry_of(cache).parent
    old, fresh = shard / f".new-{1:032x}", shard / f".new-{2:032x}"
    for path in (old, fresh):
        path.write_bytes(b"x")
    os.utime(old, (time.time() - 7200, time.time() - 7200))
    CompileCache(cache.folder).put(KEY, CONTENT)  # as the next process does
    assert not old.exists()
    assert fresh.exists()


def test_trimming_deletes_only_cache_entries(tmp_path: Path) -> None:
    cache = CompileCache(tmp_path, limit_bytes=16 * 1000)
    shard = tmp_path / "a"
    shard.mkdir(mode=0o700)
    others = [shard / name for name in ("notes", ".new-mine", "a" * 63, "a" * 63 + "g", "A" * 64)]
    for path in others:
        path.write_bytes(bytes(2000))
        os.utime(path, (0, 0))
    (shard / f"a{0:063x}").mkdir()
    for number in range(1, 12):
        cache.put(f"a{number:063x}", bytes(200))
    assert all(path.exists() for path in others)
    assert (shard / f"a{0:063x}").is_dir()
    kept = [path for path in files_of(tmp_path) if path not in others]
    assert 0 < sum(path.stat().st_size for path in kept) <= 1000


def test_put_scans_one_shard_of_sixteen(
    cache: CompileCache, monkeypatch: pytest.MonkeyPatch
) -> None:
    looked_at = []
    scan = os.scandir

    def noting(folder: int) -> object:
        looked_at.append(os.fstat(folder).st_ino)
        return scan(folder)

    monkeypatch.setattr(os, "scandir", noting)
    cache.put(KEY, CONTENT)
    assert set(looked_at) == {(folder_of(cache) / KEY[0]).stat().st_ino}


@pytest.mark.thorough
@pytest.mark.parametrize("processes", [1, 3])
def test_full_folder_is_not_scanned_for_each_entry(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, processes: int
) -> None:
    """The size stays bounded, with entries of other processes."""
    looks = []
    scan = os.scandir
    monkeypatch.setattr(os, "scandir", lambda folder: looks.append(folder) or scan(folder))
    share = 32_000
    caches = [CompileCache(tmp_path, limit_bytes=16 * share) for _ in range(processes)]
    sizes = []
    for number in range(600):
        caches[number % processes].put(f"a{number:063x}", bytes(115))  # 160 bytes as a file
        sizes.append(sum(file.stat().st_size for file in (tmp_path / "a").iterdir()))
    assert max(sizes) <= share + (processes - 1) * share // 32
    assert min(sizes[share // 160 :]) > share * 0.9
    looks = [each for each in looks if isinstance(each, int)]
    assert len(looks) <= 2 * 600 * 160 / (share / 32)


@pytest.mark.parametrize("kind", ["a file", "below a file", "a link to nowhere"])
def test_unusable_folder_is_a_miss(tmp_path: Path, kind: str) -> None:
    place = tmp_path / "place"
    if kind == "a link to nowhere":
        place.symlink_to(tmp_path / "absent" / "deeper")
    else:
        place.write_bytes(b"x")
    cache = CompileCache(place / "below" if kind == "below a file" else place)
    with pytest.warns(CacheWarning, match="cannot be cached"):
        cache.put(KEY, CONTENT)
    assert cache.get(KEY) is None
    cache.discard(KEY)
    assert not (tmp_path / "absent").exists()


def test_unwritable_folder(cache: CompileCache, monkeypatch: pytest.MonkeyPatch) -> None:
    cache.put(KEY, CONTENT)

    # The tests may run as root, whom permissions do not stop.
    def refuse(*arguments: object, **options: object) -> None:
        raise PermissionError(13, "Permission denied")

    for name in ("utime", "unlink", "replace", "mkdir"):
        monkeypatch.setattr(os, name, refuse)
    assert cache.get(KEY) == CONTENT
    with warnings.catch_warnings(record=True) as seen:
        warnings.simplefilter("always")
        for part in ("other", "another"):
            cache.put(key_of(part), CONTENT)
            CompileCache(cache.folder).put(key_of(part), CONTENT)
            assert cache.get(key_of(part)) is None
    (only,) = seen
    assert only.category is CacheWarning
    assert str(only.message) == (
        f"compiled kernels cannot be cached in {cache.folder} and are compiled again in each run: "
        "Permission denied; set QUOD_CACHE_DIR to a folder that only you may write to"
    )


@pytest.mark.filterwarnings("ignore::quod.device.cache.cache.CacheWarning")
def test_full_disk_leaves_no_file(cache: CompileCache, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*paths: object, **folders: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "replace", fail)
    cache.put(KEY, CONTENT)
    assert files_of(folder_of(cache)) == []


def test_interrupted_write_leaves_no_file(
    cache: CompileCache, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupt(*paths: object, **folders: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(os, "replace", interrupt)
    with pytest.raises(KeyboardInterrupt):
        cache.put(KEY, CONTENT)
    assert files_of(folder_of(cache)) == []


def test_removed_folder_is_recreated(cache: CompileCache) -> None:
    cache.put(KEY, CONTENT)
    shutil.rmtree(folder_of(cache))
    assert cache.get(KEY) is None
    cache.put(KEY, CONTENT)
    assert CompileCache(cache.folder).get(KEY) == CONTENT


def test_folder_is_private_and_configurable(
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


@pytest.mark.parametrize(
    ("variables", "expected"),
    [
        ({"QUOD_CACHE_DIR": "/a/b"}, "/a/b"),
        ({"QUOD_CACHE_DIR": "a/b"}, "QUOD_CACHE_DIR is 'a/b'"),
        ({"QUOD_CACHE_DIR": "~/b"}, "QUOD_CACHE_DIR is '~/b'"),
        # The XDG base directory specification: a relative path is invalid and ignored.
        ({"XDG_CACHE_HOME": "xdg", "HOME": "/home/one"}, "/home/one/.cache/quod"),
        ({"XDG_CACHE_HOME": ".", "HOME": "relative"}, "no home folder"),
        ({"HOME": ""}, "no home folder"),
        ({"HOME": "~"}, "no home folder"),
    ],
)
def test_folder_does_not_depend_on_working_directory(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, variables: dict[str, str], expected: str
) -> None:
    monkeypatch.chdir(tmp_path)
    for name in ("QUOD_CACHE_DIR", "XDG_CACHE_HOME", "HOME"):
        monkeypatch.setenv(name, variables.get(name, ""))
    if expected.startswith("/"):
        assert default_folder() == Path(expected)
        return
    with pytest.raises(NotOwnError, match=expected):
        default_folder()
    cache_module._warned_folders.clear()
    cache = CompileCache()
    assert cache.folder is None
    with pytest.warns(CacheWarning, match=expected):
        cache.put(KEY, CONTENT)
    assert cache.get(KEY) is None
    assert list(tmp_path.iterdir()) == []


SAYING = """
from quod.cli import entry
from quod.device.cache.cache import CompileCache, key_of
def run(arguments, owns_process):
    for part in arguments:
        CompileCache().put(key_of(part), b"")
    return 0
entry.run = run
entry.main(["one", "two"])
"""


def test_command_line_warns_in_one_line(tmp_path: Path) -> None:
    environment = dict(os.environ, QUOD_CACHE_DIR="somewhere", PYTHONPATH=os.pathsep.join(sys.path))
    done = subprocess.run(
        [sys.executable, "-c", SAYING], env=environment, cwd=tmp_path, text=True,
        capture_output=True, check=True,
    )  # fmt: skip
    assert done.stderr == (
        "quod: warning: compiled kernels cannot be cached and are compiled again in each run: "
        "QUOD_CACHE_DIR is 'somewhere', which is not an absolute path; set QUOD_CACHE_DIR to "
        "a folder that only you may write to\n"
    )


def test_a_user_without_a_home_has_no_cache(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("QUOD_CACHE_DIR", "XDG_CACHE_HOME", "HOME"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(os.path, "expanduser", lambda path: path)  # as for an unknown user
    with pytest.raises(NotOwnError, match="no home folder"):
        default_folder()


def test_kernel_texts_are_kept_for_debugging(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    cache = CompileCache(tmp_path / "cache")
    place, other = (cache.keep_text("f.ll", "text") for _ in range(2))
    assert place is not None
    assert other not in (None, place)
    assert place.read_text() == "text"
    assert re.fullmatch(r"f-[0-9a-f]{32}\.ll", place.name)
    assert place.stat().st_mode & 0o077 == 0
    assert place.parent.stat().st_mode & 0o077 == 0
    assert place.parent.parent == tmp_path / "cache"
    (tmp_path / "file").write_bytes(b"")
    monkeypatch.setattr("tempfile.gettempdir", lambda: str(tmp_path))
    elsewhere = CompileCache(tmp_path / "file").keep_text("f.ll", "x")
    assert elsewhere is not None
    assert elsewhere.parent == tmp_path
    assert elsewhere.read_text() == "x"
    monkeypatch.setattr("tempfile.gettempdir", lambda: str(tmp_path / "file"))
    assert CompileCache(tmp_path / "file").keep_text("f.ll", "x") is None


def test_kept_texts_are_bounded(cache: CompileCache, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cache_module, "_MAX_TEXTS", 3)
    for number in range(8):
        assert cache.keep_text("f.ll", str(number)) is not None
    assert len(files_of(folder_of(cache))) == 3


def test_kept_text_overwrites_no_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A link at the predicted name is not followed."""
    monkeypatch.setattr(os, "urandom", bytes)
    monkeypatch.setattr("tempfile.gettempdir", lambda: str(tmp_path))
    (tmp_path / "file").write_bytes(b"")
    (tmp_path / "target").write_text("mine")
    (tmp_path / f"f-{0:032x}.ll").symlink_to(tmp_path / "target")
    assert CompileCache(tmp_path / "file").keep_text("f.ll", "x") is None
    assert (tmp_path / "target").read_text() == "mine"
