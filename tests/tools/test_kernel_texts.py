"""What the comparison of kernel texts reports."""

from __future__ import annotations

from tools.kernel_texts import differences, digests, normalised


def test_a_changed_text_is_reported_with_its_target() -> None:
    before = {"a": {"llvm": "1", "ptx": "2", "wgsl": ""}, "gone": {}}
    after = {"a": {"llvm": "1", "ptx": "3", "wgsl": ""}, "new": {}}
    assert differences(before, after) == ["gone: gone", "new: new", "a: ptx"]
    assert differences(before, before) == []


def test_digests_are_of_every_target() -> None:
    (texts,) = digests(pattern=r"^ceremony\.inverted_scalar").values()
    assert set(texts) == {"llvm", "ptx", "wgsl"}
    assert len(set(texts.values())) == 3


def test_renamed_parameters_are_no_difference() -> None:
    before = "ld.param.u32 %r1, [fold_param_table];\nst [fold_param_to], %r1;"
    after = "ld.param.u32 %r1, [fold_param_values];\nst [fold_param_result], %r1;"
    swapped = "ld.param.u32 %r1, [fold_param_to];\nst [fold_param_to], %r1;"
    assert normalised(before, "ptx") == normalised(after, "ptx") != normalised(swapped, "ptx")
