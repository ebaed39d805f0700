"""Start the probes in each Python process of a recorded test run: see `tools.mutants.probes`."""

from tools.mutants import probes

probes.start()
