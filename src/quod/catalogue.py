"""The kernels of Quod by name: the modules that register them, and the list of all kernels.

Every module that calls `quod.kernel.registry.register` is in `MODULES` or imported by a module of
`MODULES`. The modules are imported on the first use of a registered kernel.
"""

from __future__ import annotations

import functools
from importlib import import_module

from quod.errors import InputError
from quod.frozen import frozen
from quod.kernel.load import load
from quod.kernel.registry import RegisteredKernel, registered
from quod.names import nearest

MODULES = (
    "quod.kernel.examples",
    "quod.field.kernels",
    "quod.curve.kernels",
    "quod.msm.kernels",
    "quod.ntt.kernels",
    "quod.sumcheck.kernels",
    "quod.commitment.kernels",
    "quod.ceremony.kernels",
    "quod.r1cs.kernels",
    "quod.lookup.kernels",
    "quod.groth16.kernels",
    "quod.bench.kernels",
    "quod.gkr.kernels",
    "quod.filecoin.kernels",
    "quod.inference.kernels",
    "quod.tensor.kernels",
    "quod.witness.kernels",
)
"""The modules that register kernels."""


@frozen
class KernelRow:
    """A row of the list of kernels.

    parameters: the name and type of each parameter, such as ``n: u32``.
    doc: the first paragraph of the kernel's docstring.
    """

    name: str
    parameters: list[str]
    doc: str


def kernels() -> list[KernelRow]:
    """Return all registered kernels, sorted by name."""
    _load()
    return [
        KernelRow(
            name,
            [f"{parameter}: {type_}" for parameter, type_ in row.definition.parameters.items()],
            row.definition.doc,
        )
        for name, row in sorted(registered().items())
    ]


def find(name: str) -> RegisteredKernel:
    """Return a registered kernel by its name, or a kernel of a Python file by ``path.py:name``.

    The latter executes the file. Raises InputError for an unknown name, suggesting the nearest
    name, and KernelError if a kernel of a file has static parameters without defaults.
    """
    if ".py:" in name:
        kernel = RegisteredKernel(name, load(name))
        kernel.check_static()
        return kernel
    _load()
    rows = registered()
    if name not in rows:
        close = nearest(name, rows, 0.5)
        hint = (
            f"did you mean {close}?"
            if close
            else "`quod kernel list` shows the names; for a kernel of a file give path.py:name"
        )
        raise InputError(f"there is no kernel {name}; {hint}")
    return rows[name]


@functools.cache
def _load() -> None:
    for module in MODULES:
        import_module(module)
