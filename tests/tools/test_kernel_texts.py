"""Reports of the comparison of kernel texts."""

from __future__ import annotations

import pytest

from quod.codegen.targets import TARGETS, emit, emit_registered
from quod.kernel import F32, U32, Builder, Pointer, kernel
from quod.kernel.examples import vector_add
from tools.kernel_texts import WithSortedParameters, differences, digests, main, normalised


def test_a_changed_text_is_reported_with_its_target() -> None:
    before = {"a": {"llvm": "1", "ptx": "2", "wgsl": ""}, "gone": {}}
    after = {"a": {"llvm": "1", "ptx": "3", "wgsl": ""}, "new": {}}
    assert differences(before, after) == ["gone: gone", "new: new", "a: ptx"]
    assert differences(before, before) == []


def test_digests_are_of_every_target() -> None:
    (texts,) = digests(pattern=r"^ceremony\.inverted_scalar").values()
    assert set(texts) == set(TARGETS)
    assert len(set(texts.values())) == len(TARGETS)


@pytest.mark.parametrize("target", TARGETS)
def test_names_of_every_target_are_normalised(target: str) -> None:
    """Texts of two kernels that differ by the names of parameters alone are equal."""

    def renamed(k: Builder, n: U32, b: Pointer[U32], c: Pointer[U32], out: Pointer[U32]) -> None:
        i = k.global_id()
        with k.if_(i < n):
            out[i] = b[i] + c[i]

    renamed.__name__ = vector_add.name
    texts = [emit(definition, target) for definition in (vector_add, kernel(renamed))]
    assert normalised(texts[0], target) == normalised(texts[1], target)


@pytest.mark.parametrize("target", TARGETS)
def test_another_operation_is_a_difference(target: str) -> None:
    """Operations and types that are words in a target's language are no names."""

    def smaller(k: Builder, a: Pointer[U32], b: Pointer[U32]) -> None:
        a[0] = k.minimum(a[0], b[0])

    def larger(k: Builder, a: Pointer[U32], b: Pointer[U32]) -> None:
        a[0] = k.maximum(a[0], b[0])

    def of_floats(k: Builder, a: Pointer[F32], b: Pointer[F32]) -> None:
        a[0] = k.minimum(a[0], b[0])

    texts = set()
    for body in (smaller, larger, of_floats):
        body.__name__ = "body"
        texts.add(normalised(emit(kernel(body), target), target))
    assert len(texts) == 3


def test_a_comparison_of_no_kernels_is_an_error(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("sys.argv", ["kernel_texts", "--kernels", "^nothing$"])
    with pytest.raises(SystemExit, match="2"):
        main()
    assert "no kernel's name matches '^nothing$'" in capsys.readouterr().err


def test_renamed_parameters_are_not_a_difference() -> None:
    before = "ld.param.u32 %r1, [fold_param_table];\nst [fold_param_to], %r1;"
    after = "ld.param.u32 %r1, [fold_param_values];\nst [fold_param_result], %r1;"
    swapped = "ld.param.u32 %r1, [fold_param_to];\nst [fold_param_to], %r1;"
    assert normalised(before, "ptx") == normalised(after, "ptx") != normalised(swapped, "ptx")


@pytest.mark.parametrize("target", TARGETS)
def test_moved_parameters_are_not_a_difference(target: str) -> None:
    def moved(k: Builder, b: Pointer[U32], out: Pointer[U32], c: Pointer[U32], n: U32) -> None:
        i = k.global_id()
        with k.if_(i < n):
            out[i] = b[i] + c[i]

    moved.__name__ = vector_add.name
    kernels = [
        WithSortedParameters(definition.name, definition)
        for definition in (vector_add, kernel(moved))
    ]
    texts = [normalised(emit_registered(each, target), target) for each in kernels]
    assert texts[0] == texts[1] != normalised(emit(kernel(moved), target), target)
