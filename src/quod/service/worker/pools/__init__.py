"""Pools of workers, and which worker takes which key."""
