"""The table of block types: a new row is all that kernels, plans and references need."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import gguf as peer
import numpy as np
import pytest

from quod.device.protocol import AnyDevice
from quod.errors import InputError
from quod.kernel import bf16, f16, f32
from quod.tensor.quantised import QuantisedMatrix, dequantise, quantise
from quod.tensor.quantised.batch import max_vectors
from quod.tensor.quantised.types.table import QUANTISED_TYPES
from tests.tensor.quantised import test_batches, test_bytes
from tests.tensor.quantised.blocks import bits, random_blocks
from tests.tensor.quantised.test_quantised import check_product
from tests.tensor.quantised.toy_type import TOY

PACKAGE = Path(__file__).parents[3] / "src" / "quod"


@pytest.fixture
def new_type(monkeypatch: pytest.MonkeyPatch) -> str:
    """The name of a type whose row the table has during a test."""
    monkeypatch.setitem(QUANTISED_TYPES, TOY.name, TOY)
    return TOY.name


def test_a_new_type_has_values_and_products(device: AnyDevice, new_type: str) -> None:
    blocks = random_blocks(new_type, 3, 5)
    values = peer.quants.dequantize(blocks, peer.GGMLQuantizationType.Q4_1)
    assert np.array_equal(bits(dequantise(new_type, blocks)), bits(values))
    assert np.array_equal(
        bits(QuantisedMatrix(device, new_type, blocks).dequantise()), bits(values)
    )
    check_product(device, new_type, 5, 3)
    test_batches.check(device, new_type, f32, 5, 37, 3)
    test_bytes.check(device, new_type, 5, 3, 35)


def test_a_new_type_without_figures_or_an_encoder(new_type: str) -> None:
    few = [max_vectors(new_type, element, on_cores=False) for element in (f32, f16, bf16)]
    assert few == [10, 5, 5]
    with pytest.raises(InputError, match="the type must be Q4_0, Q8_0, Q4_K, Q5_K, Q6_K or NF4"):
        quantise(new_type, np.zeros(32, np.float32))


def test_types_without_a_row_are_refused() -> None:
    with pytest.raises(InputError, match="the type must be"):
        QuantisedMatrix("cpu", TOY.name, np.zeros((2, TOY.bytes), np.uint8))


def test_types_without_int8_support() -> None:
    with pytest.raises(InputError, match="NF4 has no form for activations of 8 bits"):
        QUANTISED_TYPES["NF4"].packed_decoder()


def _names_in(folder: Path) -> Iterator[str]:
    """Each place that spells the name of a type, but for the files of types."""
    for path in sorted(folder.rglob("*.py")):
        if "types" in path.relative_to(folder).parts:
            continue
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Constant) and node.value in QUANTISED_TYPES:
                yield f"{path.relative_to(folder)}:{node.lineno} {node.value}"


def test_type_names_are_not_hard_coded_elsewhere() -> None:
    """Plans and kernels ask the row of a type for a capability or a figure instead."""
    assert list(_names_in(PACKAGE / "tensor")) == []
    assert list(_names_in(PACKAGE / "bench" / "tensors")) == []


def test_hard_coded_type_names_are_detected(tmp_path: Path) -> None:
    (tmp_path / "types").mkdir()
    (tmp_path / "types" / "q4_k.py").write_text('KIND = "Q4_K"\n')
    (tmp_path / "plan.py").write_text('slow = form == "Q4_K"\n')
    assert list(_names_in(tmp_path)) == ["plan.py:1 Q4_K"]
