"""Ceremonies: powers of tau that many contribute to, and what their second phase shares with them.

Nobody knows a key's secrets unless everyone who contributed to it kept his. docs/ceremony.md says
how one is held, and what it does not promise. The names below load on first use (PEP 562).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from quod.lazy import lazy_names

if TYPE_CHECKING:
    from quod.ceremony.added import Receipt as Receipt
    from quod.ceremony.beacon import Beacon as Beacon
    from quod.ceremony.contributing import add_beacon as add_beacon
    from quod.ceremony.contributing import contribute as contribute
    from quod.ceremony.exchange import export_challenge as export_challenge
    from quod.ceremony.exchange import import_response as import_response
    from quod.ceremony.new import new_powers as new_powers
    from quod.ceremony.preparing import prepare as prepare
    from quod.ceremony.truncating import truncate as truncate
    from quod.ceremony.verification import Verified as Verified
    from quod.ceremony.verification import verify as verify

__all__ = [
    "Beacon",
    "Receipt",
    "Verified",
    "add_beacon",
    "contribute",
    "export_challenge",
    "import_response",
    "new_powers",
    "prepare",
    "truncate",
    "verify",
]

_HOME = {
    "Beacon": "quod.ceremony.beacon",
    "Receipt": "quod.ceremony.added",
    "add_beacon": "quod.ceremony.contributing",
    "contribute": "quod.ceremony.contributing",
    "new_powers": "quod.ceremony.new",
    "prepare": "quod.ceremony.preparing",
    "export_challenge": "quod.ceremony.exchange",
    "import_response": "quod.ceremony.exchange",
    "truncate": "quod.ceremony.truncating",
    "Verified": "quod.ceremony.verification",
    "verify": "quod.ceremony.verification",
}

__getattr__, __dir__ = lazy_names(__name__, _HOME)
