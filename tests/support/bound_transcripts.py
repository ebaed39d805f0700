"""Transcripts that have absorbed a message in place of commitments to all tables."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Any, TypeVar

from quod.transcript import Hash, Label, Transcript

T = TypeVar("T")

TABLES = b"the tables of a test"


def bound(message: bytes = TABLES, hash: Hash = Hash.SHA3_256) -> Transcript:
    """A transcript that has absorbed a message with the label COMMITMENT and nothing else."""
    transcript = Transcript(hash=hash, recursive=hash.is_algebraic)
    transcript.absorb(Label.COMMITMENT, message)
    return transcript


def behind_commitments(call: Callable[..., T]) -> Callable[..., T]:
    """A prover or verifier that takes `bound()` and any field, unless it is called with others."""

    @wraps(call)
    def wrapped(*arguments: Any, **named: Any) -> T:
        return call(*arguments, **{"transcript": bound(), "allow_bits": 0, **named})

    return wrapped
