"""Benchmarks of quantised weights times many rows: a chain of different matrices.

Each product's result is the next one's input, as for prompts of a language model. The peer
dequantises the blocks with Quod's kernel into f32 and multiplies with cuBLAS in the type of the
rows, the alternative to a fused product.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from importlib import import_module
from typing import Any

import numpy as np

from quod.bench.measure.harness import Case, Parameter
from quod.bench.tensors.calls import DTYPES, numbers, of_dtype
from quod.bench.tensors.quantised_vectors import check_matrix, random_matrix
from quod.device.discovery import open_device
from quod.device.protocol import AnyDevice, in_host_memory
from quod.device.runtime.recorder import recorder_of
from quod.device.runtime.timeline import Timeline
from quod.errors import InputError, QuodError
from quod.tensor.quantised.batch import EXACT
from quod.tensor.quantised.matrix import QuantisedMatrix
from quod.tensor.quantised.reference import dequantise

_CHECKED_COLUMNS = 16


def cases(
    device: str, type_name: str, size: int, matrices: int, rows: int, dtype: str, activations: str,
    plan: str | None = None, workspaces: int = 1,
) -> Iterator[Case]:  # fmt: skip
    """Yield a chain of `matrices` square matrices of `size`, times `rows` rows of a type.

    workspaces: the number of buffers for stored weights, used in turn.
    """
    check_matrix(type_name, size)
    if dtype not in DTYPES:
        raise InputError(f"{dtype!r} is not a type of rows; choose one of {', '.join(DTYPES)}")
    opened_device = open_device(device)
    data = [random_matrix(type_name, size, seed) for seed in range(matrices)]
    chain = [QuantisedMatrix(opened_device, type_name, blocks) for blocks in data]
    normal = np.random.default_rng(matrices).standard_normal((rows, size), np.float32)
    x = of_dtype(normal, dtype)
    first, intermediate = (
        opened_device.upload(x),
        [opened_device.upload(np.zeros_like(x)) for _ in range(2)],
    )
    recording, source = opened_device.stream("quant").record(), first
    options: Any = {"activations": activations, "plan": plan}
    workspace_bytes = (
        chain[0].workspace_bytes(first, plan=options["plan"]) if activations == EXACT else 0
    )
    workspace_buffers = [
        opened_device.allocate(workspace_bytes, zero=False) for _ in range(workspaces)
    ]
    for index, matrix in enumerate(chain):
        target, workspace = intermediate[index % 2], workspace_buffers[index % workspaces]
        for kernel, groups, *arguments in matrix.launches(
            source, target, workspace=workspace, **options
        ):
            recording.launch(kernel, groups, *arguments, label=kernel.name)
        if not index:
            _check(matrix, data[0], x, options)
        source = target
    recorded = recording.finish().recording

    def run(timeline: Timeline | None = None) -> None:
        opened_device.stream("quant").replay(recorded).run(timeline)

    parameters: dict[str, Parameter] = {
        "type": type_name, "size": size, "matrices": matrices, "rows": rows, "dtype": dtype,
        "activations": activations, "GFLOP": round(2e-9 * rows * size * size, 3),
    }  # fmt: skip
    if workspace_bytes:
        parameters |= {"workspace MB": round(workspace_bytes / 1e6, 1), "workspaces": workspaces}
    peers, absent = _torch_peer(opened_device, type_name, data, rows, dtype)
    yield Case(
        parameters, run, "us/product", operations=matrices, peers=peers, absent=absent,
        peer_note="Quod's dequantisation, then cuBLAS through PyTorch, a graph each", traced=run,
    )  # fmt: skip


def _check(matrix: QuantisedMatrix, blocks: Any, x: Any, options: dict[str, Any]) -> None:
    """Raise QuodError unless a product equals that of the reference."""
    values = dequantise(matrix.type_name, blocks[:_CHECKED_COLUMNS]).astype(np.float64)
    product = numbers(matrix.multiply(x, **options))[:, :_CHECKED_COLUMNS]
    rows = numbers(x)
    bound = np.abs(values).max() * np.abs(rows).sum(axis=1, keepdims=True)
    tolerance = 1e-2 if options["activations"] != EXACT else 1e-5 if x.dtype == np.float32 else 1e-3
    if not (np.abs(product - rows @ values.T) <= tolerance * bound).all():
        raise QuodError("a product with quantised weights is wrong; please report it")


def _torch_peer(
    device: AnyDevice, type_name: str, data: list[Any], rows: int, dtype: str
) -> tuple[dict[str, Callable[[], object]], dict[str, str]]:
    """Return the peer, or the reason for its absence."""
    try:
        torch: Any = import_module("torch")
    except ImportError:
        return {}, {"torch": "PyTorch is not installed (https://pytorch.org)"}
    if in_host_memory(device) or not torch.cuda.is_available():
        return {}, {"torch": "it is a peer only on an NVIDIA GPU that PyTorch finds"}
    torch.backends.cuda.matmul.allow_tf32 = False
    recording, size = device.stream("blocks").record(), len(data[0])
    values = device.allocate(4 * size * size, zero=False)
    for blocks in data:
        matrix = QuantisedMatrix(recorder_of(device, recording), type_name, blocks)
        matrix.dequantise(values)
    recorded = recording.finish().recording
    torch_dtype = {"f32": torch.float32, "f16": torch.float16, "bf16": torch.bfloat16}[dtype]
    weights = [
        torch.randn(size, size, device="cuda", dtype=torch_dtype) / size**0.5 for _ in range(2)
    ]
    x = torch.randn(rows, size, device="cuda", dtype=torch_dtype)

    def all_products() -> Any:
        product = x
        for number in range(len(data)):
            product = product @ weights[number % 2].T
        return product

    all_products()
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        kept = all_products()

    def run(_kept: object = kept) -> None:
        device.stream("blocks").replay(recorded).run()
        graph.replay()
        torch.cuda.synchronize()

    return {"torch": run}, {}
