"""Generates the code of the protocols: ``python -m quod.service.protocol.generate``.

Needs grpcio-tools of the extra `dev`. The generated files are committed next to the .proto files,
and a test compares them; the installed protobuf must be at least as new. gRPC stubs are not
generated: `calls` replaces them.
"""

from __future__ import annotations

import os
from pathlib import Path

HERE = Path(__file__).parent
PACKAGE = "quod/service/protocol"
PROTOCOLS = ("quod", "cuzk")
GENERATED = tuple(f"{name}_pb2.{kind}" for name in PROTOCOLS for kind in ("py", "pyi"))

_HEADER = "# Written by `python -m quod.service.protocol.generate` from {}.proto.\n"


def generate(folder: str | os.PathLike[str]) -> None:
    """Write the modules of `GENERATED` to a folder."""
    import grpc_tools
    from grpc_tools import protoc

    out = Path(folder)
    # The path of a .proto file below the root determines the imports of the generated modules.
    package_mapping = f"{PACKAGE}={HERE}"
    well_known = Path(grpc_tools.__file__).parent / "_proto"
    root = out / "top"
    root.mkdir()
    arguments = [f"-I{package_mapping}", f"-I{well_known}"]
    outputs = [f"--{kind}_out={root}" for kind in ("python", "pyi")]
    sources = [f"{PACKAGE}/{name}.proto" for name in PROTOCOLS]
    if protoc.main(["protoc", *arguments, *outputs, *sources]):
        raise RuntimeError("protoc failed; see its message above")
    for name in GENERATED:
        module_path = root / PACKAGE / name
        header = _HEADER.format(name.partition("_")[0])
        (out / name).write_text(header + module_path.read_text())
        module_path.unlink()
    for inner in (PACKAGE, "quod/service", "quod", ""):
        (root / inner).rmdir()


if __name__ == "__main__":
    generate(HERE)
