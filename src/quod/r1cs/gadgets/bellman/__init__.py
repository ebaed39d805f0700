"""Gadgets with the constraints and variables of bellman and bellperson, in the same order.

Circuits whose keys were generated with these libraries need them. The names below load on first use
(PEP 562).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from quod.lazy import lazy_names

if TYPE_CHECKING:
    from quod.r1cs.gadgets.bellman.blake2s import blake2s_hash as blake2s_hash
    from quod.r1cs.gadgets.bellman.packing import element_bits as element_bits
    from quod.r1cs.gadgets.bellman.packing import packed as packed
    from quod.r1cs.gadgets.bellman.packing import publish_packed as publish_packed
    from quod.r1cs.gadgets.bellman.sha import sha256 as sha256
else:
    __getattr__, __dir__ = lazy_names(__name__)
