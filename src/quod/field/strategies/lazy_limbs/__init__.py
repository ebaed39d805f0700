"""Limbs of 13 bits whose carries are delayed, for WGSL."""

from quod.field.strategies.lazy_limbs.strategy import STRATEGY as STRATEGY
