"""A digest of Quod's own source files, on which the text of its kernels depends."""

from __future__ import annotations

import functools
import hashlib
import os
import signal
import sys
from collections.abc import Collection, Iterator
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from pathlib import Path

_ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.realpath(__file__))))
_OWN = f"{_ROOT}{os.sep}"
# More bytes than most modules have.
_USUAL_BYTES = 1 << 15
# Everything in the package is hashed unless it is listed here, so that no kernel is ever stale.
_NO_KERNELS = frozenset({"cli", "formats", "web"})


@functools.cache
def path_in_package(file: str) -> str | None:
    """Return a source file's path inside the package, or None if `digest` does not cover it."""
    folder = _real_folder(os.path.dirname(os.path.abspath(file)))
    path = os.path.join(folder, os.path.basename(file))
    if os.path.islink(path):
        path = os.path.realpath(path)
    if not path.startswith(_OWN):
        return None
    parts = path.removeprefix(_OWN).split(os.sep)
    return None if parts[0] in _NO_KERNELS else "/".join(parts)


_real_folder = functools.cache(os.path.realpath)


class State(NamedTuple):
    """The modules of a package at one time.

    digest: a hash of their contents.
    stamp: a hash of their sizes and times of change.
    """

    digest: str
    stamp: str


def digest() -> str:
    """Return a hash of all modules that Quod's kernels may depend on; the first call takes 25 ms.

    It is that of the modules on disk at the first call, or at `begin_digest`.
    """
    return _state().digest


_checked_modules = 0
"""The number of loaded modules at the last check of `are_unchanged` that was true."""


def are_unchanged() -> bool:
    """Return whether all modules that this process has loaded are those of `digest`.

    Modules load when they are first used, also long after the first call of `digest`. If files have
    changed since then, the process may run other code, so nothing that the code computes may be
    stored under a key with `digest`. Takes 10 ms if modules were loaded since the last call.
    """
    global _checked_modules
    modules = len(sys.modules)
    if modules != _checked_modules:
        if stamp_of(_ROOT, _NO_KERNELS) != _state().stamp:
            return False
        _checked_modules = modules
    return True


@functools.cache
def _state() -> State:
    return _state_of_child() or state_of(_ROOT, _NO_KERNELS)


_child: tuple[int, int] | None = None
"""The process ID of the child that computes the state, and the pipe from which to read it."""


def begin_digest() -> None:
    """Begin to compute `digest` on another core, in a child process.

    A thread would compete for the interpreter with the imports meanwhile. Only for a process that
    has started no thread. If there is one core, or no process can be started, this does nothing.
    """
    global _child
    if _child is not None or not hasattr(os, "fork") or _cores() < 2:
        return
    read_end, write_end = os.pipe()
    try:
        child = os.fork()
    except OSError:
        os.close(read_end)
        os.close(write_end)
        return
    if child == 0:
        try:
            for number in (signal.SIGINT, signal.SIGTERM):
                signal.signal(number, signal.SIG_DFL)
            os.write(write_end, "".join(state_of(_ROOT, _NO_KERNELS)).encode())
        finally:
            # Neither the parent's cleanup nor its report of errors is for the child.
            os._exit(0)
    os.close(write_end)
    _child = child, read_end


def _state_of_child() -> State | None:
    """Return the state that a child has computed; None if there is no child or it has failed."""
    global _child
    if _child is None:
        return None
    (child, pipe), _child = _child, None
    with open(pipe, "rb") as file:
        text = file.read().decode()
    os.waitpid(child, 0)
    size = 2 * hashlib.sha256().digest_size
    return State(text[:size], text[size:]) if len(text) == 2 * size else None


def _cores() -> int:
    # `quod.device.host` imports `pathlib`, which `quod.cli.lean_imports` must import first.
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else 1


def digest_of(root: str | Path, without: Collection[str]) -> str:
    """Return a hash of the names and contents of a package's Python files.

    without: names of folders directly in `root` to leave out. Contents are hashed rather than
    times, because installers and version control set times freely. A package in an archive is
    hashed as that archive.
    """
    return state_of(root, without).digest


def state_of(root: str | Path, without: Collection[str]) -> State:
    """Return the `digest_of` a package, and its `stamp_of` when its files were read."""
    # Imported here, as the package's root is in a layer above this module.
    import quod

    contents, stamp = hashlib.sha256(quod.__version__.encode()), hashlib.sha256()
    for path, name in _files_of(str(root), without):
        content, status = _content(path)
        contents.update(f"{name} {len(content)}\n".encode())
        contents.update(content)
        stamp.update(_stamp(name, status))
    return State(contents.hexdigest(), stamp.hexdigest())


def stamp_of(root: str | Path, without: Collection[str]) -> str:
    """Return a hash of the names, sizes and times of change of a package's Python files."""
    stamp = hashlib.sha256()
    for path, name in _files_of(str(root), without):
        stamp.update(_stamp(name, os.stat(path)))
    return stamp.hexdigest()


def _stamp(name: str, status: os.stat_result) -> bytes:
    # Installers set the time of modification; nothing can set the time of the last change.
    return f"{name} {status.st_size} {status.st_ctime_ns}\n".encode()


def _files_of(top: str, without: Collection[str]) -> Iterator[tuple[str, str]]:
    """Yield the path of each Python file of a package, and its path from the package's folder.

    For a package in an archive, yield that archive.
    """
    if not os.path.isdir(top):
        while not os.path.exists(top):
            top = os.path.dirname(top)
        if os.path.isfile(top):
            yield top, ""
        return
    folders = [top]
    while folders:
        parent = folders.pop()
        modules = []
        with os.scandir(parent) as directory:
            for entry in sorted(directory, key=lambda entry: entry.name):
                # Editors leave other files beside modules.
                if entry.name.endswith(".py") and entry.name[:-3].isidentifier():
                    modules.append(entry.path)
                elif entry.name == "__pycache__" or (parent == top and entry.name in without):
                    continue
                elif entry.is_dir(follow_symlinks=False):
                    folders.append(entry.path)
        for path in modules:
            yield path, path[len(top) :]


def _content(path: str) -> tuple[bytes, os.stat_result]:
    """Read a file; for 350 small files this takes half as long as Python's own file objects."""
    handle = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        status = os.fstat(handle)
        content = os.read(handle, _USUAL_BYTES)
        while len(content) >= _USUAL_BYTES and (chunk := os.read(handle, len(content))):
            content += chunk
        return content, status
    finally:
        os.close(handle)
