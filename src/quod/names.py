"""Tables of what has a name, and which name somebody may have meant."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import NoReturn, TypeVar

from quod.errors import InputError

T = TypeVar("T")


def nearest(name: str, names: Iterable[str], cutoff: float = 0.6) -> str | None:
    """The name that was probably meant: one that begins so, else the most similar; None if none is.

    `cutoff` is how similar it must be, from 0 to 1.
    """
    # Only somebody who erred waits for it.
    import difflib

    close = difflib.get_close_matches(name, list(names), n=3, cutoff=cutoff)
    return next(
        (one for one in close if name and one.startswith(name)), close[0] if close else None
    )


class NameTable(dict[str, T]):
    """A dictionary by name whose error says which name may have been meant.

    `place` is what the table is called and `what` it holds, ``a field``; `elsewhere` gives, for a
    name that other tables have, where it is.
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
        # Copies are ordinary dictionaries.
        return dict, (dict(self),)


def unknown_name(
    place: str, what: str, name: object, names: Iterable[str],
    elsewhere: Callable[[str], str | None] = lambda name: None,
) -> InputError:  # fmt: skip
    """The error for a name that a table has not; see `NameTable`."""
    names = list(names)
    if not isinstance(name, str):
        return InputError(f"{what} has a name (str) in {place}, not {type(name).__name__}")
    hint = elsewhere(name)
    if hint is None:
        close = nearest(name, names, 0.5)
        hint = f"there are {', '.join(names)}" if close is None else f"did you mean {close!r}?"
    return InputError(f"{place} has no {name!r}; {hint}")
