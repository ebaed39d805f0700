"""Interfaces of a hash that transcripts and commitments choose, and the messages that it takes.

The state of a transcript is a digest. A message makes the next state; before it stands a header of
four bytes, its length and its label (`quod.transcript.Label`).
"""

from __future__ import annotations

DIGEST_BYTES = 32
STATE_WORDS = DIGEST_BYTES // 4
"""32-bit words of a digest, which the state of a transcript is."""

DIGEST_LABEL = 14
"""The label of a run of elements in a digest; no message of a transcript has it."""
