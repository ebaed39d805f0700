"""The records that the check of a proof leaves.

A verdict is a record that only a check writes, made of the ticket of its run: neither zeros nor
what an earlier run has left say anything.
"""

from __future__ import annotations

from quod.hash.function import STATE_WORDS

READ, FIRST_WRONG, STATE = 0, 1, 2
FIRST_CHECK = STATE + STATE_WORDS
"""Records of a proof: the ticket of the run that read its messages, the first of them that is of no
elements, the state of the transcript behind them, and those of checks."""

PASSED, FAILED = 1, 2
"""The verdicts of a check, which it adds to the ticket, a multiple of four."""
