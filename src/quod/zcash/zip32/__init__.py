"""ZIP 32 for Sapling and MASP: extended keys from a seed, keys for change, and diversifiers.

The names below load on first use (PEP 562).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from quod.lazy import lazy_names

if TYPE_CHECKING:
    from quod.zcash.zip32.diversifiers import find_diversifier as find_diversifier
    from quod.zcash.zip32.diversifiers import indexed_diversifier as indexed_diversifier
    from quod.zcash.zip32.extended_keys import ExtendedFullViewingKey as ExtendedFullViewingKey
    from quod.zcash.zip32.extended_keys import ExtendedSpendingKey as ExtendedSpendingKey
else:
    __getattr__, __dir__ = lazy_names(__name__)
