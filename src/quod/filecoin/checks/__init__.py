"""Checks of vanilla proofs against their statements, and of the points of aggregates.

Each function raises InputError with the field that is wrong, with its indices.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from quod.lazy import lazy_names

if TYPE_CHECKING:
    from quod.filecoin.checks.aggregate import check_aggregate as check_aggregate
    from quod.filecoin.checks.commit import check_commit as check_commit
    from quod.filecoin.checks.post import check_post_sector as check_post_sector
    from quod.filecoin.checks.update import check_update_partition as check_update_partition
else:
    __getattr__, __dir__ = lazy_names(__name__)
