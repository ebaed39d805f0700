"""Memory that models take: stated before work, and refused before a weight is read."""

from __future__ import annotations

from pathlib import Path

import pytest

from quod.device import host, open_device
from quod.errors import DeviceError
from quod.formats import Gguf
from quod.inference import Plan, Transformer
from quod.inference.transformer import transformer as transformer_module
from quod.inference.transformer.architecture import read_architecture
from quod.inference.transformer.integer_weights import StoredQuants
from quod.inference.transformer.memory_needs import memory_needs
from quod.inference.transformer.model import Model


@pytest.mark.parametrize("name", ["llama", "untied", "gpt2", "qwen2"])
def test_needs_are_those_of_the_weights(
    files: dict[str, Path], models: dict[str, Model], plans: dict[str, Plan], name: str
) -> None:
    """The scales of all matrices, and what a device takes without the values of a chunk."""
    file, model = Gguf.open(files[name]), models[name]
    needs = memory_needs(file, model.architecture, 64, 2)
    layers = [vars(layer).values() for layer in model.layers]
    linears = [linear for layer in layers for linear in layer if hasattr(linear, "matrix")]
    matrices = {id(each): each for each in (model.embedding, model.head.matrix)}
    scales = sum(
        each.scales.nbytes + each.minima.nbytes
        for each in [*matrices.values(), *[linear.matrix for linear in linears]]
    )
    if model.positions is not None:
        scales += model.positions.scales.nbytes + model.positions.minima.nbytes
    assert needs.host - scales == 4 * max(
        tensor.shape[0] * tensor.shape[1]
        for tensor in file.tensors.values()
        if len(tensor.shape) == 2
    )
    opened = Transformer.open(files[name], plan=plans[name], context=64, sequences=2)
    assert needs.device < opened.memory_bytes
    assert isinstance(opened.model.embedding.quants, StoredQuants)
    assert memory_needs(file, model.architecture, 10**6) == memory_needs(
        file, model.architecture, model.architecture.context
    )


def test_too_little_memory_is_refused_before_work(
    files: dict[str, Path], plans: dict[str, Plan], monkeypatch: pytest.MonkeyPatch
) -> None:
    def not_read(_: Gguf) -> Model:
        raise AssertionError("weights were read")

    path, plan = files["llama"], plans["llama"]
    needs = memory_needs(Gguf.open(path), read_architecture(Gguf.open(path)), 256)
    monkeypatch.setattr(transformer_module, "read_model", not_read)
    device = open_device("cpu", memory_budget=needs.host + needs.device - 1)
    with pytest.raises(DeviceError, match=r"the model .*llama\.gguf would take .* KiB"):
        Transformer.open(path, plan=plan, device=device)
    monkeypatch.setattr(host, "available_memory_bytes", lambda: 100 << 20)
    with pytest.raises(
        DeviceError, match=r"a plan of the model .*llama\.gguf would take 512\.\d MiB"
    ):
        Transformer.make_plan(path)
