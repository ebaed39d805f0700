"""The measurements of the repository's shape, on small trees."""

from __future__ import annotations

from pathlib import Path

from tools.house import (
    MAX_MODULES,
    SOURCES,
    cycles,
    eager_imports,
    import_graph,
    lines_per_package,
    modules,
    modules_per_folder,
    prefix_families,
)


def tree(root: Path, **files: str) -> dict[str, Path]:
    """Write modules by dotted names (`__` for a dot) and return what `modules` finds."""
    for name, text in files.items():
        path = root.joinpath(*name.split("__")).with_suffix(".py")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return modules(root)


def test_cycles_include_function_and_type_imports(tmp_path: Path) -> None:
    named = tree(
        tmp_path,
        house__one="def f():\n    from house.two import g\n",
        house__two="from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    import house.three\n",
        house__three="from . import one\n",
        house__four="from house import one\n",
    )
    assert cycles(import_graph(named)) == [["house.one", "house.three", "house.two"]]


def test_names_of_a_package_are_imports_of_their_homes(tmp_path: Path) -> None:
    (tmp_path / "house").mkdir()
    (tmp_path / "house" / "__init__.py").write_text("from house.room import Door as Door\n")
    named = tree(
        tmp_path, house__room="import house.hall\n", house__hall="from house import Door\n"
    )
    assert cycles(import_graph(named)) == [["house.hall", "house.room"]]
    assert import_graph(named)["house"] == set()


def test_names_of_modules_in_texts_are_imports(tmp_path: Path) -> None:
    named = tree(
        tmp_path,
        house__hall='import importlib\n\nimportlib.import_module("house.room")\n',
        house__room="import house.hall\n",
    )
    assert cycles(import_graph(named)) == [["house.hall", "house.room"]]


def test_imports_of_a_package_that_it_does_not_offer_count(tmp_path: Path) -> None:
    (tmp_path / "house").mkdir()
    (tmp_path / "house" / "__init__.py").write_text("from house.room import Door\nx: Door\n")
    named = tree(tmp_path, house__room="from house import x\n")
    assert cycles(import_graph(named)) == [["house", "house.room"]]


def test_eager_imports_cover_load_time_and_type_hints(tmp_path: Path) -> None:
    names = dict.fromkeys(("p__a", "p__b", "p__c", "p__d", "p__e"), "")
    (tmp_path / "p").mkdir()
    (tmp_path / "p" / "__init__.py").write_text("")
    names["p__all"] = (
        "from typing import TYPE_CHECKING\nimport p.a\n"
        "if TYPE_CHECKING:\n from p import b\n"
        "try:\n from p.c import x\nexcept ImportError:\n from p import y\n"
        "class C:\n import p.d\n def f(self):\n  import p.e\n"
    )
    graph = eager_imports(tree(tmp_path, **names))
    assert graph["p.all"] == {"p", "p.a", "p.b", "p.c", "p.d"}


def test_modules_with_a_common_prefix_are_a_family(tmp_path: Path) -> None:
    named = tree(tmp_path, a__gemm="", a__gemm_f16="", a__gemm_f32="", a__gemm_fp8="", a__rows="")
    assert prefix_families(named.values()) == [(tmp_path / "a", "gemm", 4)]


def test_lines_are_counted_by_package(tmp_path: Path) -> None:
    named = tree(tmp_path, quod__field__array="1\n2\n", quod__errors="1\n")
    assert lines_per_package(named) == {"quod.field": 2, "quod": 1}


def test_no_folder_of_the_repository_is_crowded() -> None:
    paths = list(modules(SOURCES).values())
    assert len(paths) > 500
    crowded = {path: n for path, n in modules_per_folder(paths).items() if n > MAX_MODULES}
    assert crowded == {}
    assert prefix_families(paths) == []
