"""Multi-scalar multiplication."""

from quod.msm.execute import MsmBases, affine_ints, msm, msm_words
from quod.msm.options import MsmOptions
from quod.msm.plan import MsmPlan, plan_msm

__all__ = ["MsmBases", "MsmOptions", "MsmPlan", "affine_ints", "msm", "msm_words", "plan_msm"]
