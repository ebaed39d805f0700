"""Transcripts: the messages of a prover are hashed to the challenges of the verifier.

`Transcript` absorbs labelled messages, `ProofWriter` and `ProofReader` absorb what they write and
read; `quod.transcript.chain` does the same inside kernels. The names below load on first use
(PEP 562).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from quod.lazy import lazy_names

if TYPE_CHECKING:
    from quod.hash.table import Hash as Hash
    from quod.transcript.labels import Label as Label
    from quod.transcript.messages import ProofReader as ProofReader
    from quod.transcript.messages import ProofWriter as ProofWriter
    from quod.transcript.transcript import Transcript as Transcript
else:
    __getattr__, __dir__ = lazy_names(__name__)
