"""Elementary functions of f32 as device functions, bit-identical on all devices with IEEE 754.

Range reductions and polynomials follow Cephes (Moshier, netlib.org/cephes, single precision, 1989
to 1992). They need no fused multiply-add: each reduction is exact where required.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from quod.frozen import frozen
from quod.kernel.ir.types import f32, i32, u32
from quod.kernel.ir.value import Arithmetic, Value

# ln 2 as a ten-bit number, whose products with exponents are exact, plus a correction.
_LN2_HIGH, _LN2_LOW = 0.693359375, -2.12194440e-4
_LOG2_E = 1.44269504088896341
_SQRT_HALF = 0x3F3504F3
"""The bits of sqrt(1/2)."""


def _polynomial(x: Value, coefficients: Sequence[float]) -> Value:
    """Evaluate a polynomial by Horner's rule; the highest coefficient comes first."""
    total = x * coefficients[0] + coefficients[1]
    for coefficient in coefficients[2:]:
        total = total * x + coefficient
    return total


_EXP = (
    1.9875691500e-4, 1.3981999507e-3, 8.3334519073e-3, 4.1665795894e-2, 1.6666665459e-1,
    5.0000001201e-1,
)  # fmt: skip


def _scaled_exp(k: Arithmetic, r: Value, n: Value) -> Value:
    """Compute e**r * 2**n for |r| < 0.35 and integers n from -160 to 130.

    2**n is multiplied in as two factors, as 2**n itself may be out of range.
    """
    exp_r = _polynomial(r, _EXP) * (r * r) + r + 1.0
    total_exponent = n.cast(i32)
    half = total_exponent >> 1

    def power_of_two(exponent: Value) -> Value:
        return k.bitcast((exponent + 127) << 23, f32)

    return exp_r * power_of_two(half) * power_of_two(total_exponent - half)


def _clamp(k: Arithmetic, x: Value, low: float, high: float) -> Value:
    """Clamp to an interval beyond which results are 0 or infinity; NaN stays."""
    return k.minimum(k.maximum(x, low), high)


def _exp(k: Arithmetic, x: Value) -> Value:
    x = _clamp(k, x, -105.0, 89.0)
    n = k.floor(x * _LOG2_E + 0.5)
    return _scaled_exp(k, (x - n * _LN2_HIGH) - n * _LN2_LOW, n)


def _exp2(k: Arithmetic, x: Value) -> Value:
    x = _clamp(k, x, -152.0, 129.0)
    n = k.floor(x + 0.5)
    return _scaled_exp(k, (x - n) * 0.6931471805599453, n)


_LOG = (
    7.0376836292e-2, -1.1514610310e-1, 1.1676998740e-1, -1.2420140846e-1, 1.4249322787e-1,
    -1.6668057665e-1, 2.0000714765e-1, -2.4999993993e-1, 3.3333331174e-1,
)  # fmt: skip


def _log_parts(k: Arithmetic, x: Value) -> tuple[Value, Value, Value]:
    """Return e, f, g with x = 2**e * (1 + f), log(1 + f) = f + g, sqrt(1/2) <= 1 + f < sqrt(2)."""
    small = x < 1.1754943508222875e-38
    bits = k.bitcast(k.select(small, x * 2.0**25, x), u32).cast(i32)
    e = (bits - _SQRT_HALF) >> 23
    f = k.bitcast(bits - (e << 23), f32) - 1.0
    square = f * f
    g = _polynomial(f, _LOG) * (square * f) - square * 0.5
    return (e - k.select(small, k.constant(25, i32), 0)).cast(f32), f, g


def _with_special_cases(k: Arithmetic, x: Value, log: Value) -> Value:
    """Return `log`, or x for inf and NaN, -inf for x = 0, and NaN for x < 0."""
    infinity = float("inf")
    log = k.select(x < infinity, log, x)
    log = k.select(x == 0.0, k.constant(-infinity, f32), log)
    return k.select(x < 0.0, k.constant(float("nan"), f32), log)


def _log(k: Arithmetic, x: Value) -> Value:
    e, f, g = _log_parts(k, x)
    return _with_special_cases(k, x, (g + e * _LN2_LOW + f) + e * _LN2_HIGH)


def _log2(k: Arithmetic, x: Value) -> Value:
    """Compute the base-2 logarithm; log2(e) is split into 1 and the remainder for accuracy."""
    e, f, g = _log_parts(k, x)
    fraction = _LOG2_E - 1.0
    return _with_special_cases(k, x, (((f + g) * fraction + g) + f) + e)


_TANH = (
    -5.70498872745e-3, 2.06390887954e-2, -5.37397155531e-2, 1.33314422036e-1, -3.33332819422e-1,
)  # fmt: skip


def _tanh(k: Arithmetic, x: Value) -> Value:
    magnitude = abs(x)
    square = x * x
    near = _polynomial(square, _TANH) * square * x + x
    far = 1.0 - 2.0 / (_exp(k, magnitude + magnitude) + 1.0)
    near = k.select(square == 0.0, x, near)
    return k.select(magnitude < 0.625, near, k.select(x < 0.0, -far, far))


@frozen
class FloatFunction:
    """A function of f32 with its error bounds, in units in the last place of the result.

    ulps: the bound with IEEE 754 arithmetic, on CPUs and in PTX.
    ulps_in_wgsl: the bound in WGSL, where division is less exact and subnormals may be flushed, for
        normal operands and results.
    """

    doc: str
    body: Callable[[Arithmetic, Value], Value]
    ulps: float
    ulps_in_wgsl: float


FUNCTIONS: dict[str, FloatFunction] = {
    "exp": FloatFunction("e**a.", _exp, 1, 4),
    "exp2": FloatFunction("2**a.", _exp2, 1, 4),
    "log": FloatFunction("The natural logarithm; -infinity for 0, NaN below 0.", _log, 1, 4),
    "log2": FloatFunction("The logarithm to base 2; -infinity for 0, NaN below 0.", _log2, 1.5, 4),
    "tanh": FloatFunction("The hyperbolic tangent.", _tanh, 1.5, 4),
}
"""The functions by the names of the builder's methods."""
