"""A proof of nothing with each key of the start.

Kernels are compiled by it, and what else is made when a proof first wants it, so that the first one
for a client does not wait for them.
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


def rehearse(key: ProvingKey) -> None:
    """Makes a proof that does not verify, and throws it away; of a small key as many as it can.

    What else goes wrong is logged, and left to the proof of a client that meets it as well.
    """
    try:
        witness = Witness("a rehearsal", key.curve, _values(key), 0)
        with suppress(VerificationError):
            key.begin(witness).finish()
        if key.most_together > 1:
            # The first one computes, and verifies, for all.
            first, *_ = key.begin_together([witness] * key.most_together)
            if isinstance(first, Exception):
                raise first
            with suppress(VerificationError):
                first.check(first.compute())
    except QuodError as error:
        _log.warning("a key of the start could not be tried: %s", error)


def _values(key: ProvingKey) -> Words:
    """Values of all kinds that witnesses have, each a third: 0, 1 and any."""
    field = CURVES[key.curve].fr
    large = integers_to_words(field, [0, 1, field.value - 2])
    values: Words = np.resize(large, (key.variables, field.words))
    values[0] = large[1]
    return values
