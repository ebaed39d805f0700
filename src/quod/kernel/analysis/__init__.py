"""Analyses of a traced kernel: what it will cost on a GPU, and which Python line is to blame.

`analyze` looks at the intermediate representation alone; no GPU and no assembler is needed.
"""

from quod.kernel.analysis.mix import Mix
from quod.kernel.analysis.pressure import Pressure
from quod.kernel.analysis.report import Analysis, Finding, Roofline, analyze, short

__all__ = ["Analysis", "Finding", "Mix", "Pressure", "Roofline", "analyze", "short"]
