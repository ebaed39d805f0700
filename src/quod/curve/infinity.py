"""Points at infinity in host arrays, where all words of a point are zero."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray


def infinite_points(points: NDArray[Any]) -> NDArray[np.intp]:
    """Return the ascending indices of the points at infinity in an array of shape (n, ...).

    Reads the first word of every point, and the other words only of points whose first word is 0.
    """
    if not points.size:
        return np.zeros(0, np.intp)
    words = points.reshape(len(points), -1)
    candidates = np.flatnonzero(words[:, 0] == 0)
    return candidates[~words[candidates].any(axis=1)]
