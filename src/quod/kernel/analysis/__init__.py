"""Static analyses of a traced kernel: its costs on a GPU, attributed to Python lines.

`analyze` needs only the intermediate representation, no GPU and no assembler.
"""

from quod.kernel.analysis.mix import Mix
from quod.kernel.analysis.pressure import Pressure
from quod.kernel.analysis.report import Analysis, Finding, Roofline, analyze, short

__all__ = ["Analysis", "Finding", "Mix", "Pressure", "Roofline", "analyze", "short"]
