"""Execution of compiled witness programs for batches of inputs."""

from quod.r1cs.executor.runner import WitnessRunner as WitnessRunner
