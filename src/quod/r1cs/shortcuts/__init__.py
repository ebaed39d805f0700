"""The kernels of shortcuts; see `quod.r1cs.repetition.shortcuts`."""

from quod.r1cs.shortcuts.kernels import kernel_of as kernel_of
from quod.r1cs.shortcuts.kernels import tables_of as tables_of
