"""Multi-scalar multiplication. The names below load on first use (PEP 562)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from quod.lazy import lazy_names

if TYPE_CHECKING:
    from quod.msm.bases import MsmBases as MsmBases
    from quod.msm.bases import affine_ints as affine_ints
    from quod.msm.bases import msm as msm
    from quod.msm.bases import msm_buffer as msm_buffer
    from quod.msm.bases import msm_many as msm_many
    from quod.msm.bases import msm_words as msm_words
    from quod.msm.edwards import edwards_bases as edwards_bases
    from quod.msm.edwards import edwards_msm as edwards_msm
    from quod.msm.fixed_base import FixedBase as FixedBase
    from quod.msm.fixed_base import multiply_generator as multiply_generator
    from quod.msm.options import MsmOptions as MsmOptions
    from quod.msm.plan import MsmPlan as MsmPlan
    from quod.msm.plan import plan_msm as plan_msm

__all__ = [
    "MsmBases",
    "MsmOptions",
    "MsmPlan",
    "FixedBase",
    "affine_ints",
    "edwards_bases",
    "edwards_msm",
    "msm",
    "msm_buffer",
    "msm_many",
    "msm_words",
    "multiply_generator",
    "plan_msm",
]

_HOME = {
    "MsmBases": "quod.msm.bases",
    "MsmOptions": "quod.msm.options",
    "MsmPlan": "quod.msm.plan",
    "FixedBase": "quod.msm.fixed_base",
    "affine_ints": "quod.msm.bases",
    "edwards_bases": "quod.msm.edwards",
    "edwards_msm": "quod.msm.edwards",
    "msm": "quod.msm.bases",
    "msm_buffer": "quod.msm.bases",
    "msm_many": "quod.msm.bases",
    "msm_words": "quod.msm.bases",
    "multiply_generator": "quod.msm.fixed_base",
    "plan_msm": "quod.msm.plan",
}

__getattr__, __dir__ = lazy_names(__name__, _HOME)
