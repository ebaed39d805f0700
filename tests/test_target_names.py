"""Modules above `device` name neither a target nor a kind of device."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import quod

ROOT = Path(quod.__file__).parent
ALGORITHMS = (
    "field",
    "curve",
    "msm",
    "ntt",
    "sumcheck",
    "transcript",
    "hash",
    "ceremony",
    "commitment",
    "lookup",
    "layered",
    "r1cs",
    "gkr",
    "inference",
    "groth16",
    "zcash",
    "filecoin",
    "tensor",
)
NAMES = re.compile(r"llvm|ptx|wgsl|cuda|webgpu|vulkan|cpu", re.IGNORECASE)
DEVICES = re.compile(r"(Cpu|Cuda|WebGpu|Emulated|Export)Device|is_(cpu|cuda|webgpu|vulkan|wgsl)")
MODULES = re.compile(r"quod\.(device\.(cpu|cuda|webgpu|emulated|export)|codegen)")

THEIRS = {
    "tensor/torch/memory.py": {"cuda", "is_cuda"},
    "groth16/gpu/first_proofs.py": {"quod.device.cuda.planning"},
}
"""PyTorch's names of its tensors' devices; the models of GPUs that the wheel has kernels for."""

HOST = {"cpu"}
"""The name of the device that every machine has, and opens beside a GPU."""


def named(path: Path) -> Iterator[str]:
    """Strings that are the name of a target or a kind of device, and the classes of devices."""
    text = path.read_text()
    if not any(pattern.search(text) for pattern in (NAMES, DEVICES, MODULES)):
        return
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            if NAMES.fullmatch(node.value):
                yield node.value
        elif isinstance(node, ast.Name | ast.Attribute):
            word = node.id if isinstance(node, ast.Name) else node.attr
            if DEVICES.fullmatch(word):
                yield word
        elif isinstance(node, ast.ImportFrom) and node.module:
            if MODULES.match(node.module):
                yield node.module


def test_algorithms_do_not_depend_on_targets_or_devices() -> None:
    violations = {}
    for package in ALGORITHMS:
        assert (ROOT / package / "__init__.py").exists()
        for path in sorted((ROOT / package).rglob("*.py")):
            place = path.relative_to(ROOT).as_posix()
            if names := set(named(path)) - HOST - THEIRS.get(place, set()):
                violations[place] = names
    assert not violations
