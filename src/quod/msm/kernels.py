"""Register the kernels of MSMs by name."""

from __future__ import annotations

from quod.curve.edwards.weierstrass_model import model_of
from quod.curve.groups import GROUPS
from quod.curve.named.edwards_bls12 import EDWARDS_BLS12
from quod.curve.sums.edwards import to_edwards
from quod.curve.sums.forms import Form, resident_workgroups
from quod.curve.weierstrass.normalise import normalise_sums
from quod.kernel.registry import register
from quod.msm.fixed_base import list_table_entries
from quod.msm.gpu.buckets import accumulate as gpu_accumulate
from quod.msm.gpu.buckets import affine_trees, merge
from quod.msm.gpu.reduce import finish, rounds, serial, weighted_sums
from quod.msm.gpu.run import base_multiples
from quod.msm.gpu.run.fixed_base import multiply_from_table
from quod.msm.gpu.sort.kernels import register_sorting
from quod.msm.host import bucket_reduction as rows_and_columns
from quod.msm.host import counting_sort as counting
from quod.msm.host import segments
from quod.msm.host.affine_rounds import accumulate
from quod.msm.host.precompute import double_repeatedly
from quod.msm.host.sparse_sums import combine_windows, sum_segments

# Windows of 13 bits over the 255-bit scalars of BLS12-381, as 2**16 of them have.
register(
    "msm.digits[bls12_381.fr]",
    counting.digits,
    window_bits=13,
    windows=20,
    maximum=GROUPS["bls12_381.g1"].scalars.value - 1,
    masked=True,
)
register("msm.count_digits", counting.count_digits)
register("msm.place_buckets", counting.place_buckets)
register("msm.scatter_digits", counting.scatter_digits)
register("msm.list_table_entries", list_table_entries)
register("msm.cut_segments", segments.cut_segments)
register("msm.list_rows_and_columns", rows_and_columns.list_rows_and_columns)
for _group in (*GROUPS.values(), model_of(EDWARDS_BLS12)):
    # Few enough rows for the shared memory of every machine; the CPU engine takes more.
    register(f"msm.accumulate[{_group.name}]", accumulate, group=_group, max_rows=8)
    register(f"msm.weigh[{_group.name}]", rows_and_columns.weigh, group=_group)
    register(f"msm.combine[{_group.name}]", rows_and_columns.combine, group=_group)
    register(f"msm.precompute[{_group.name}]", double_repeatedly, group=_group)


def _register_sums(name: str, form: Form) -> None:
    """Register the GPU kernels that add chunk, bucket and line sums of one group."""
    group = GROUPS[name]
    for short, definition, static in (
        ("merge_buckets", merge.merge_buckets, {"lanes_per_bucket": 4}),
        ("merge_runs", merge.merge_runs, {}),
        ("carry_sums", merge.carry_sums, {}),
        ("sum_lines", weighted_sums.sum_lines, {"gathered": True}),
        ("sum_round", rounds.sum_round, {}),
        ("sum_terms", serial.sum_terms, {}),
        ("weigh_lines", finish.weigh_lines, {}),
        ("combine_lines", finish.combine_lines, {}),
    ):
        register(f"msm.gpu.{short}[{name}, {form}]", definition, group=group, form=form, **static)


def _register_accumulation(name: str, form: Form) -> None:
    group = GROUPS[name]
    tuning = gpu_accumulate.tuning(group)
    register(
        f"msm.gpu.accumulate[{name}, {form}]", gpu_accumulate.accumulate, group=group, form=form,
        resident=tuning.resident, ahead=tuning.ahead, inlined=tuning.inlined,
    )  # fmt: skip
    if form == "weierstrass":
        register(
            f"msm.gpu.accumulate_affine[{name}]", affine_trees.accumulate_affine, group=group,
            resident=tuning.resident, inlined=tuning.inlined,
        )  # fmt: skip


for _name, _group in GROUPS.items():
    _register_accumulation(_name, "weierstrass")
    register(
        f"msm.gpu.double_points[{_name}]", base_multiples.double_points, group=_group,
        resident=resident_workgroups(_group),
    )  # fmt: skip
    register(f"msm.gpu.normalise_sums[{_name}]", normalise_sums, group=_group)
_register_accumulation("bls12_377.g1", "edwards")
register("msm.gpu.to_edwards[bls12_377.g1]", to_edwards, group=GROUPS["bls12_377.g1"])
# The other groups differ only in their fields.
_FORMS: tuple[tuple[str, Form], ...] = (
    ("bls12_381.g1", "weierstrass"), ("bls12_381.g2", "weierstrass"), ("bls12_377.g1", "edwards"),
)  # fmt: skip
for _name, _form in _FORMS:
    _register_sums(_name, _form)
    if _form == "weierstrass":
        for _definition in (gpu_accumulate.accumulate_again, gpu_accumulate.accumulate_completely):
            register(
                f"msm.gpu.{_definition.name}[{_name}]", _definition, group=GROUPS[_name],
                form=_form,
            )  # fmt: skip
for _name in ("bn254.g1", "bls12_381.g2"):
    register(f"msm.sum_segments[{_name}]", sum_segments, group=GROUPS[_name])
    register(
        f"msm.combine_windows[{_name}]", combine_windows, group=GROUPS[_name], window_bits=4
    )  # fmt: skip
for _words in (16, 24):
    register(f"msm.gpu.begin_sums[{_words}]", merge.begin_sums, sum_words=_words)
register_sorting()
# Windows of 13 bits, as millions of scalars have.
for _name in ("bn254.g1", "bn254.g2"):
    register(
        f"msm.gpu.multiply_from_table[{_name}]", multiply_from_table, group=GROUPS[_name],
        window_bits=13, windows=20,
    )  # fmt: skip
