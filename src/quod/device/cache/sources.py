"""A digest of Quod's own source files, on which the text of its kernels depends."""

from __future__ import annotations

import functools
import hashlib
import os
import signal
from collections.abc import Collection
from typing import TYPE_CHECKING

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


@functools.cache
def digest() -> str:
    """Return a hash of all modules that Quod's kernels may depend on; takes 25 ms."""
    return _digest_of_child() or digest_of(_ROOT, _NO_KERNELS)


_child: tuple[int, int] | None = None
"""The process ID of the child that computes `digest`, and the pipe from which to read it."""


def begin_digest() -> None:
    """Begin to compute `digest` on another core, in a child process.

    A thread would compete for the interpreter with the imports meanwhile. Only for a process that
    has started no thread. Without a second core or without a further process this does nothing.
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
            os.write(write_end, digest_of(_ROOT, _NO_KERNELS).encode())
        finally:
            # Neither the parent's cleanup nor its report of errors is for the child.
            os._exit(0)
    os.close(write_end)
    _child = child, read_end


def _digest_of_child() -> str | None:
    """Return the digest that a child has computed; None if there is no child or it has failed."""
    global _child
    if _child is None:
        return None
    (child, pipe), _child = _child, None
    with open(pipe, "rb") as file:
        text = file.read().decode()
    os.waitpid(child, 0)
    return text if len(text) == 2 * hashlib.sha256().digest_size else None


def _cores() -> int:
    # `quod.device.host` imports `pathlib`, which `quod.cli.lean_imports` has yet to do.
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else 1


def digest_of(root: str | Path, without: Collection[str]) -> str:
    """Return a hash of the names and contents of a package's Python files.

    without: names of folders directly in `root` to leave out. Contents are hashed rather than
    times, because installers and version control set times freely. A package in an archive is
    hashed as that archive.
    """
    # Imported here, as the package's root is in a layer above this module.
    import quod

    state = hashlib.sha256(quod.__version__.encode())
    if not os.path.isdir(root):
        from pathlib import Path

        root = Path(root)
        archive = next((parent for parent in root.parents if parent.exists()), root)
        state.update(archive.read_bytes() if archive.is_file() else str(root).encode())
        return state.hexdigest()
    top = str(root)
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
            content = _content(path)
            state.update(f"{path[len(top) :]} {len(content)}\n".encode())
            state.update(content)
    return state.hexdigest()


def _content(path: str) -> bytes:
    """Read a file; for 350 small files this takes half as long as Python's own file objects."""
    handle = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        content = os.read(handle, _USUAL_BYTES)
        while len(content) >= _USUAL_BYTES and (chunk := os.read(handle, len(content))):
            content += chunk
        return content
    finally:
        os.close(handle)
