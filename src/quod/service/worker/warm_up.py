"""The warm-up: a dummy proof with each warm key.

It compiles kernels and fills other caches, so that a client's first proof does not wait for them.
"""

from __future__ import annotations

import logging
from contextlib import suppress

import numpy as np

from quod.curve.named import CURVES
from quod.errors import QuodError, VerificationError
from quod.field.array import Words, integers_to_words
from quod.formats import Witness
from quod.groth16 import ProvingKey

_log = logging.getLogger(__name__)


def warm_up(key: ProvingKey) -> None:
    """Compute a dummy proof, and with a small key also a dummy batch.

    The proofs do not verify, which is expected. Other errors are only logged: a client's proof
    raises and reports the same error.
    """
    try:
        witness = Witness("a rehearsal", key.curve, _values(key), 0)
        with suppress(VerificationError):
            key.begin(witness).finish()
        if key.max_batch > 1:
            # The first proof of a batch computes all.
            first, *_ = key.begin_batch([witness] * key.max_batch)
            if isinstance(first, Exception):
                raise first
            with suppress(VerificationError):
                first.check(first.compute())
    except QuodError as error:
        _log.warning("a key of the start could not be tried: %s", error)


def _values(key: ProvingKey) -> Words:
    """Return dummy witness values: a third each of 0, 1 and a large number."""
    field = CURVES[key.curve].fr
    distinct_values = integers_to_words(field, [0, 1, field.value - 2])
    values: Words = np.resize(distinct_values, (key.variables, field.words))
    values[0] = distinct_values[1]
    return values
