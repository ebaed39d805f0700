"""Time NTTs on a GPU with each division into passes, to choose the default.

    python benchmarks/cuda_ntt.py                       BLS12-381, 2^20 and 2^24, every variant
    python benchmarks/cuda_ntt.py bn254 22              another curve and size
    python benchmarks/cuda_ntt.py goldilocks 24         another field

A line a variant: milliseconds of each ordering, and the products a second of the first.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from statistics import median
from time import perf_counter
from typing import Literal

import checkout  # noqa: F401

from quod.bench.arithmetic.ntt import resident_cases, subject_of
from quod.device.discovery import open_device
from quod.device.protocol import AnyDevice
from quod.field.moduli import NAMED
from quod.ntt.gpu.schedule import Tuning
from quod.ntt.gpu.transform import PassParameters

_REPEATS = 7


def variants() -> list[Tuning]:
    """Tilings worth timing: eight elements an instance at three register limits, larger tiles with
    fewer passes, four elements at some limits, loops of steps, and tiles for short elements."""
    return [
        Tuning(10, 3, 9, 4),
        Tuning(10, 3, 9, 3),
        Tuning(10, 3, 9, 5),
        Tuning(11, 3, 10, 2),
        Tuning(12, 3, 10, 1),
        Tuning(9, 2, 8, 5),
        Tuning(9, 2, 8, 4),
        Tuning(9, 2, 8, 6),
        Tuning(10, 2, 9, 2),
        Tuning(10, 2, 9, 2, rolled=True),
        Tuning(9, 2, 8, 5, rolled=True),
        Tuning(10, 3, 9, 4, rolled=True),
        *(Tuning(12, 4, 8, resident, log_banks=4) for resident in (0, 2, 3, 4)),
        *(Tuning(11, 3, 8, resident, log_banks=4) for resident in (0, 4, 5, 6)),
        *(Tuning(12, 3, 8, resident, log_banks=4) for resident in (0, 2, 3)),
        *(Tuning(12, 4, 8, resident, log_banks=5) for resident in (0, 4, 5)),
    ]


def products(tuning: Tuning, log2_size: int) -> float:
    """Return the products of a forward transform in natural order with complete tables."""
    split = tuning.split(log2_size)
    total = 0.0
    for number, log_rows in enumerate(split):
        inner: Literal["none", "full"] = "full" if number else "none"
        shape = PassParameters("descending", tuning.tile(log_rows), "upper", 1, inner)
        total += shape.twiddle_products + shape.factor_products
    return total * (1 << log2_size)


def run(device: AnyDevice, name: str, log2_size: int, tuning: Tuning) -> dict[str, float]:
    """Return the milliseconds of each case, over a field or the scalar field of a curve."""
    result: dict[str, float] = {}
    subject = subject_of(name, name if name in NAMED else None)
    for case in resident_cases(device, subject, log2_size, tuning):
        times = []
        for _ in range(_REPEATS):
            begin = perf_counter()
            case.run()
            times.append((perf_counter() - begin) / case.operations)
        result[str(case.parameters["what"])] = 1e3 * median(times)
    return result


def main(arguments: Sequence[str]) -> None:
    curve = arguments[0] if arguments else "bls12_381"
    sizes = [int(size) for size in arguments[1:]] or [20, 24]
    device = open_device("cuda")
    for log2_size in sizes:
        for tuning in variants():
            times = run(device, curve, log2_size, tuning)
            rate = products(tuning, log2_size) / times["forward NR"] * 1e-6
            figures = "  ".join(f"{what} {time:.3f} ms" for what, time in times.items())
            print(f"{curve} 2^{log2_size} {tuning}\n    {figures}  {rate:.1f} G products/s")


if __name__ == "__main__":
    main(sys.argv[1:])
