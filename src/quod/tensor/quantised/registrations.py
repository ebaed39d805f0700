"""The kernels of quantised weights by name."""

from __future__ import annotations

from quod.kernel import bf16, f32
from quod.kernel.registry import register
from quod.tensor.matmul.plan import GemmPlan
from quod.tensor.quantised.batch_kernel import MULTIPLY_ROWS
from quod.tensor.quantised.bytes_kernels import MULTIPLY_BYTES, QUANTISE_ROWS
from quod.tensor.quantised.dequantising import DEQUANTISE
from quod.tensor.quantised.product import MULTIPLY_BLOCKS
from quod.tensor.quantised.types.q4_k import Q4_K
from quod.tensor.quantised.types.q6_k import Q6_K
from quod.tensor.quantised.types.table import QUANTISED_TYPES

for _row in QUANTISED_TYPES.values():
    register(
        f"tensor.dequantise_blocks_f32[{_row.name}]", DEQUANTISE[f32], form=_row.name, element=f32,
        width=4, at_once=2,
    )  # fmt: skip
    register(
        f"tensor.multiply_blocks[{_row.name}]", MULTIPLY_BLOCKS[f32], form=_row.name,
        width=min(16, _row.decoder.width), at_once=2,
    )  # fmt: skip

for _form in (Q4_K.name, Q6_K.name):
    register(
        f"tensor.dequantise_blocks_bf16[{_form}]", DEQUANTISE[bf16], form=_form, element=bf16,
        width=8, at_once=2,
    )  # fmt: skip

for _element, _form in ((f32, Q4_K.name), (bf16, Q6_K.name)):
    register(
        f"tensor.multiply_rows_{_element}[{_form}]", MULTIPLY_ROWS[_element], element=_element,
        form=_form, plan=GemmPlan(64, 8, 4, 4, 1, 1, 8, 1, 4),
    )  # fmt: skip

for _element, _vector in ((f32, 4), (bf16, 8)):
    register(
        f"tensor.quantise_rows_{_element}", QUANTISE_ROWS[_element], element=_element,
        vector=_vector,
    )  # fmt: skip

for _row in QUANTISED_TYPES.values():
    if _row.packed is not None:
        register(
            f"tensor.multiply_bytes[{_row.name}]", MULTIPLY_BYTES[f32], form=_row.name, at_once=2,
            batch=1,
        )  # fmt: skip
