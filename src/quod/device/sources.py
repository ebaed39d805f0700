"""A digest of Quod's own source files: what its kernels' text depends on."""

from __future__ import annotations

import functools
import hashlib
import os
from collections.abc import Iterable
from pathlib import Path

import quod

_ROOT = Path(__file__).resolve().parent.parent
_FOLDERS = ("kernel", "target", "field", "curve", "msm", "ntt", "circuit", "groth16")


def own_place(file: str) -> str | None:
    """A source file's path inside the package; None if `digest` does not see it."""
    path = Path(file).resolve()
    if not path.is_relative_to(_ROOT):
        return None
    place = path.relative_to(_ROOT)
    return place.as_posix() if place.parts[0] in _FOLDERS else None


@functools.cache
def digest() -> str:
    """A hash of the modules that Quod's kernels come from; takes one or two milliseconds."""
    return digest_of(_ROOT, _FOLDERS)


def digest_of(root: Path, folders: Iterable[str]) -> str:
    """A hash over names and contents of the Python files in some folders of a package.

    Contents rather than times: installers and version control set times as they like. A package in
    an archive is hashed as that archive.
    """
    state = hashlib.sha256(quod.__version__.encode())
    if not root.is_dir():
        archive = next((parent for parent in root.parents if parent.exists()), root)
        state.update(archive.read_bytes() if archive.is_file() else str(root).encode())
        return state.hexdigest()
    for folder in folders:
        for parent, names, files in os.walk(root / folder):
            names.sort()
            for name in sorted(files):
                if name.endswith(".py"):
                    path = os.path.join(parent, name)
                    with open(path, "rb") as file:
                        content = file.read()
                    state.update(f"{os.path.relpath(path, root)} {len(content)}\n".encode())
                    state.update(content)
    return state.hexdigest()
