"""Labels of transcript messages: one unique number for each kind of message."""

from __future__ import annotations

from enum import IntEnum

from quod.errors import InputError
from quod.hash.function import DIGEST_LABEL
from quod.validation import shown_kind


class Label(IntEnum):
    """The first byte of a message's header. Numbers are never reused."""

    NEXT = 0
    """An empty message, before a further challenge."""

    PROTOCOL = 1
    """The name and version of the protocol, as text."""

    FIELD = 2
    """The field of challenges: its prime and its polynomial."""

    PARAMETERS = 3
    """Further parameters of a protocol, such as the form of its polynomial."""

    CIRCUIT = 4
    """The digest of a circuit."""

    INSTANCES = 5
    """The number of instances of a proof."""

    PUBLIC_INPUT = 6
    """The public input."""

    COMMITMENT = 7
    """A commitment to the prover's tables."""

    CLAIM = 8
    """The claimed value, an element."""

    POINT = 9
    """The coordinates of a point."""

    ROUND = 10
    """A round of a sumcheck: coefficients of a polynomial."""

    VALUES = 11
    """Values of polynomials at a point."""

    CHAIN = 12
    """An empty message, repeated as a sequential hash delay before a challenge."""

    OPENING = 13
    """An opening proof of a committed polynomial."""

    DIGEST = DIGEST_LABEL
    """A run of elements under a digest; not a message of a transcript."""


def check_label(label: object) -> None:
    """Raise InputError unless the argument is a `Label`."""
    if not isinstance(label, Label):
        raise InputError(f"a message has a Label, such as Label.CLAIM, not {shown_kind(label)}")
