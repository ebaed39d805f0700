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
else:
    __getattr__, __dir__ = lazy_names(__name__)
