"""Circuits in Python: functions over signals become constraints and witness generators.

The names below load on first use (PEP 562).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from quod.lazy import lazy_names

if TYPE_CHECKING:
    from quod.r1cs.bits import low_bits as low_bits
    from quod.r1cs.bits import strict_bits as strict_bits
    from quod.r1cs.checks import Failure as Failure
    from quod.r1cs.checks import UnsatisfiedError as UnsatisfiedError
    from quod.r1cs.circuit import Circuit as Circuit
    from quod.r1cs.circuit import trace as trace
    from quod.r1cs.determinism.lints import Finding as Finding
    from quod.r1cs.determinism.report import Report as Report
    from quod.r1cs.determinism.report import Verdict as Verdict
    from quod.r1cs.determinism.tamper import Accepted as Accepted
    from quod.r1cs.functions.signature import Private as Private
    from quod.r1cs.functions.signature import PrivateBits as PrivateBits
    from quod.r1cs.functions.signature import PrivateBytes as PrivateBytes
    from quod.r1cs.functions.signature import PrivateList as PrivateList
    from quod.r1cs.functions.signature import PrivatePoint as PrivatePoint
    from quod.r1cs.functions.signature import Public as Public
    from quod.r1cs.functions.signature import PublicList as PublicList
    from quod.r1cs.functions.signature import PublicPoint as PublicPoint
    from quod.r1cs.profile import Profile as Profile
    from quod.r1cs.resident_witness import ResidentWitness as ResidentWitness
    from quod.r1cs.signal import Signal as Signal
    from quod.r1cs.signal import TraceError as TraceError
    from quod.r1cs.system import ConstraintSystem as ConstraintSystem
else:
    __getattr__, __dir__ = lazy_names(__name__)
