"""Unknown names raise a typed error that lists the known names."""

from __future__ import annotations

import copy
import pickle
from importlib import import_module
from pkgutil import iter_modules
from typing import Any

import pytest

import quod
from quod.curve import CURVES, EDWARDS, GROUPS, WEIERSTRASS
from quod.errors import InputError
from quod.field import EXTENSIONS, MODULI, NAMED
from quod.formats import GGUF_TYPES
from quod.names import NameTable, nearest


@pytest.mark.parametrize(
    ("table", "name", "message"),
    [
        (NAMED, "bn128.fr", r"quod\.field\.NAMED has no 'bn128\.fr'; did you mean 'bn254\.fr'\?"),
        (NAMED, "?", r"has no '\?'; there are bn254\.fq, .*curve25519\.fq"),
        (NAMED, "", "has no ''; there are bn254"),
        (NAMED, 7, r"a field has a name \(str\) in quod\.field\.NAMED, not int"),
        (GROUPS, "secp256k1", r"is a group itself: quod\.curve\.WEIERSTRASS\['secp256k1'\]"),
        (GROUPS, "jubjub", r"is a group itself: quod\.curve\.EDWARDS\['jubjub'\]"),
        (GROUPS, "bn254", r"the curve has two, bn254\.g1 and bn254\.g2"),
        (GROUPS, "bn254.g3", r"did you mean 'bn254\.g[12]'\?"),
        (CURVES, "secp256k1", r"has no 'secp256k1'; quod\.curve\.WEIERSTRASS has it"),
        (CURVES, "bn128", r"quod\.curve\.CURVES has no 'bn128'; did you mean 'bn254'\?"),
        (EDWARDS, None, r"a curve has a name \(str\) in quod\.curve\.EDWARDS, not NoneType"),
        (WEIERSTRASS, "secp256r1", r"did you mean 'secp256k1'\?"),
        (MODULI, "m31", r"quod\.field\.MODULI has no 'm31'; quod\.field\.NAMED has it"),
        (EXTENSIONS, "m31.5", r"field\.EXTENSIONS has no 'm31\.5'; did you mean 'm31\.[234]'\?"),
        (EXTENSIONS, "m31", r"NAMED has it; its extensions are m31\.2, m31\.3, m31\.4"),
        (EXTENSIONS, "pallas.fq", r"'pallas\.fq'; quod\.field\.NAMED has it$"),
        (GGUF_TYPES, "Q4_K_M", r"quod\.formats\.GGUF_TYPES has no 'Q4_K_M'; did you mean 'Q4_K'\?"),
    ],
)  # fmt: skip
def test_unknown_names_are_reported(table: Any, name: object, message: str) -> None:
    with pytest.raises(InputError, match=message):
        table[name]
    assert name not in table
    assert table.get(name) is None
    assert table.get(name, "other") == "other"


def test_every_public_table_lists_its_names_in_errors() -> None:
    tables = {
        f"{package}.{name}": getattr(module, name)
        for package in (f"quod.{info.name}" for info in iter_modules(quod.__path__) if info.ispkg)
        for module in [import_module(package)]
        for name in getattr(module, "__all__", ())
        if name.isupper()
    }
    dictionaries = [name for name, table in tables.items() if isinstance(table, dict)]
    assert {"quod.field.NAMED", "quod.curve.GROUPS"} <= set(dictionaries)
    assert [name for name in dictionaries if not isinstance(tables[name], NameTable)] == []


def test_tables_are_dictionaries() -> None:
    assert CURVES.get("bn254") is CURVES["bn254"]
    assert NAMED.get("m31") is NAMED["m31"]
    for other in (copy.copy(NAMED), pickle.loads(pickle.dumps(NAMED))):
        assert type(other) is dict
        assert other == NAMED


def test_the_nearest_name() -> None:
    assert nearest("ad", ["and", "add", "adder"]) == "add"
    assert nearest("mull", ["mul", "sub"]) == "mul"
    assert nearest("", ["mul"]) is None
    assert nearest("xyz", ["mul"]) is None
