"""The integer program of docs/integer-transformer.md in plain integers, one value at a time.

It takes the matrices as lists of integers and reads the shifts from the page's formulas, so that it
shares nothing with the program under test but the plan and the tensors of the file.
"""

from __future__ import annotations

from decimal import Decimal, getcontext
from fractions import Fraction
from math import isqrt
from typing import Any

getcontext().prec = 50
Row = list[int]


def shifted(a: int, s: int) -> int:
    return (a + (1 << s >> 1)) >> s


def nearest(value: Fraction) -> int:
    return (2 * value.numerator + value.denominator) // (2 * value.denominator)


def clamp(a: int, m: int) -> int:
    return max(-m, min(m, a))


def exponential(z: int) -> int:
    return int(32767 * (-Decimal(z) / 1024).exp() + Decimal("0.5"))


def activation(name: str, i: int, f: int, g: int) -> int:
    x = Decimal(i) / 2**f
    p = x if name == "silu" else Decimal("1.5957691216057308") * (x + Decimal("0.044715") * x**3)
    sigma = int(2**32 / (1 + (-p).exp()) + Decimal("0.5"))
    return clamp(shifted(i * sigma, 32 + f - g), 2**15 - 1 if name == "silu" else 2**23 - 1)


def circle(angle: Decimal) -> tuple[int, int]:
    """2**15 cos and 2**15 sin, by their series."""
    term, n, sums = Decimal(1), 0, [Decimal(0), Decimal(0)]
    while abs(term) > Decimal(10) ** -40:
        sums[n % 2] += -term if n & 2 else term
        n += 1
        term = term * angle / n
    return tuple(int((2**15 * s + Decimal("0.5")).to_integral_value("ROUND_FLOOR")) for s in sums)  # type: ignore[return-value]


class PlainModel:
    """The program of a model (`quod.inference.transformer.model.Model`) under scales."""

    def __init__(self, model: Any, scales: Any) -> None:
        self.model, self.scales, self.shape = model, scales, model.architecture
        width = self.shape.width
        self.limit = 2 ** min(27, (63 - (width - 1).bit_length()) // 2) - 1
        self.keys: list[list[Row]] = [[] for _ in model.layers]
        self.values: list[list[Row]] = [[] for _ in model.layers]
        self._rows: dict[int, list[Row]] = {}
        self._gains: dict[int, tuple[Row, Row, int]] = {}

    def rows(self, matrix: Any) -> list[Row]:
        if id(matrix) not in self._rows:
            scales, minima = (
                [value for value in row for _ in range(matrix.group)]
                for row in (matrix.scales.ravel().tolist(), matrix.minima.ravel().tolist())
            )
            flat = [
                s * q - m
                for s, q, m in zip(scales, matrix.quants[:].ravel().tolist(), minima, strict=True)
            ]
            columns = matrix.columns
            self._rows[id(matrix)] = [
                flat[start : start + columns] for start in range(0, len(flat), columns)
            ]
        return self._rows[id(matrix)]

    def sums(self, linear: Any, x: Row, f: int) -> tuple[Row, int]:
        """Sums, and their fractional bits."""
        bits = f - linear.matrix.exponent
        bias = [0] * linear.matrix.rows
        if linear.bias is not None:
            bias = [nearest(Fraction(b) * Fraction(2) ** bits) for b in linear.bias.tolist()]
        return [
            sum(w * a for w, a in zip(row, x, strict=True)) + b
            for row, b in zip(self.rows(linear.matrix), bias, strict=True)
        ], bits

    def product(self, linear: Any, x: Row, f: int, g: int) -> Row:
        sums, bits = self.sums(linear, x, f)
        return [clamp(shifted(s, bits - g), 2**15 - 1) for s in sums]

    def add(self, x: Row, linear: Any, y: Row, f: int) -> Row:
        sums, bits = self.sums(linear, y, f)
        return [
            clamp(a + shifted(s, bits - self.scales.residual), self.limit)
            for a, s in zip(x, sums, strict=True)
        ]

    def norm(self, norm: Any, x: Row, f: int) -> Row:
        width = len(x)
        if self.shape.family.centred:
            mean = (2 * sum(x) + width) // (2 * width)
            x = [a - mean for a in x]
        square = Fraction(self.shape.epsilon) * width * 4**self.scales.residual
        v = sum(a * a for a in x) + max(512, nearest(square))
        t = -((22 - v.bit_length()) // 2)
        m = int(Fraction(v) / Fraction(4) ** t)
        root = isqrt(2**62 // m)
        assert root**2 * m <= 2**62 < (root + 1) ** 2 * m
        gains, biases, j = self.gains(norm)
        out = []
        for gain, b, a in zip(gains, biases, x, strict=True):
            y = shifted(a * root, 7 + t)
            out.append(clamp(shifted(y * gain + b, 24 + j - f), 2**15 - 1))
        return out

    def gains(self, norm: Any) -> tuple[Row, Row, int]:
        """Integers of gains and biases, and the fractional bits of gains."""
        if id(norm) not in self._gains:
            width, reals = self.shape.width, [Fraction(g) for g in norm.gains.tolist()]
            largest, k = max(g * g for g in reals) * width, -200
            while largest >= Fraction(4) ** k:
                k += 1
            j, gains = 22 - k, []
            for g in reals:
                magnitude = (isqrt(int(g * g * width * Fraction(4) ** (j + 1))) + 1) // 2
                gains.append(magnitude if g > 0 else -magnitude)
            bias = [0.0] * width if norm.bias is None else norm.bias.tolist()
            biases = [nearest(Fraction(b) * Fraction(2) ** (24 + j)) for b in bias]
            self._gains[id(norm)] = gains, biases, j
        return self._gains[id(norm)]

    def rotated(self, x: Row, position: int) -> Row:
        width, out = self.shape.head_width, list(x)
        for start in range(0, len(x), 2):
            i = start % width
            base = Decimal(self.shape.rope_base)
            cosine, sine = circle(position * (-base.ln() * i / width).exp())
            a, b = x[start : start + 2]
            out[start] = clamp(shifted(a * cosine - b * sine, 15), 2**15 - 1)
            out[start + 1] = clamp(shifted(b * cosine + a * sine, 15), 2**15 - 1)
        return out

    def attention(self, layer: int, x: Row, position: int) -> Row:
        steps, f = self.model.layers[layer], self.scales.layers[layer]
        n, width = self.norm(steps.attention_norm, x, f.attention_norm), self.shape.head_width
        q = self.product(steps.query, n, f.attention_norm, f.query)
        k = self.product(steps.key, n, f.attention_norm, f.key)
        v = self.product(steps.value, n, f.attention_norm, f.value)
        if self.shape.family.rotary:
            q, k = self.rotated(q, position), self.rotated(k, position)
        self.keys[layer].append(k)
        self.values[layer].append(v)
        j = 0
        while isqrt(4**j // width) < 2**15:
            j += 1
        multiplier = (isqrt(4 * 4**j // width) + 1) // 2
        out = []
        for head in range(self.shape.heads):
            channels = slice(head * width, (head + 1) * width)
            shared_head = head * self.shape.kv_heads // self.shape.heads
            shared = slice(shared_head * width, (shared_head + 1) * width)
            scores = [
                sum(a * b for a, b in zip(q[channels], key[shared], strict=True))
                for key in self.keys[layer]
            ]
            z = [
                min(shifted((max(scores) - s) * multiplier, j + f.query + f.key - 10), 16383)
                for s in scores
            ]
            e = [exponential(step) for step in z]
            inverse = 2**46 // sum(e)
            for channel in range(shared.start, shared.stop):
                total = sum(w * row[channel] for w, row in zip(e, self.values[layer], strict=True))
                out.append(clamp(shifted(total * inverse, 46 + f.value - f.mixed), 2**15 - 1))
        return self.add(x, steps.output, out, f.mixed)

    def feed_forward(self, layer: int, x: Row) -> Row:
        steps, f = self.model.layers[layer], self.scales.layers[layer]
        n = self.norm(steps.feed_forward_norm, x, f.feed_forward_norm)
        up = self.product(steps.up, n, f.feed_forward_norm, f.up)
        if steps.gate is None:
            hidden = [activation("gelu", u, f.up, f.hidden) for u in up]
        else:
            gate = self.product(steps.gate, n, f.feed_forward_norm, f.gate)
            hidden = [
                clamp(
                    shifted(
                        activation("silu", g, f.gate, f.activated) * u,
                        f.activated + f.up - f.hidden,
                    ),
                    2**23 - 1,
                )
                for g, u in zip(gate, up, strict=True)
            ]
        return self.add(x, steps.down, hidden, f.hidden)

    def logits(self, token: int) -> Row:
        """The logits after the next token."""
        position, residual = len(self.keys[0]), self.scales.residual
        embedding = self.model.embedding
        x = [
            clamp(shifted(w, -embedding.exponent - residual), self.limit)
            for w in self.rows(embedding)[token]
        ]
        if self.model.positions is not None:
            learned = self.model.positions
            x = [
                clamp(a + shifted(w, -learned.exponent - residual), self.limit)
                for a, w in zip(x, self.rows(learned)[position], strict=True)
            ]
        for layer in range(len(self.model.layers)):
            x = self.feed_forward(layer, self.attention(layer, x, position))
        return self.sums(self.model.head, self.norm(self.model.norm, x, self.scales.norm), 0)[0]
