"""The kernels of activation functions and of their gradients."""

from __future__ import annotations

import math

from quod.kernel import Builder, Value, bf16, f32
from quod.kernel.registry import register
from quod.tensor.elementwise.kernel import TYPES, Function, flat_kernel
from quod.tensor.rows.plan import FlatPlan
from quod.tensor.rows.row import LOG2_E

_TAIL = (
    0.207889568, -0.975685599, 1.65340855, -0.983924794, -0.132906876, 0.0109700586, 0.0468041947,
    0.5584649, 1.44064564, -2.82566558,
)  # fmt: skip
"""Coefficients of a polynomial in t = 1 / (1 + _BEND * s), the highest power first.

It approximates log2(Phi(-s) / t) + s**2 / 2 * log2(e), fitted at Chebyshev points of 0 <= s <= 14;
the relative error of Phi(-s) is 0.8 * 2**-24.
"""
_BEND = 0.35355
_FAR = 15.0
"""The s from which Phi(-s) is less than any f32."""
_FARTHEST = 200.0
"""The x from which e**-x is 0 in f32; products with larger numbers may be infinite."""


def _sigmoids(k: Builder, x: Value) -> tuple[Value, Value]:
    """Return sigmoid(x) and sigmoid(-x), both accurate in the tail: only exp(-|x|) is computed."""
    power = k.exp2(k.minimum(abs(x), _FARTHEST) * -LOG2_E, flush_subnormals=True)
    exponential = k.rcp(power + 1.0)
    small = power * exponential
    positive = x >= 0.0
    return k.select(positive, exponential, small), k.select(positive, small, exponential)


def silu(k: Builder, x: Value) -> list[Value]:
    """y = x * sigmoid(x) (Elfwing, Uchibe and Doya, 2018)."""
    return [x * _sigmoids(k, x)[0]]


def _silu_slope(k: Builder, x: Value) -> tuple[Value, Value]:
    """Return silu(x) and its derivative."""
    sigmoid, sigmoid_minus = _sigmoids(k, x)
    return x * sigmoid, sigmoid * (x * sigmoid_minus + 1.0)


def _silu_backward(k: Builder, gradient: Value, x: Value) -> list[Value]:
    """dx = dy * silu'(x)."""
    return [gradient * _silu_slope(k, x)[1]]


def _swiglu(k: Builder, gate: Value, up: Value) -> list[Value]:
    """y = silu(gate) * up (Shazeer, GLU variants improve transformer, 2020)."""
    return [silu(k, gate)[0] * up]


def _swiglu_backward(k: Builder, gradient: Value, gate: Value, up: Value) -> list[Value]:
    """Return the gradients of gate and of up."""
    value, slope = _silu_slope(k, gate)
    return [gradient * up * slope, gradient * value]


def _clamped(k: Builder, x: Value) -> Value:
    return k.minimum(k.maximum(x, -_FAR), _FAR)


def _normal(k: Builder, x: Value) -> tuple[Value, Value]:
    """Return Phi(x), the normal distribution function, and exp(-x**2 / 2)."""
    magnitude = k.minimum(abs(x), _FAR)
    t = k.rcp(magnitude * _BEND + 1.0)
    exponent, *coefficients = (k.constant(coefficient, f32) for coefficient in _TAIL)
    for coefficient in coefficients:
        exponent = k.fma(exponent, t, coefficient)
    scaled = magnitude * (-0.5 * LOG2_E)
    tail = t * k.exp2(k.fma(magnitude, scaled, exponent), flush_subnormals=True)
    bell = k.exp2(magnitude * scaled, flush_subnormals=True)
    return k.select(x < 0.0, tail, 1.0 - tail), bell


def gelu(k: Builder, x: Value) -> list[Value]:
    """y = x * Phi(x) (Hendrycks and Gimpel, 2016)."""
    return [x * _normal(k, x)[0]]


def _gelu_backward(k: Builder, gradient: Value, x: Value) -> list[Value]:
    """dx = dy * (Phi(x) + x * exp(-x**2 / 2) / sqrt(2 pi))."""
    phi, bell = _normal(k, x)
    return [gradient * (phi + _clamped(k, x) * bell * (1 / math.sqrt(2 * math.pi)))]


_TANH = 2 * math.sqrt(2 / math.pi)
"""Twice the factor sqrt(2 / pi), since (1 + tanh(u)) / 2 is sigmoid(2 * u)."""
_CUBE = 0.044715
"""The coefficient of x**3 in the argument of tanh."""


def _gelu_tanh(k: Builder, x: Value) -> list[Value]:
    """y = x * (1 + tanh(sqrt(2 / pi) * (x + 0.044715 * x**3))) / 2, computed as a sigmoid."""
    clamped = _clamped(k, x)
    return [x * _sigmoids(k, clamped * (clamped * clamped * _CUBE + 1.0) * _TANH)[0]]


def _gelu_tanh_backward(k: Builder, gradient: Value, x: Value) -> list[Value]:
    """dx = dy * gelu'(x) for the tanh approximation."""
    clamped = _clamped(k, x)
    square = clamped * clamped
    sigmoid, sigmoid_minus = _sigmoids(k, clamped * (square * _CUBE + 1.0) * _TANH)
    return [
        gradient
        * (sigmoid + clamped * sigmoid * sigmoid_minus * ((square * (3 * _CUBE) + 1.0) * _TANH))
    ]


_ROWS: dict[str, tuple[Function, str, str]] = {
    "silu": (silu, "x", "y"),
    "silu_backward": (_silu_backward, "gradient x", "y"),
    "gelu": (gelu, "x", "y"),
    "gelu_backward": (_gelu_backward, "gradient x", "y"),
    "gelu_tanh": (_gelu_tanh, "x", "y"),
    "gelu_tanh_backward": (_gelu_tanh_backward, "gradient x", "y"),
    "swiglu": (_swiglu, "gate up", "y"),
    "swiglu_backward": (_swiglu_backward, "gradient gate up", "gate_gradient up_gradient"),
}
"""By name: the function, and the names of the tensors that are read and stored."""

ACTIVATIONS = {
    name: {
        element: flat_kernel(
            f"{name}_{element}", function, "", dict.fromkeys(read.split(), element),
            dict.fromkeys(stored.split(), element),
        )
        for element in TYPES
    }
    for name, (function, read, stored) in _ROWS.items()
}  # fmt: skip
"""The kernels by name and element type."""

for _name, _element in (("gelu", f32), ("silu", bf16), ("swiglu_backward", bf16)):
    _plan = FlatPlan(lanes=8, vector=16 // _element.bytes, batch=1, steps=1)
    register(f"tensor.{_name}_{_element}", ACTIVATIONS[_name][_element], plan=_plan)
