"""The kernels of an MSM by name."""

from __future__ import annotations

from quod.curve.edwards_model import model_of
from quod.curve.groups import GROUPS
from quod.curve.parameters import EDWARDS_BLS12
from quod.kernel.registry import register
from quod.msm import digits, reduce, slices
from quod.msm.accumulate import accumulate
from quod.msm.fixed_base import list_table_entries
from quod.msm.precompute import double_repeatedly

# Windows of 13 bits over the 255-bit scalars of BLS12-381, as 2**16 of them have.
register(
    "msm.digits[bls12_381.fr]",
    digits.digits,
    window_bits=13,
    windows=20,
    maximum=GROUPS["bls12_381.g1"].scalars.value - 1,
    masked=True,
)
register("msm.count_digits", digits.count_digits)
register("msm.place_buckets", digits.place_buckets)
register("msm.scatter_digits", digits.scatter_digits)
register("msm.list_table_entries", list_table_entries)
register("msm.cut_segments", slices.cut_segments)
register("msm.list_rows_and_columns", reduce.list_rows_and_columns)
for _group in (*GROUPS.values(), model_of(EDWARDS_BLS12)):
    # As few rows as any machine's shared memory has room for; the CPU takes more.
    register(f"msm.accumulate[{_group.name}]", accumulate, group=_group, max_rows=8)
    register(f"msm.weigh[{_group.name}]", reduce.weigh, group=_group)
    register(f"msm.combine[{_group.name}]", reduce.combine, group=_group)
    register(f"msm.precompute[{_group.name}]", double_repeatedly, group=_group)
