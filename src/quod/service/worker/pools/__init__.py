"""Pools of workers, and the placement of keys on them."""
