"""The records that the check of a proof writes.

A verdict is the sum of the run's ticket and `PASSED` or `FAILED`. Zeros and the records of an
earlier run are therefore no verdicts.
"""

from __future__ import annotations

from quod.hash.function import STATE_WORDS

READ, FIRST_WRONG, STATE = 0, 1, 2
FIRST_CHECK = STATE + STATE_WORDS
"""The records of a proof, in order: the ticket of the run that read its messages, the first message
with an invalid element, the state of the transcript after the messages, and the verdicts."""

PASSED, FAILED = 1, 2
"""The verdicts of a check, which the check adds to the ticket, a multiple of four."""
