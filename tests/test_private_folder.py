"""Cache folders that other users could write to are not trusted: folders, links and files."""

from __future__ import annotations

import os
import tempfile
import warnings
from pathlib import Path

import pytest

from quod.device.cache.cache import CacheWarning, CompileCache, key_of
from quod.private_folder import NotOwnError, open_base

KEY = key_of("some", "key")
CONTENT = bytes(range(256)) * 4
SOMEBODY = 54321

needs_root = pytest.mark.skipif(
    os.geteuid() != 0, reason="only root can change the owner of a file"
)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A cache folder that holds an entry."""
    place = tmp_path / "above" / "cache"
    CompileCache(place).put(KEY, CONTENT)
    assert CompileCache(place).get(KEY) == CONTENT
    return place


def entry(folder: Path) -> Path:
    return folder / KEY[0] / KEY


def refusal(folder: Path) -> str:
    """Why a cache there is not used: the one warning about it."""
    with warnings.catch_warnings(record=True) as seen:
        warnings.simplefilter("always")
        for cache in (CompileCache(folder), CompileCache(folder)):
            assert cache.get(KEY) is None
            cache.put(KEY, b"other")
            cache.put(key_of("another"), b"other")
            assert cache.get(KEY) is None
    (only,) = seen
    assert only.category is CacheWarning
    return str(only.message)


def test_new_folders_are_private(tmp_path: Path) -> None:
    before = os.umask(0)
    try:
        CompileCache(tmp_path / "a" / "b").put(KEY, CONTENT)
    finally:
        os.umask(before)
    for place in (tmp_path / "a", tmp_path / "a/b", tmp_path / "a/b" / KEY[0]):
        assert place.stat().st_mode & 0o777 == 0o700
    assert entry(tmp_path / "a/b").stat().st_mode & 0o777 == 0o600


@pytest.mark.parametrize("mode", [0o770, 0o707, 0o720, 0o702, 0o1777])
def test_a_folder_that_others_may_write_is_not_used(folder: Path, mode: int) -> None:
    folder.chmod(mode)
    assert f"others may write to {folder}" in refusal(folder)
    assert entry(folder).exists()


def test_folder_below_a_writable_folder_is_not_used(folder: Path) -> None:
    folder.parent.chmod(0o777)
    assert f"others may write to {folder.parent}" in refusal(folder)


def test_folder_below_a_sticky_folder_is_used(folder: Path) -> None:
    folder.parent.chmod(0o1777)
    assert CompileCache(folder).get(KEY) == CONTENT


@needs_root
@pytest.mark.parametrize("place", [".", "..", "shard"])
def test_a_folder_of_another_user_is_not_used(folder: Path, place: str) -> None:
    of_another = entry(folder).parent if place == "shard" else (folder / place).resolve()
    os.chown(of_another, SOMEBODY, -1)
    assert f"belongs to user {SOMEBODY}" in refusal(folder)


@needs_root
def test_folder_of_another_user_in_a_sticky_folder_is_not_used(tmp_path: Path) -> None:
    tmp_path.chmod(0o1777)
    (tmp_path / "cache").mkdir(mode=0o755)
    os.chown(tmp_path / "cache", SOMEBODY, -1)
    assert f"belongs to user {SOMEBODY}" in refusal(tmp_path / "cache")


@needs_root
def test_root_owned_cache_is_used_read_only() -> None:
    """A user without write access gets no warning as long as nothing is missing."""
    # The folders of other tests are root's alone.
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place) / "cache"
        CompileCache(folder).put(KEY, CONTENT)
        _read_as_somebody(folder)


def _read_as_somebody(folder: Path) -> None:
    for place in (folder.parent, folder, entry(folder).parent):
        place.chmod(0o755)
    entry(folder).chmod(0o644)
    child = os.fork()
    if child == 0:
        status = 1
        try:
            os.setuid(SOMEBODY)
            with warnings.catch_warnings(record=True) as seen:
                warnings.simplefilter("always")
                cache = CompileCache(folder)
                hit = cache.get(KEY) == CONTENT
                before = len(seen)
                for part in ("one", "two"):
                    cache.put(key_of(part), CONTENT)
                if hit and before == 0 and len(seen) == 1:
                    status = 0 if "Permission denied" in str(seen[0].message) else 2
        finally:
            os._exit(status)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0


def test_links_to_the_folder_are_followed(folder: Path, tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to(folder.parent)
    assert CompileCache(tmp_path / "link" / "cache").get(KEY) == CONTENT
    CompileCache(tmp_path / "link" / "new").put(KEY, CONTENT)
    assert entry(folder.parent / "new").exists()
    folder.chmod(0o777)
    assert f"others may write to {folder}" in refusal(tmp_path / "link" / "cache")


def test_links_below_the_folder_are_not_followed(folder: Path, tmp_path: Path) -> None:
    shard, elsewhere = entry(folder).parent, tmp_path / "elsewhere"
    shard.rename(elsewhere)
    shard.symlink_to(elsewhere)
    assert "Not a directory" in refusal(folder)
    assert (elsewhere / KEY).read_bytes().endswith(CONTENT)


def test_an_entry_that_is_a_link_is_replaced(folder: Path, tmp_path: Path) -> None:
    path, elsewhere = entry(folder), tmp_path / "elsewhere"
    path.rename(elsewhere)
    path.symlink_to(elsewhere)
    cache = CompileCache(folder)
    assert cache.get(KEY) is None
    cache.put(KEY, b"new")
    assert cache.get(KEY) == b"new"
    assert elsewhere.read_bytes().endswith(CONTENT)


def test_writable_subfolder_is_emptied(folder: Path) -> None:
    """Its entries may be another user's; older versions made such folders."""
    shard = entry(folder).parent
    (shard / "notes").write_bytes(b"")
    shard.chmod(0o775)
    cache = CompileCache(folder)
    assert cache.get(KEY) is None
    assert sorted(path.name for path in shard.iterdir()) == ["notes"]
    assert shard.stat().st_mode & 0o777 == 0o700
    cache.put(KEY, CONTENT)
    assert cache.get(KEY) == CONTENT


@pytest.mark.parametrize("kind", ["fifo", "giant", "open", "theirs", "folder"])
def test_non_regular_entries_are_not_read(folder: Path, kind: str) -> None:
    path = entry(folder)
    match kind:
        case "fifo":
            path.unlink()
            os.mkfifo(path)
        case "giant":
            os.truncate(path, 1 << 40)
        case "open":
            path.chmod(0o666)
        case "theirs":
            if os.geteuid() != 0:
                pytest.skip("only root can change the owner of a file")
            os.chown(path, SOMEBODY, -1)
        case "folder":
            path.unlink()
            path.mkdir()
    cache = CompileCache(folder)
    assert cache.get(KEY) is None
    if kind == "folder":
        with pytest.warns(CacheWarning, match="Is a directory"):
            cache.put(KEY, CONTENT)
        assert path.is_dir()
        return
    cache.put(KEY, CONTENT)
    assert cache.get(KEY) == CONTENT


def test_a_folder_that_is_exchanged_between_check_and_use_is_not_used(
    folder: Path, tmp_path: Path
) -> None:
    cache = CompileCache(folder)
    assert cache.get(KEY) == CONTENT
    folder.rename(tmp_path / "moved")
    CompileCache(folder).put(KEY, b"planted")
    assert cache.get(KEY) == CONTENT


def test_relative_paths_are_refused() -> None:
    with pytest.raises(NotOwnError, match="not an absolute path"):
        open_base("cache")


def test_no_file_descriptor_leaks(folder: Path) -> None:
    def descriptors() -> int:
        return len(os.listdir("/proc/self/fd"))

    if not os.path.isdir("/proc/self/fd"):
        pytest.skip("the system does not list descriptors")
    before = descriptors()
    for _ in range(5):
        cache = CompileCache(folder)
        cache.get(KEY)
        cache.put(KEY, CONTENT)
        cache.keep_text("f.ll", "x")
        with pytest.raises(NotOwnError):
            open_base("x")
        with pytest.raises(OSError):
            open_base(str(folder / "absent"))
        with pytest.raises(OSError):
            open_base(str(entry(folder) / "below"), create=True)
        del cache
    assert descriptors() == before
