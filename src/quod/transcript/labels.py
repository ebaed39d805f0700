"""What messages of a transcript are about: one number each, which no other use shares."""

from __future__ import annotations

from enum import IntEnum

from quod.errors import InputError
from quod.hash.function import DIGEST_LABEL
from quod.validation import shown_kind


class Label(IntEnum):
    """The first byte of a message's header. A number, once given, is never given again."""

    NEXT = 0
    """Nothing: a further challenge is drawn without a message between."""

    PROTOCOL = 1
    """The name and version of the protocol, as text."""

    FIELD = 2
    """The field of challenges: its prime and its polynomial."""

    PARAMETERS = 3
    """What else fixes a protocol, such as the form of its polynomial."""

    CIRCUIT = 4
    """The digest of a circuit."""

    INSTANCES = 5
    """How many instances a proof is about."""

    PUBLIC_INPUT = 6
    """What prover and verifier know."""

    COMMITMENT = 7
    """What binds the prover to its tables."""

    CLAIM = 8
    """What is to be shown: an element."""

    POINT = 9
    """The coordinates of a point."""

    ROUND = 10
    """A round of a sumcheck: coefficients of a polynomial."""

    VALUES = 11
    """Values of polynomials at a point."""

    CHAIN = 12
    """Nothing, over and over, so that the challenge behind it takes long to compute."""

    OPENING = 13
    """What shows values of a polynomial that was committed to."""

    DIGEST = DIGEST_LABEL
    """A run of elements of which a digest is made; no message of a transcript."""


def check_label(label: object) -> None:
    """InputError for what is no label."""
    if not isinstance(label, Label):
        raise InputError(f"a message has a Label, such as Label.CLAIM, not {shown_kind(label)}")
