"""Multi-scalar multiplication."""

from quod.msm.bases import MsmBases
from quod.msm.edwards import edwards_bases, edwards_msm
from quod.msm.execute import affine_ints, msm, msm_many, msm_words
from quod.msm.fixed_base import FixedBase, multiply_generator
from quod.msm.options import MsmOptions
from quod.msm.plan import MsmPlan, plan_msm

__all__ = [
    "MsmBases",
    "MsmOptions",
    "MsmPlan",
    "FixedBase",
    "affine_ints",
    "edwards_bases",
    "edwards_msm",
    "msm",
    "msm_many",
    "msm_words",
    "multiply_generator",
    "plan_msm",
]
