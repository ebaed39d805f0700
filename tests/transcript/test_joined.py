"""Many proofs as bytes, by one thread and by several."""

from __future__ import annotations

import numpy as np
import pytest

from quod.transcript import joined as module
from quod.transcript.joined import Part, joined


@pytest.mark.parametrize(("count", "each"), [(0, 1), (1, 1), (7, 1), (7, 1 << 30)])
def test_parts_are_concatenated(count: int, each: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_BYTES_A_THREAD", each)
    monkeypatch.setattr(module, "_MAX_THREADS", 3)
    words = np.arange(64 * count, dtype=np.uint32).reshape(count, 64)
    messages: list[list[Part]] = [
        [bytes([number]) * (5 * number), b"", row.data, row[:2].data.cast("B")]
        for number, row in enumerate(words)
    ]
    wanted = [b"".join(parts) for parts in messages]
    joined_messages = joined(messages)
    # What is filled is nobody else's.
    words[:] = 0
    assert joined_messages == wanted
    assert len(set(map(hash, joined_messages))) == count
