"""Tables by name, whose errors suggest the intended name."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import NoReturn, TypeVar

from quod.errors import InputError

T = TypeVar("T")


def nearest(name: str, names: Iterable[str], cutoff: float = 0.6) -> str | None:
    """Return the name that was probably intended, or None.

    Among similar names, a name that begins with `name` is preferred.
    cutoff: the required similarity, from 0 to 1.
    """
    # Importing difflib takes time, so it is imported only after an error.
    import difflib

    close = difflib.get_close_matches(name, list(names), n=3, cutoff=cutoff)
    return next(
        (candidate for candidate in close if name and candidate.startswith(name)),
        close[0] if close else None,
    )


class NameTable(dict[str, T]):
    """A dictionary whose error for an unknown name (InputError) suggests the intended name.

    place: the name of the table in messages.
    what: the kind of its values in messages, such as ``a field``.
    elsewhere: returns a hint for a name that is in another table, or None.
    """

    def __init__(
        self, place: str, what: str, entries: Mapping[str, T],
        elsewhere: Callable[[str], str | None] = lambda name: None,
    ) -> None:  # fmt: skip
        super().__init__(entries)
        self._place, self._what, self._elsewhere = place, what, elsewhere

    def __missing__(self, name: object) -> NoReturn:
        raise unknown_name(self._place, self._what, name, self, self._elsewhere)

    def __reduce__(self) -> tuple[type[dict[str, T]], tuple[dict[str, T]]]:
        # Copies and pickles are ordinary dictionaries.
        return dict, (dict(self),)


def unknown_name(
    place: str, what: str, name: object, names: Iterable[str],
    elsewhere: Callable[[str], str | None] = lambda name: None,
) -> InputError:  # fmt: skip
    """Create the error for a name that is missing in a table; see `NameTable`."""
    names = list(names)
    if not isinstance(name, str):
        return InputError(f"{what} has a name (str) in {place}, not {type(name).__name__}")
    hint = elsewhere(name)
    if hint is None:
        close = nearest(name, names, 0.5)
        hint = f"there are {', '.join(names)}" if close is None else f"did you mean {close!r}?"
    return InputError(f"{place} has no {name!r}; {hint}")
