"""Benchmarks of quantised weights times vectors: a chain of different matrices.

Each product's result is the next one's input, as in a decoding step of a language model. A single
matrix would stay in a GPU's cache, and its product takes less time than a launch. The peer copies
as many bytes within the device's memory, so the ratio is the share of the copy rate.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np
from numpy.typing import NDArray

from quod.bench.measure.copies import copied
from quod.bench.measure.harness import Case, Parameter
from quod.device.discovery import open_device
from quod.device.protocol import AnyDevice
from quod.device.runtime.timeline import Timeline
from quod.errors import InputError, QuodError
from quod.frozen import replace
from quod.tensor.quantised.batch import EXACT
from quod.tensor.quantised.core_layout import CoreLayout
from quod.tensor.quantised.matrix import ProductLayout, QuantisedMatrix, layout_for
from quod.tensor.quantised.reference import BLOCK_TYPES, dequantise
from quod.tensor.quantised.types.table import QUANTISED_TYPES

_CHECKED_ROWS = 64


def cases(
    device: str, type_name: str, size: int, matrices: int, layout: dict[str, int],
    activations: str = EXACT,
) -> Iterator[Case]:  # fmt: skip
    """Yield a chain of `matrices` square matrices of `size`.

    layout: fields to replace in the layout of the device's FMA kernels (`layout_for`), which exact
        activations then use instead of matrix cores.
    """
    check_matrix(type_name, size)
    opened_device = open_device(device)
    chosen_layout = replace(layout_for(opened_device, type_name), **layout) if layout else None
    data = [random_matrix(type_name, size, seed) for seed in range(matrices)]
    chain = [
        QuantisedMatrix(opened_device, type_name, blocks, layout=chosen_layout) for blocks in data
    ]
    x = np.random.default_rng(matrices).standard_normal(size).astype(np.float32)
    _check(chain[0], data[0], x, activations)
    run = _chained(opened_device, chain, x, activations)
    copied_bytes = sum(matrix.nbytes for matrix in chain)
    parameters: dict[str, Parameter] = {
        "type": type_name, "size": size, "matrices": matrices, "MB": round(copied_bytes / 1e6, 1),
    }  # fmt: skip
    if activations == EXACT:
        parameters |= _shown(chain[0].layout)
    else:
        parameters["activations"] = activations
    yield Case(
        parameters, run, "us/product", operations=matrices,
        peers={"copy": copied(opened_device, copied_bytes)},
        peer_note="moves as many bytes", traced=run,
    )  # fmt: skip


def _shown(layout: ProductLayout | CoreLayout) -> dict[str, Parameter]:
    """Return the parameters by which a row names the layout."""
    if isinstance(layout, CoreLayout):
        return {"lanes": layout.lanes, "rows": layout.rows, "slices": layout.slices}
    parameters: dict[str, Parameter] = {
        "lanes": layout.lanes, "width": layout.width, "rows at once": layout.rows_per_instance,
    }  # fmt: skip
    return parameters | ({"together": layout.row_groups} if layout.row_groups > 1 else {})


def check_matrix(type_name: str, size: int) -> None:
    """Raise InputError unless the block type exists and divides the columns."""
    if type_name not in BLOCK_TYPES:
        raise InputError(
            f"{type_name!r} is not a type of blocks; choose one of {', '.join(BLOCK_TYPES)}"
        )
    elements = QUANTISED_TYPES[type_name].elements
    if size % elements:
        raise InputError(f"--size must be a multiple of {elements} for {type_name}, not {size}")


def random_matrix(type_name: str, size: int, seed: int) -> NDArray[np.uint8]:
    """Draw random blocks, scaled so that a product is about as long as its vector."""
    generator, block_type = np.random.default_rng(seed), QUANTISED_TYPES[type_name]
    blocks = generator.integers(
        0, 256, (size, size // block_type.elements, block_type.bytes), np.uint8
    )
    fields = block_type.scales
    # The values are centred on zero if each minimum is the scale times the mean integer.
    scales = np.array([1] if fields.centre is None else [1, fields.centre], np.float64)

    def scaled(factor: float) -> None:
        stored = (scales * factor).astype(fields.dtype).view(np.uint8)
        blocks[:, :, fields.offset : fields.offset + stored.size] = stored

    scaled(1)
    sample = dequantise(type_name, blocks[:_CHECKED_ROWS].reshape(-1))
    scaled(float(1 / (sample.std() * np.sqrt(size))))
    return blocks.reshape(size, -1)


def _check(
    matrix: QuantisedMatrix, blocks: NDArray[np.uint8], x: NDArray[np.float32], activations: str
) -> None:
    """Raise QuodError unless a product equals that of the reference."""
    values = dequantise(matrix.type_name, blocks[:_CHECKED_ROWS]).astype(np.float64)
    product = matrix.multiply(x, activations=activations)[:_CHECKED_ROWS]
    # An upper bound on the sum of the magnitudes of a row's products.
    bound = np.abs(values).max() * np.abs(x).sum()
    tolerance = 1e-5 if activations == EXACT else 1e-2
    if not (np.abs(product - values @ x) <= tolerance * bound).all():
        raise QuodError("a product with quantised weights is wrong; please report it")


def _chained(
    device: AnyDevice, chain: list[QuantisedMatrix], x: NDArray[np.float32], activations: str
) -> Callable[..., None]:
    """Record all products as one submission; check that the final vector is finite."""
    first = device.upload(x)
    intermediate = [device.upload(np.zeros_like(x)) for _ in range(2)]
    recording, source = device.stream("quant").record(), first
    for index, matrix in enumerate(chain):
        target = intermediate[index % 2]
        for kernel, groups, *arguments in matrix.launches(source, target, activations=activations):
            recording.launch(
                kernel, groups, *arguments, label=matrix.type_name, bytes=matrix.nbytes
            )
        source = target
    recorded = recording.finish().recording

    def run(timeline: Timeline | None = None) -> None:
        device.stream("quant").replay(recorded).run(timeline)

    run()
    last = np.zeros_like(x)
    device.download(source, last)
    if not (np.isfinite(last).all() and last.any()):
        raise QuodError("a chain of products is zero or not finite; please report it")
    return run
