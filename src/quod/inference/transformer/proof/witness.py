"""The prover's arrays: every value of the integer program, and the remainders of its roundings.

Arrays have a row per channel and a column per position, except scores: a row per query position and
a column per key position. Sums are named after the results that are rounded from them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from math import isqrt

import numpy as np

from quod.errors import InputError
from quod.inference.transformer.program import (
    INVERSE_SUM_BITS,
    LayerSteps,
    NormStep,
    Product,
    Program,
)
from quod.inference.transformer.proof.key import MAX_ALIGNMENT, Key
from quod.inference.transformer.proof.rounding import CLAMP_BITS, LIMB, LIMB_BITS, NARROW_BITS
from quod.inference.transformer.proof.statement import Statement
from quod.inference.transformer.reference import _exact_product, sums_of
from quod.inference.transformer.rounding import ACTIVATION, WIDE, Integers, clamp
from quod.inference.transformer.tables import EXP_ENTRIES, Rotations, exponentials


class Witness:
    """The arrays of a proof, by name.

    arrays: those that are committed to, int64.
    sums: those that the protocol derives from others, int64.
    """

    def __init__(self, key: Key, program: Program, statement: Statement) -> None:
        """Run the program; InputError for a value that no proof can have."""
        self._key, self._program, self._statement = key, program, statement
        self.arrays: dict[str, Integers] = {}
        self.sums: dict[str, Integers] = {}
        self._parts: dict[str, list[Integers]] = {}
        self._part_sums: dict[str, list[Integers]] = {}
        self._run()

    def _run(self) -> None:
        key, program, tokens = self._key, self._program, self._statement.inputs
        size = len(tokens)
        self._rotation = Rotations(key.rope[0], key.head_width, key.rope[1]).table(size)
        x = np.zeros((key.width, size), np.int64)
        x = self._residual(0, x, program.model.embedding.integers(tokens).T)
        for index, steps in enumerate(program.layers):
            mixed = self._attention(index, steps, self._normed(2 * index, steps.attention_norm, x))
            x = self._residual(2 * index + 1, x, _sums(steps.output, mixed))
            hidden = self._feed_forward(
                index, steps, self._normed(2 * index + 1, steps.feed_forward_norm, x)
            )
            x = self._residual(2 * index + 2, x, _sums(steps.down, hidden))
        normed = self._normed(2 * key.layers, program.norm, x)
        self.arrays |= {name: np.concatenate(parts) for name, parts in self._parts.items()}
        self.sums |= {name: np.concatenate(parts) for name, parts in self._part_sums.items()}
        self._parts.clear()
        self._part_sums.clear()
        self._choices(normed)

    def _add(self, values: Mapping[str, Integers]) -> None:
        """Append rows to committed arrays."""
        for name, rows in values.items():
            self._parts.setdefault(name, []).append(rows)

    def _add_sums(self, values: Mapping[str, Integers]) -> None:
        """Append rows to sums."""
        for name, rows in values.items():
            self._part_sums.setdefault(name, []).append(rows)

    def _rounded(
        self, name: str, group: int, sums: Integers, result: Callable[[Integers], Integers]
    ) -> Integers:
        """Record sums and the limbs of their remainders; return the rounded results.

        group: the index of the shift.
        result: turns rounded sums into the values whose remainder counts, which may saturate
            elsewhere.
        """
        rounding = self._key.roundings[name]
        bits = rounding.bits[group]
        scaled = sums * rounding.scales()[group] + (1 << bits - 1)
        quotient = result(scaled >> bits)
        remainder = scaled - (quotient << bits)
        if (remainder < 0).any() or (remainder >> bits).any():
            raise InputError(
                f"a value of {name} saturates in {_group(name, group)}; a text in which it does "
                "cannot be proved"
            )
        for limb in range(1, rounding.limbs):
            self._add({f"{name}.limb{limb}": (remainder >> LIMB_BITS * limb) & (LIMB - 1)})
        self._add_sums({f"{name}.sum": sums})
        return quotient

    def _clamped(self, name: str, group: int, sums: Integers) -> Integers:
        quotient = self._rounded(name, group, sums, lambda rounded: rounded)
        is_narrow = self._key.roundings[name].is_narrow
        limit = 1 << (NARROW_BITS if is_narrow else CLAMP_BITS) - 1
        if (quotient >= limit).any() or (quotient < -limit).any():
            raise InputError(
                f"a value of {name} saturates too far in {_group(name, group)}; a text in which it "
                "does cannot be proved"
            )
        result = clamp(quotient, ACTIVATION)
        self._add({f"{name}.quotient": quotient, name: result})
        return result

    def _limited(self, name: str, values: Integers, limit: int) -> None:
        """Record the upper limbs of value + limit and limit - value."""
        above, below = values + limit, limit - values
        self._add({
            name: values, f"{name}.above": above >> LIMB_BITS, f"{name}.below": below >> LIMB_BITS
        })  # fmt: skip

    def _residual(self, index: int, x: Integers, sums: Integers) -> Integers:
        limit = self._key.residual_limit
        added = self._rounded(
            "residual", index, sums, lambda rounded: clamp(x + rounded, limit) - x
        )
        self._limited("residual", x + added, limit)
        return x + added

    def _normed(self, index: int, step: NormStep, x: Integers) -> Integers:
        squares = (x * x).sum(axis=0) + step.epsilon
        aligned = [_aligned(int(v)) for v in squares]
        mantissa, shift = (np.array(column, np.int64) for column in zip(*aligned, strict=True))
        root = np.array([isqrt((1 << 62) // int(m)) for m in mantissa], np.int64)
        up, down = np.maximum(shift, 0), np.maximum(-shift, 0)
        power, multiple = 1 << 2 * up, 1 << 2 * down
        scale, is_small = 1 << (MAX_ALIGNMENT - shift), (shift < 0).astype(np.int64)
        top = np.where(shift == MAX_ALIGNMENT, (1 << 21) - 1, (1 << 22) - 1)
        cut_off = squares * multiple - mantissa * power
        room = power - 1 - cut_off
        defect = (1 << 62) - root * root * mantissa
        slack = 2 * root * mantissa + mantissa - 1 - defect
        columns = {
            "power": power, "multiple": multiple, "scale": scale, "small": is_small, "top": top,
            "mantissa": mantissa, "root": root,
            "rest1": cut_off >> 16 & 65535, "rest2": cut_off >> 32, "room1": room >> 16 & 65535,
            "room2": room >> 32, "defect1": defect >> 16 & 65535, "defect2": defect >> 32,
            "slack1": slack >> 16 & 65535, "slack2": slack >> 32,
            "low": mantissa - (1 << 20) >> 16, "high": top - mantissa >> 16,
            "root_low": root - (1 << 20) >> 16, "root_high": (1 << 21) - root >> 16,
            "checked": squares * is_small >> 16,
        }  # fmt: skip
        self._add({f"norm.{name}": column[None] for name, column in columns.items()})
        self._add_sums({
            "squares": squares[None],
            "norm.scaled.sum": (squares * multiple)[None],
            "norm.floor.sum": (mantissa * power)[None],
            "norm.checked.sum": (squares * is_small)[None],
            "norm.cube.sum": (root * root * mantissa)[None],
            "norm.cross.sum": (root * mantissa)[None],
        })  # fmt: skip
        unit = self._rounded("unit", 0, x * (root * scale), lambda rounded: rounded)
        self._add({"unit": unit, "unit.high": unit + (1 << 31) >> LIMB_BITS})
        return self._clamped("normed", index, unit * self._key.gains[index][:, None])

    def _attention(self, index: int, steps: LayerSteps, x: Integers) -> Integers:
        key = self._key
        size, width, group = x.shape[1], key.head_width, key.heads // key.kv_heads
        q, k, v = (
            self._clamped(name, index, _sums(getattr(steps, name), x))
            for name in ("query", "key", "value")
        )
        q, k = (self._rotated(name, a) for name, a in (("rotated_query", q), ("rotated_key", k)))
        mask = np.tri(size, dtype=bool)
        rounding = key.roundings["score"]
        bits = rounding.bits[index]
        out = (1 << key.score_bits) - 1
        mixed = np.empty_like(q)
        for head in range(key.heads):
            head_channels = slice(head * width, (head + 1) * width)
            kv_channels = slice(head // group * width, (head // group + 1) * width)
            scores = _exact_product(q[head_channels].T, k[kv_channels].T)
            largest = np.where(mask, scores, np.iinfo(np.int64).min).max(axis=1)
            differences = largest[:, None] - scores
            factor = steps.scores.multiplier * rounding.scales()[index]
            sums = np.where(mask, differences * factor, out << bits)
            half_steps = sums >> bits
            if (half_steps > out).any():
                raise InputError(
                    f"scores of head {head} of layer {index} differ by more than 2^"
                    f"{key.score_bits - 11}; a text with such scores cannot be proved"
                )
            remainder = sums - (half_steps << bits)
            for limb in range(1, rounding.limbs):
                self._add({f"score.limb{limb}": remainder >> LIMB_BITS * limb & (LIMB - 1)})
            steps_up = np.minimum(half_steps + 1 >> 1, EXP_ENTRIES)
            e = np.append(exponentials(), 0)[steps_up].astype(np.int64)
            self._add({"score": half_steps, "weight": e, "largest": largest[None]})
            self._add_sums({"score.sum": sums, "products": scores})
            chosen = np.where(mask, scores, np.iinfo(np.int64).min).argmax(axis=1)
            log_low = (size.bit_length() - 1) // 2
            self._add({
                "largest.high": _one_hot(chosen >> log_low, size >> log_low),
                "largest.low": _one_hot(chosen % (1 << log_low), 1 << log_low),
            })  # fmt: skip
            total = e.sum(axis=1)
            inverse = (1 << INVERSE_SUM_BITS) // total
            inverse_rest = (1 << INVERSE_SUM_BITS) - inverse * total
            self._add({
                "inverse": inverse[None], "inverse.high": (inverse >> 16)[None],
                "inverse.rest": (inverse_rest >> 16)[None],
                "inverse.room": (total - 1 - inverse_rest >> 16)[None],
            })  # fmt: skip
            self._add_sums({"inverse.sum": (inverse * total)[None], "total.sum": total[None]})
            mixed[head_channels] = _exact_product(e, v[kv_channels]).T * inverse
        return self._clamped("mixed", index, mixed)

    def _rotated(self, name: str, x: Integers) -> Integers:
        pairs = x.reshape(-1, self._key.head_width // 2, 2, x.shape[1])
        a, b = pairs[:, :, 0], pairs[:, :, 1]
        cosine, sine = (self._rotation[:, :, part].T.astype(np.int64) for part in range(2))
        turned = np.stack([a * cosine - b * sine, b * cosine + a * sine], axis=2)
        return self._clamped(name, 0, turned.reshape(x.shape))

    def _feed_forward(self, index: int, steps: LayerSteps, x: Integers) -> Integers:
        assert steps.gate is not None
        gate = self._clamped("gate", index, _sums(steps.gate, x))
        up = self._clamped("up", index, _sums(steps.up, x))
        activated = steps.table[gate + 32768].astype(np.int64)
        self._add({"activated": activated})
        hidden = self._rounded(
            "hidden", index, activated * up, lambda rounded: clamp(rounded, WIDE)
        )
        self._limited("hidden", hidden, WIDE)
        return hidden

    def _choices(self, normed: Integers) -> None:
        """Record how far the logits of each choice are below that of the chosen token."""
        statement, key = self._statement, self._key
        chosen = np.array(statement.chosen)
        logits = _sums(self._program.head, normed[:, statement.positions()])
        best = logits[chosen, np.arange(len(chosen))]
        margins = best - logits - (np.arange(key.vocabulary)[:, None] < chosen)
        if (margins < 0).any():
            choice = int(np.flatnonzero((margins < 0).any(axis=0))[0])
            raise InputError(
                f"token {statement.prompt + choice} is {chosen[choice]}, and the model chooses "
                f"{int(logits[:, choice].argmax())}"
            )
        padded = np.zeros((key.vocabulary, 1 << statement.log_chosen), np.int64)
        padded[:, : len(chosen)] = margins
        self.sums["margin"] = padded
        self.arrays["margin.limb1"] = padded >> LIMB_BITS & (LIMB - 1)
        self.arrays["margin.limb2"] = padded >> 2 * LIMB_BITS


def _sums(product: Product, x: Integers) -> Integers:
    """Return the sums of a product, with a column per position."""
    return sums_of(product, x.T).T


def _group(name: str, group: int) -> str:
    """Name a group of rows, in errors."""
    kinds = {"residual": "state", "normed": "norm"}
    return f"{kinds.get(name, 'layer')} {group}"


def _one_hot(indices: Integers, size: int) -> Integers:
    """Return a row for each index, with a 1 in its column."""
    return np.asarray(indices[:, None] == np.arange(size), np.int64)


def _aligned(square_sum: int) -> tuple[int, int]:
    """Return m and t: square_sum / 2**(2 t), rounded down, which has 21 or 22 bits."""
    shift = -((22 - square_sum.bit_length()) // 2)
    return (square_sum >> 2 * shift if shift >= 0 else square_sum << -2 * shift), shift
