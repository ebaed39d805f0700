"""Multi-scalar multiplication."""

from quod.msm.bases import MsmBases
from quod.msm.execute import affine_ints, msm, msm_many, msm_words
from quod.msm.options import MsmOptions
from quod.msm.plan import MsmPlan, plan_msm

__all__ = [
    "MsmBases",
    "MsmOptions",
    "MsmPlan",
    "affine_ints",
    "msm",
    "msm_many",
    "msm_words",
    "plan_msm",
]
