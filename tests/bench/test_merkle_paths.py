"""The inputs of many Merkle paths, which the benchmark and an example prove."""

from __future__ import annotations

import numpy as np
import pytest

from quod.bench.merkle_paths import HASH, path_circuit, paths_in, random_paths, tree_of
from quod.errors import MismatchError


def test_missing_leaves_have_no_paths() -> None:
    layout = path_circuit(3)
    leaves = np.arange(64, dtype=np.int64).reshape(8, 8)
    levels = tree_of(leaves)
    compress = HASH.compress_numbers
    assert levels[1][3].tolist() == compress(leaves[6].tolist(), leaves[7].tolist())
    values = paths_in(levels, np.array([5, 0, 7]))
    layout.inputs(values, instances=3)
    values["leaf"][1, 2] += 1
    with pytest.raises(MismatchError, match=r"root\[0\] does not hold in instance 1"):
        layout.inputs(values, instances=3)


def test_random_paths_belong_to_one_tree() -> None:
    values = random_paths(5, 2)
    path_circuit(2).inputs(values, instances=5)
    assert (values["root"] == values["root"][0]).all()
