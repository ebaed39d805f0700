"""Small limbs with delayed carries, for WGSL."""

from quod.field.strategies.lazy_limbs.strategy import STRATEGY as STRATEGY
