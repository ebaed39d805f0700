"""Code generation from traced kernels, with one folder per target (`targets`).

The names below load on first use (PEP 562).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from quod.lazy import lazy_names

if TYPE_CHECKING:
    from quod.codegen.targets import TARGETS as TARGETS
    from quod.codegen.targets import emit as emit
    from quod.codegen.usage import KernelUsage as KernelUsage
    from quod.codegen.usage import kernel_usage as kernel_usage
else:
    __getattr__, __dir__ = lazy_names(__name__)
