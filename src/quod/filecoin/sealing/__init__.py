"""Sectors for tests: sealed ones of up to 8 MiB, and vanilla proofs of all sizes without sectors.

The names below load on first use (PEP 562).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from quod.lazy import lazy_names

if TYPE_CHECKING:
    from quod.filecoin.sealing.sealed_sector import SealedSector as SealedSector
    from quod.filecoin.sealing.sealed_sector import seal as seal
    from quod.filecoin.sealing.sparse_sealing import sparse_commit as sparse_commit
    from quod.filecoin.sealing.sparse_sealing import sparse_posts as sparse_posts
    from quod.filecoin.sealing.updated_sector import UpdatedSector as UpdatedSector
    from quod.filecoin.sealing.updated_sector import uniform_update as uniform_update
    from quod.filecoin.sealing.updated_sector import update as update
else:
    __getattr__, __dir__ = lazy_names(__name__)
