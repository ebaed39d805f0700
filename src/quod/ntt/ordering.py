"""What a transform is told of its direction and of the order of its elements."""

from __future__ import annotations

from typing import Literal

Ordering = Literal["NN", "NR", "RN", "RR"]
"""Order of what comes in and of what goes out: N natural, R bit-reversed."""

Way = Literal["forward", "inverse"]
"""From coefficients to evaluations, or back."""
