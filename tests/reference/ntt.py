"""The discrete Fourier transform over prime fields on plain integers.

Forward: X_k = sum of x_i * (shift * root^k)^i. Orderings name input and output, N for natural and R
for bit-reversed: NN, NR, RN, RR.
"""

from __future__ import annotations

from collections.abc import Sequence

from quod.field.moduli import Modulus
from quod.field.roots import RootFamily, root_of_unity


def dft(values: Sequence[int], root: int, p: int) -> list[int]:
    """The transform by its definition, in quadratic time; natural order."""
    size = len(values)
    powers = [1]
    for _ in range(size - 1):
        powers.append(powers[-1] * root % p)
    return [
        sum(value * powers[i * k % size] for i, value in enumerate(values)) % p for k in range(size)
    ]


def fft(values: Sequence[int], root: int, p: int) -> list[int]:
    """Transform a power of two of values by halving (Cooley and Tukey, 1965)."""
    size = len(values)
    if size == 1:
        return [value % p for value in values]
    even = fft(values[::2], root * root % p, p)
    odd = fft(values[1::2], root * root % p, p)
    half = size // 2
    result = [0] * size
    twiddle = 1
    for k in range(half):
        term = twiddle * odd[k] % p
        result[k] = (even[k] + term) % p
        result[k + half] = (even[k] - term) % p
        twiddle = twiddle * root % p
    return result


def bit_reversed(values: Sequence[int]) -> list[int]:
    """The values permuted so that index i moves to i with its bits reversed."""
    bits = len(values).bit_length() - 1
    return [values[int(format(i, f"0{bits}b")[::-1], 2) if bits else 0] for i in range(len(values))]


def ntt(
    modulus: Modulus,
    values: Sequence[int],
    *,
    family: RootFamily = "snarkjs",
    root: int | None = None,
    inverse: bool = False,
    shift: int = 1,
    ordering: str = "NN",
) -> list[int]:
    """Transform a power of two of integers modulo p, on the coset shift * <root>.

    The root is that of the family, if none is given. The inverse undoes the forward transform with
    the same root and shift; `ordering` always
    names first the order of what comes in.
    """
    p, size = modulus.value, len(values)
    if size == 0 or size & (size - 1):
        raise ValueError(f"the length must be a power of two, not {size}")
    if root is None:
        root = root_of_unity(modulus, family, size.bit_length() - 1)
    work = bit_reversed(values) if ordering[0] == "R" else list(values)
    if inverse:
        work = fft(work, pow(root, -1, p), p)
        scale, step = pow(size, -1, p), pow(shift, -1, p)
    else:
        scale, step = 1, shift
    scaled = []
    for value in work:
        scaled.append(value * scale % p)
        scale = scale * step % p
    result = scaled if inverse else fft(scaled, root, p)
    return bit_reversed(result) if ordering[1] == "R" else result
