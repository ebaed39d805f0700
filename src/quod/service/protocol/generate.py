"""Generates the code of the protocol: ``python -m quod.service.protocol.generate``.

Takes grpcio-tools, of the extra `dev`. What it writes beside quod.proto is committed, and a test
compares it; the protobuf that is installed must be as new as it or newer. Stubs of grpcio are not
generated: `calls` has what they would say.
"""

from __future__ import annotations

import os
from pathlib import Path

HERE = Path(__file__).parent
PACKAGE = "quod/service/protocol"
GENERATED = ("quod_pb2.py", "quod_pb2.pyi")

_HEADER = "# Written by `python -m quod.service.protocol.generate` from quod.proto.\n"


def generate(folder: str | os.PathLike[str]) -> None:
    """Writes the modules of `GENERATED` to a folder."""
    import grpc_tools
    from grpc_tools import protoc

    out = Path(folder)
    source = HERE / "quod.proto"
    # Its place below the root decides what the generated modules import, and must look like it.
    virtual = f"{PACKAGE}={source.parent}"
    well_known = Path(grpc_tools.__file__).parent / "_proto"
    top = out / "top"
    top.mkdir()
    arguments = [f"-I{virtual}", f"-I{well_known}"]
    outputs = [f"--{kind}_out={top}" for kind in ("python", "pyi")]
    if protoc.main(["protoc", *arguments, *outputs, f"{PACKAGE}/quod.proto"]):
        raise RuntimeError("protoc failed; see its message above")
    for name in GENERATED:
        made = top / PACKAGE / name
        (out / name).write_text(_HEADER + made.read_text())
        made.unlink()
    for inner in (PACKAGE, "quod/service", "quod", ""):
        (top / inner).rmdir()


if __name__ == "__main__":
    generate(HERE)
