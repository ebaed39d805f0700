"""Ceremonies: powers of tau with many contributors, and parts shared with the second phase.

A key's secrets remain unknown if at least one contributor destroyed their secret.
docs/ceremony.md describes how to hold a ceremony, and its limits. The names below load on first use
(PEP 562).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from quod.lazy import lazy_names

if TYPE_CHECKING:
    from quod.ceremony.beacon import Beacon as Beacon
    from quod.ceremony.powers.challenge_response import export_challenge as export_challenge
    from quod.ceremony.powers.challenge_response import import_response as import_response
    from quod.ceremony.powers.extended_file import Receipt as Receipt
    from quod.ceremony.powers.initial_powers import new_powers as new_powers
    from quod.ceremony.powers.preparation import prepare as prepare
    from quod.ceremony.powers.truncation import truncate as truncate
    from quod.ceremony.powers.update import add_beacon as add_beacon
    from quod.ceremony.powers.update import contribute as contribute
    from quod.ceremony.powers.verification import Verified as Verified
    from quod.ceremony.powers.verification import verify as verify
else:
    __getattr__, __dir__ = lazy_names(__name__)
