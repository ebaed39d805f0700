"""Generates the code of the protocol: ``python -m quod.service.protocol.generate``.

Needs grpcio-tools of the extra `dev`. The generated files are committed next to quod.proto, and a
test compares them; the installed protobuf must be at least as new. gRPC stubs are not generated:
`calls` replaces them.
"""

from __future__ import annotations

import os
from pathlib import Path

HERE = Path(__file__).parent
PACKAGE = "quod/service/protocol"
GENERATED = ("quod_pb2.py", "quod_pb2.pyi")

_HEADER = "# Written by `python -m quod.service.protocol.generate` from quod.proto.\n"


def generate(folder: str | os.PathLike[str]) -> None:
    """Write the modules of `GENERATED` to a folder."""
    import grpc_tools
    from grpc_tools import protoc

    out = Path(folder)
    source = HERE / "quod.proto"
    # The path of quod.proto below the root determines the imports of the generated modules.
    package_mapping = f"{PACKAGE}={source.parent}"
    well_known = Path(grpc_tools.__file__).parent / "_proto"
    root = out / "top"
    root.mkdir()
    arguments = [f"-I{package_mapping}", f"-I{well_known}"]
    outputs = [f"--{kind}_out={root}" for kind in ("python", "pyi")]
    if protoc.main(["protoc", *arguments, *outputs, f"{PACKAGE}/quod.proto"]):
        raise RuntimeError("protoc failed; see its message above")
    for name in GENERATED:
        module_path = root / PACKAGE / name
        (out / name).write_text(_HEADER + module_path.read_text())
        module_path.unlink()
    for inner in (PACKAGE, "quod/service", "quod", ""):
        (root / inner).rmdir()


if __name__ == "__main__":
    generate(HERE)
