"""The statements of a bundle by kind, with names for messages: their JSON paths."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Protocol, TypeVar

from quod.errors import InputError
from quod.validation import in_order
from quod.zcash.output_statement import OutputStatement
from quod.zcash.spend_statement import ConvertStatement, SpendStatement

S = TypeVar("S", SpendStatement, OutputStatement, ConvertStatement)

MAX_COUNT = (1 << 16) - 1
"""The largest number of Spends, of Outputs and of Converts in a transaction since NU5."""

LISTS: dict[str, type[SpendStatement | OutputStatement | ConvertStatement]] = {
    "spends": SpendStatement, "outputs": OutputStatement, "converts": ConvertStatement
}  # fmt: skip
"""The kinds of statements by the names of their lists in a bundle."""

_LIST_NAMES: dict[type, str] = {kind: name for name, kind in LISTS.items()}


class BundleEntry(Protocol):
    """An entry of a bundle: a record with a `statement`, such as a `SpendInfo` or `Description`."""

    @property
    def statement(self) -> object: ...


def entry_name(kind: type, index: int) -> str:
    """Return the name of an entry in messages, such as ``spends[2]``."""
    return f"{_LIST_NAMES[kind]}[{index}]"


def checked_entries(kind: type[S], entries: Iterable[BundleEntry]) -> tuple[BundleEntry, ...]:
    """Return descriptions whose statements are of one kind; raise InputError for others."""
    checked = tuple(in_order(f"the {_LIST_NAMES[kind]}", entries))
    if len(checked) > MAX_COUNT:
        raise InputError(
            f"a transaction has at most {MAX_COUNT} {_LIST_NAMES[kind]}, not {len(checked)}"
        )
    for index, entry in enumerate(checked):
        if not isinstance(getattr(entry, "statement", None), kind):
            raise InputError(f"{entry_name(kind, index)} must have a {kind.__name__}")
    return checked


def statements(kind: type[S], entries: Sequence[BundleEntry]) -> list[S]:
    """Return the statements of checked entries."""
    return [entry.statement for entry in entries if isinstance(entry.statement, kind)]


def decode_statements(kind: type[S], rows: Iterable[Sequence[bytes]]) -> list[S]:
    """Decode the statements of a transaction's Spends, Outputs or Converts.

    rows: for each statement its fields, 32 bytes each, in the order of `kind.from_bytes`.
    Raises InputError, with the index of the row and the name of the field, for an encoding that
    consensus rules reject: points that are not canonical, off the curve or of small order, and
    numbers that are not below the modulus.
    """
    decoded = []
    for index, row in enumerate(in_order("the rows", rows)):
        try:
            decoded.append(kind.from_bytes(*row))
        except InputError as error:
            raise InputError(f"{entry_name(kind, index)}: {error}") from None
        except TypeError:
            raise InputError(
                f"{entry_name(kind, index)} has another number of fields than {kind.__name__}"
            ) from None
    return decoded
