"""The wheel `quod-kernels`: prebuilt kernels as a package that devices find once it is installed.

A wheel is a zip archive with a folder of metadata (Python Packaging User Guide, "Binary
distribution format"). Equal folders give equal bytes, except for other versions of zlib.
"""

from __future__ import annotations

import base64
import hashlib
import io
import zipfile
from pathlib import Path

from quod.device.cache.prebuilt import PACKAGE

_EARLIEST = (1980, 1, 1, 0, 0, 0)
_MODE = 0o100644
_SUMMARY = "Machine code of Quod's kernels for NVIDIA GPUs and x86-64 CPUs"
_DOCSTRING = f'"""{_SUMMARY}, which devices load without importing this package."""\n'  # fmt: skip


def wheel_name(version: str) -> str:
    """Return the file name of the wheel of a version of Quod."""
    return f"{PACKAGE}-{version}-py3-none-any.whl"


def wheel_of(folder: Path, version: str) -> bytes:
    """Return the wheel of a folder that `build` made."""
    information = f"{PACKAGE}-{version}.dist-info"
    files = {f"{PACKAGE}/__init__.py": _DOCSTRING.encode()}
    for path in sorted(folder.rglob("*")):
        if path.is_file():
            files[f"{PACKAGE}/{path.relative_to(folder).as_posix()}"] = path.read_bytes()
    files[f"{information}/METADATA"] = (
        f"Metadata-Version: 2.4\nName: {PACKAGE.replace('_', '-')}\nVersion: {version}\n"
        f"Summary: {_SUMMARY}\nLicense-Expression: Apache-2.0\nRequires-Python: >=3.11\n"
    ).encode()
    files[f"{information}/WHEEL"] = (
        b"Wheel-Version: 1.0\nGenerator: quod\nRoot-Is-Purelib: true\nTag: py3-none-any\n"
    )
    rows = [f"{name},{_hash(content)},{len(content)}" for name, content in files.items()]
    record = f"{information}/RECORD"
    files[record] = "\n".join([*rows, f"{record},,", ""]).encode()
    archive = io.BytesIO()
    with zipfile.ZipFile(archive, "w", zipfile.ZIP_DEFLATED, compresslevel=9) as zipped:
        for name, content in files.items():
            entry = zipfile.ZipInfo(name, _EARLIEST)
            entry.compress_type, entry.external_attr = zipfile.ZIP_DEFLATED, _MODE << 16
            entry.create_system = 3  # Unix, on any system
            zipped.writestr(entry, content)
    return archive.getvalue()


def _hash(content: bytes) -> str:
    digest = base64.urlsafe_b64encode(hashlib.sha256(content).digest())
    return f"sha256={digest.rstrip(b'=').decode()}"
