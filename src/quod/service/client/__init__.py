"""Clients of a proving server: `Client`, and `AsyncClient` for asyncio. Neither imports NumPy.

    from quod.service.client import Client, ProofRequest

    with Client("unix:data/grpc.sock") as client:
        job = client.prove(ProofRequest("membership", wtns=witness))
        assert verifying_key.verify(job.public, job.proof)

If the server refuses a request, the client raises the error of `quod.service.errors` or
`quod.errors` that the server raised. The public names below are imported on first use (PEP 562).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from quod.lazy import lazy_names

if TYPE_CHECKING:
    from quod.service.client.asynchronous import AsyncClient as AsyncClient
    from quod.service.client.records import ProofRequest as ProofRequest
    from quod.service.client.records import RemoteJob as RemoteJob
    from quod.service.client.records import Tokens as Tokens
    from quod.service.client.synchronous import Client as Client
    from quod.service.generation.requests import GenerationRequest as GenerationRequest
    from quod.service.queue.records import JobState as JobState
    from quod.service.records import RemoteKey as RemoteKey
    from quod.service.records import RemoteModel as RemoteModel
    from quod.service.records import ServerStatus as ServerStatus
else:
    __getattr__, __dir__ = lazy_names(__name__)
