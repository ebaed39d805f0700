"""Records against the standard library's dataclasses."""

from __future__ import annotations

import builtins
import copy
import dataclasses
import inspect
import pickle
import pydoc
import subprocess
import sys
from collections.abc import Callable
from functools import cached_property
from typing import Any, ClassVar

import pytest
from hypothesis import given
from hypothesis import strategies as st

from quod import frozen as module
from quod.frozen import field_names, fields_of, frozen, replace


def made(decorate: Callable[[type], type]) -> type[Any]:
    @decorate
    class Shape:
        """Two fields that must be given, and two that need not be."""

        unit: ClassVar[str] = "m"
        width: int
        height: int
        name: str = "square"
        parts: tuple[int, ...] = ()

    return Shape


RECORD, DATACLASS = made(frozen), made(dataclasses.dataclass(frozen=True))
VALUES = st.one_of(st.integers(0, 2), st.text(max_size=1), st.tuples(st.integers(0, 1)))


def outcome(call: Callable[[], Any]) -> Any:
    """The fields of what a call makes, or that it raises TypeError."""
    try:
        return dict(vars(call()))
    except TypeError:
        return TypeError


@given(
    st.lists(VALUES, max_size=5),
    st.dictionaries(
        st.sampled_from(["width", "height", "name", "parts", "unit", "other"]), VALUES, max_size=4
    ),
)
def test_constructor_calls_match_dataclasses(values: list[Any], named: dict[str, Any]) -> None:
    expected = outcome(lambda: DATACLASS(*values, **named))
    assert outcome(lambda: RECORD(*values, **named)) == expected


@given(st.lists(VALUES, min_size=2, max_size=4), st.lists(VALUES, min_size=2, max_size=4))
def test_records_are_equal_where_dataclasses_are(a: list[Any], b: list[Any]) -> None:
    equal = DATACLASS(*a) == DATACLASS(*b)
    assert (RECORD(*a) == RECORD(*b)) is equal
    assert (RECORD(*a) != RECORD(*b)) is not equal
    assert repr(RECORD(*a)).partition("Shape")[2] == repr(DATACLASS(*a)).partition("Shape")[2]
    if equal:
        assert hash(RECORD(*a)) == hash(RECORD(*b))
    assert RECORD(*a) != DATACLASS(*a)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: RECORD(1), r"Shape\(\) is missing 'height'"),
        (lambda: RECORD(), r"Shape\(\) is missing 'width', 'height'"),
        (lambda: RECORD(1, 2, "a", (), 5), r"Shape\(\) takes 4 arguments but 5 were given"),
        (lambda: RECORD(1, 2, size=3), r"Shape\(\) got an unexpected keyword argument 'size'"),
        (lambda: RECORD(1, 2, width=3), r"Shape\(\) got multiple values for argument 'width'"),
    ],
)
def test_invalid_calls_report_the_mistake(call: Callable[[], Any], message: str) -> None:
    with pytest.raises(TypeError, match=f"^{message}$"):
        call()


def test_records_are_immutable() -> None:
    shape = RECORD(1, 2)
    with pytest.raises(AttributeError, match="cannot assign to field 'width'"):
        shape.width = 3
    with pytest.raises(AttributeError, match="cannot assign to field 'other'"):
        shape.other = 3
    with pytest.raises(AttributeError, match="cannot delete field 'width'"):
        del shape.width
    assert shape == RECORD(1, 2)
    with pytest.raises(TypeError):
        hash(RECORD([], 2))


@frozen
class Base:
    """With a check, a cached property and a method of its own."""

    size: int
    label: str = "none"

    def __post_init__(self) -> None:
        if self.size < 0:
            raise ValueError("a size is not negative")

    @cached_property
    def square(self) -> int:
        return self.size**2

    def __repr__(self) -> str:
        return f"<{self.size}>"


class Small(Base):
    """No record of its own, with another check."""

    def __post_init__(self) -> None:
        if self.size > 9:
            raise ValueError("too large")


@frozen
class Derived(Base):
    """One field more, and another default."""

    extra: int = 7
    label: str = "derived"


@frozen(eq=False)
class Single:
    """Equal to itself alone."""

    size: int


@frozen
class Empty:
    """Without a field."""


def test_post_init_cached_properties_and_methods_are_kept() -> None:
    with pytest.raises(ValueError, match="not negative"):
        Base(-1)
    with pytest.raises(ValueError, match="not negative"):
        replace(Base(1), size=-1)
    with pytest.raises(ValueError, match="too large"):
        Small(10)
    assert Base(3).square == 9
    assert Base(3) == Base(3)
    with_cache = Base(3)
    assert with_cache.square == 9
    assert with_cache == Base(3)
    assert hash(with_cache) == hash(Base(3))
    assert repr(Base(3)) == "<3>"


def test_fields_are_inherited() -> None:
    assert field_names(Derived) == ("size", "label", "extra")
    assert fields_of(Derived(1)) == {"size": 1, "label": "derived", "extra": 7}
    assert Derived(1) != Base(1, "derived")
    assert repr(Derived(1)) == "<1>"
    match Derived(1, "a", 2):
        case Derived(size, label, extra):
            assert (size, label, extra) == (1, "a", 2)


def test_records_that_equal_only_themselves() -> None:
    first, second = Single(1), Single(1)
    assert first == first
    assert first != second
    assert len({first, second}) == 2


def test_records_without_fields() -> None:
    assert Empty() == Empty()
    assert hash(Empty()) == hash(Empty())
    assert fields_of(Empty()) == {}


def test_records_are_replaced_copied_and_pickled() -> None:
    shape = Derived(2)
    assert replace(shape, extra=1) == Derived(2, extra=1)
    with pytest.raises(TypeError, match="unexpected keyword argument 'area'"):
        replace(shape, area=1)
    for other in (copy.copy(shape), copy.deepcopy(shape), pickle.loads(pickle.dumps(shape))):
        assert other == shape
        assert type(other) is Derived


def test_fields_of_accepts_dataclasses() -> None:
    assert fields_of(DATACLASS(1, 2)) == fields_of(RECORD(1, 2))
    assert field_names(int) is None
    with pytest.raises(TypeError, match="int is no record"):
        fields_of(1)


@frozen
class Hidden:
    """A field that is not shown."""

    shown: int
    _hidden: int = 0


def test_private_fields_are_not_shown() -> None:
    assert repr(Hidden(1, 2)) == "Hidden(shown=1)"
    assert Hidden(1, 2) != Hidden(1, 3)


def test_making_a_record_compiles_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    compiled: list[str] = []
    for name in ("compile", "eval", "exec"):
        run = getattr(builtins, name)
        monkeypatch.setattr(
            builtins,
            name,
            lambda *arguments, run=run, name=name: compiled.append(name) or run(*arguments),
        )
    made(frozen)
    assert compiled == []
    made(dataclasses.dataclass(frozen=True))
    assert compiled
    monkeypatch.undo()
    script = f"import sys, {module.__name__}; print('dataclasses' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", script], check=True, capture_output=True)
    assert done.stdout == b"False\n"


def test_signatures_match_dataclasses() -> None:
    assert inspect.signature(RECORD) == inspect.signature(DATACLASS)
    shown = "(width: 'int', height: 'int', name: 'str' = 'square', parts: 'tuple[int, ...]' = ())"
    assert str(inspect.signature(RECORD)) == f"{shown} -> None"
    assert "height: 'int'" in pydoc.render_doc(RECORD)

    @frozen
    class Solid(RECORD):  # type: ignore[misc,valid-type]
        depth: int = 1

    assert str(inspect.signature(Solid)) == f"{shown[:-1]}, depth: 'int' = 1) -> None"

    class Cube(Solid):
        def __init__(self, edge: int) -> None:
            super().__init__(edge, edge)

    assert str(inspect.signature(Cube)) == "(edge: int) -> None".replace("int", "'int'").replace(
        "None", "'None'"
    )
    assert not hasattr(RECORD(1, 2), "__signature__")
