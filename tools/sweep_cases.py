"""The cases of `tools/sweep.py`: their computations, and how each result is known in advance.

MSMs are over bases with known logarithms, so that the sum must be one multiple of the generator.
Transforms of polynomials with few coefficients are known at every place; others must be what the
processor makes of them, and come back by the inverse. Proofs are verified, and small ones are the
same as those that the processor makes with the same blinding.
"""

from __future__ import annotations

import gc
import math
import random
from dataclasses import dataclass
from typing import Any

import numpy as np

from quod.bench.chain import ChainCircuit
from quod.curve.group import Group
from quod.curve.groups import GROUPS
from quod.curve.named import CURVES
from quod.curve.weierstrass.affine import affine_group
from quod.device.discovery import resolve_device
from quod.device.protocol import AnyDevice
from quod.field.array import (
    from_integers,
    integers_to_words,
    to_integers,
    words_to_integers,
)
from quod.field.moduli import Modulus
from quod.field.roots import root_of_unity
from quod.groth16 import ProvingKey
from quod.groth16.lagrange import scaled
from quod.groth16.setup import make_key
from quod.msm import FixedBase, MsmBases, MsmOptions, affine_ints, msm_words
from quod.ntt import NttPlan
from quod.ntt.ordering import bit_reversal

Array = np.ndarray[Any, Any]

KINDS = ("msm", "batch", "streamed", "parts", "ntt", "proof")
SCALARS = ("uniform", "bits", "equal", "giant", "zero", "r-1", "small")
_ORDERINGS = ("NN", "NR", "RN", "RR")

# Scalars from which on GPUs upload them while they work on those before.
_PARTS = 21.0

_SMALL_PROOF = 1 << 11
"""The maximum number of constraints for which the CPU computes every proof, too."""

_SMALL_TRANSFORM = 10
_LARGEST_COMPARED = 20
_COEFFICIENTS, _LOOKS = 5, 16

BLOCK = 16
"""Cases that follow one another, the last of which are proofs with one key: to make a key takes
longer than a proof, and it may take all of the memory."""

_PROOFS = 4
"""The number of proofs in a block."""

_LARGEST = 21.5
_BYTES_AN_ELEMENT = 4096
"""An upper bound of the bytes per element that the largest case takes."""


class WrongResultError(Exception):
    """A computed result differs from the expected one."""


@dataclass(frozen=True)
class Bounds:
    """Limits of drawn cases: groups, kinds, the log2 of the most elements, and the most
    constraints.
    """

    groups: tuple[str, ...]
    kinds: tuple[str, ...]
    largest: float
    constraints: int

    @classmethod
    def of(
        cls, device: AnyDevice, groups: tuple[str, ...], kinds: tuple[str, ...],
        largest: float | None,
    ) -> Bounds:  # fmt: skip
        """Return limits by the device's memory and speed, or `largest`.

        On a processor bases neither stream nor come in parts.
        """
        if device.kind == "cpu":
            kinds = tuple(kind for kind in kinds if kind not in ("streamed", "parts"))
        if largest is None:
            fitting = math.log2(max(2, device.memory_budget // _BYTES_AN_ELEMENT))
            # By halves, as the memory that is free is not always quite the same.
            largest = 12.0 if device.kind == "cpu" else min(_LARGEST, math.floor(2 * fitting) / 2)
        # A kernel is given three vectors of the domain at once.
        domain = (device.largest_buffer // 96) if device.kind != "cpu" else 1 << 62
        within = (1 << domain.bit_length() - 1) - 2
        return cls(groups, kinds, largest, min(int(2 ** (largest - 1)), within))


@dataclass(frozen=True)
class Case:
    """A case; all its fields depend only on `seed` and `index`."""

    seed: int
    index: int
    kind: str
    group: str
    size: int
    about: str
    choices: dict[str, Any]

    def __str__(self) -> str:
        return f"{self.kind:8} {self.group:13} {self.size:8} {self.about}"


def case_of(seed: int, index: int, bounds: Bounds) -> Case:
    """Return a case by its number; equal bounds give equal cases."""
    rng = random.Random(f"quod sweep {seed} {index}")
    weights = {"msm": 8, "batch": 3, "streamed": 3, "parts": 2, "ntt": 8}
    kinds = [kind for kind in bounds.kinds if kind in weights]
    if bounds.largest <= _PARTS and len(kinds) > 1:
        kinds = [kind for kind in kinds if kind != "parts"]
    block, place = divmod(index, BLOCK)
    if "proof" in bounds.kinds and (not kinds or place >= BLOCK - _PROOFS):
        circuit = random.Random(f"quod sweep {seed} circuit {block}")
        curve = GROUPS[circuit.choice(bounds.groups)].curve.name
        size = _any_size(circuit, 0, math.log2(bounds.constraints))
        choices = {"witness": rng.randrange(1 << 32), "blinding": rng.randrange(1 << 32)}
        return Case(seed, index, "proof", curve, size, "constraints", choices)
    kind = rng.choices(kinds, [weights[name] for name in kinds])[0]
    group = rng.choice(bounds.groups)
    if kind == "ntt":
        return _transform_case(seed, index, bounds, group, rng)
    return _msm_case(seed, index, bounds, kind, group, rng)


def _any_size(rng: random.Random, least: float, most: float) -> int:
    """Draw a log-uniform size; a quarter of the sizes are near a power of two."""
    if rng.random() < 0.25 and int(most) > least:
        near = (1 << rng.randint(int(least) + 1, int(most))) + rng.randint(-1, 1)
        return min(near, int(2**most))
    return int(2 ** rng.uniform(least, most))


def _msm_case(
    seed: int, index: int, bounds: Bounds, kind: str, group: str, rng: random.Random
) -> Case:
    batch = rng.randint(2, 9) if kind == "batch" else 1
    most = max(0.0, bounds.largest - math.log2(batch))
    size = _any_size(rng, min(_PARTS, most) if kind == "parts" else 0, most)
    options: dict[str, Any] = {}
    if kind == "streamed":
        options["streamed"] = True
    elif kind != "parts" and rng.random() < 0.3:
        options["precompute_factor"] = rng.choice((1, 2, 4))
    if rng.random() < 0.15:
        options["batch_size"] = rng.choice((1, 3))
    # An MSM may take fewer scalars than there are bases.
    used = size if kind == "parts" or rng.random() < 0.7 else rng.randint(1, size)
    scalars = [rng.choice(SCALARS) for _ in range(batch)]
    repeated = rng.choice((0.0, 0.0, 0.1, 0.9, 1.0))
    choices = {
        "batch": batch, "used": used, "scalars": scalars, "repeated": repeated, "options": options,
        "offset": rng.random(), "numbers": rng.randrange(1 << 63),
    }  # fmt: skip
    words = [f"of {used} scalars", *([f"x {batch}"] if batch > 1 else []), *sorted({*scalars})]
    words += [f"points {repeated:.0%} repeated"] if repeated else []
    words += [f"{name}={value}" for name, value in sorted(options.items())]
    return Case(seed, index, kind, group, size, " ".join(words), choices)


def _transform_case(
    seed: int, index: int, bounds: Bounds, group: str, rng: random.Random
) -> Case:  # fmt: skip
    log_size = rng.randint(0, int(bounds.largest))
    batch = min(rng.choice((1, 1, 2, 3, 8)), 1 << int(bounds.largest) - log_size)
    way, ordering = rng.choice(("forward", "inverse")), rng.choice(_ORDERINGS)
    coset = rng.choice((None, 2, rng.randrange(2, 1 << 64)))
    choices = {
        "log_size": log_size, "batch": batch, "way": way, "ordering": ordering, "coset": coset,
        "scaled": rng.random() < 0.8, "family": rng.choice(("snarkjs", "arkworks")),
        "numbers": rng.randrange(1 << 63),
    }  # fmt: skip
    about = f"2^{log_size} x {batch} {way} {ordering} {choices['family']}"
    about += ("" if coset is None else " on a coset") + (
        "" if way == "forward" or choices["scaled"] else " not scaled"
    )  # fmt: skip
    return Case(seed, index, "ntt", group, batch << log_size, about, choices)


class Runner:
    """Runs cases on a device; bases and keys are reused by the next cases."""

    def __init__(self, device: AnyDevice, bounds: Bounds) -> None:
        self.device, self.bounds = device, bounds
        self._processor = resolve_device("cpu")
        self._pools: dict[tuple[int, str], _Pool] = {}
        self._key: _Key | None = None

    def run(self, case: Case) -> None:
        """Run a case; raises WrongResultError for a wrong result, or the computation's error."""
        if case.kind == "proof":
            self._prove(case)
            return
        # A key plans with all of the memory, and so do others.
        self.close()
        if case.kind == "ntt":
            self._transform(case)
        else:
            self._msm(case)

    def close(self) -> None:
        """Release the key."""
        if self._key is not None:
            key, self._key = self._key, None
            key.close()
            del key
            gc.collect()

    # --- MSM

    def _msm(self, case: Case) -> None:
        group, choices = GROUPS[case.group], case.choices
        points, weights = self._pool(case.seed, group).bases(case)
        used, numbers = choices["used"], np.random.default_rng(choices["numbers"])
        vectors = np.stack(
            [some_scalars(group.scalars, kind, used, numbers) for kind in choices["scalars"]]
        )
        options = MsmOptions(**choices["options"])
        sums = msm_words(MsmBases(self.device, group, points, options), vectors)
        law, generator = affine_group(group), group.parameters.generator
        for number, (kind, vector) in enumerate(zip(choices["scalars"], vectors)):
            total = weighed(vector, weights[:used]) % group.scalars.value
            if affine_ints(group, sums[number]) != law.multiply(total, generator):
                raise WrongResultError(f"vector {number} ({kind}) has another sum")

    def _pool(self, seed: int, group: Group) -> _Pool:
        key = (seed, group.name)
        if key not in self._pools:
            self._pools[key] = _Pool(self.device, group, seed, int(2**self.bounds.largest))
        return self._pools[key]

    # --- transforms

    def _transform(self, case: Case) -> None:
        choices, fr = case.choices, GROUPS[case.group].scalars
        log_size, batch = choices["log_size"], choices["batch"]
        plan = NttPlan(self.device, fr, log_size, family=choices["family"])
        sparse = _Sparse(fr, case)
        data = uniform(fr, batch << log_size, np.random.default_rng(choices["numbers"]))
        data[: plan.size] = sparse.before()
        options: dict[str, Any] = {"batch": batch, "ordering": choices["ordering"]}
        options["coset"] = choices["coset"]
        ending = {} if choices["way"] == "forward" else {"scaled": choices["scaled"]}
        transformed = data.copy()
        getattr(plan, choices["way"])(transformed, **options, **ending)
        sparse.check(transformed[: plan.size])
        if self.device.kind != "cpu" and log_size <= _LARGEST_COMPARED:
            wanted = data.copy()
            again = NttPlan(self._processor, fr, log_size, family=choices["family"])
            getattr(again, choices["way"])(wanted, **options, **ending)
            if not np.array_equal(transformed, wanted):
                raise WrongResultError("the processor has another result")
        # Back by the other way, which takes and gives the orders the other way round.
        options["ordering"] = choices["ordering"][::-1]
        if choices["way"] == "forward":
            plan.inverse(transformed, **options)
        else:
            plan.forward(transformed, **options)
        if choices["way"] == "inverse" and not choices["scaled"]:
            data = scaled(self._processor, fr, data, plan.size)
        if not np.array_equal(transformed, data):
            raise WrongResultError("there and back is not where it was")

    # --- proofs

    def _prove(self, case: Case) -> None:
        key = self._key_of(case)
        choices = case.choices
        witness = key.circuit.witness(seed=choices["witness"], device=self.device)
        proof, public = key.proving.prove(witness, seed=choices["blinding"])
        verifying = key.proving.verifying_key
        if not verifying.verify(public, proof):
            raise WrongResultError("the proof does not verify")
        wrong = [(public[0] + 1) % CURVES[case.group].fr.value, *public[1:]]
        if verifying.verify(wrong, proof):
            raise WrongResultError("the proof verifies for another public input")
        if case.size <= _SMALL_PROOF and self.device.kind != "cpu":
            if key.processor is None:
                key.processor = ProvingKey(key.proving.zkey, self._processor)
            if key.processor.prove(witness, seed=choices["blinding"]) != (proof, public):
                raise WrongResultError("the processor makes another proof with the same seed")

    def _key_of(self, case: Case) -> _Key:
        if self._key is None or self._key.name != (case.group, case.size):
            self.close()
            circuit = ChainCircuit(case.group, case.size)
            zkey = make_key(circuit, case.seed, device=self.device)
            # Nobody is given these proofs.
            proving = ProvingKey(zkey, self.device, allow_insecure=True)
            self._key = _Key((case.group, case.size), circuit, proving)
        return self._key


@dataclass
class _Key:
    """A key on the device, and on the CPU if it is small."""

    name: tuple[str, int]
    circuit: ChainCircuit
    proving: ProvingKey
    processor: ProvingKey | None = None

    def close(self) -> None:
        self.proving.close()
        if self.processor is not None:
            self.processor.close()


class _Pool:
    """Points with known logarithms: many distinct points, and a few repeated ones.

    Logarithms are `signs` times numbers of 64 bits, rows of four 16-bit digits. Among the few are
    points with their negatives, and infinity.
    """

    _FEW = 64

    def __init__(self, device: AnyDevice, group: Group, seed: int, count: int) -> None:
        rng = np.random.default_rng([seed, *group.name.encode()])
        self._digits = rng.integers(1, 1 << 16, (count, 4), np.int32)
        few = rng.integers(1, 1 << 16, (self._FEW, 4), np.int32)
        few[1::2] = -few[::2]
        few[-2:] = 0
        self._few = few
        table = FixedBase(device, group, group.parameters.generator, count)
        self._points = table.multiply(_logarithms(group.scalars, self._digits))
        self._few_points = table.multiply(_logarithms(group.scalars, few))

    def bases(self, case: Case) -> tuple[Array, Array]:
        """Return the points of a case and the digits of their logarithms."""
        choices, size = case.choices, case.size
        start = int(choices["offset"] * (len(self._points) - size + 1))
        points, weights = self._points[start : start + size], self._digits[start : start + size]
        if choices["repeated"]:
            numbers = np.random.default_rng(choices["numbers"] ^ 1)
            there = np.flatnonzero(numbers.random(size) < choices["repeated"])
            which = numbers.integers(0, self._FEW, len(there))
            points, weights = points.copy(), weights.copy()
            points[there], weights[there] = self._few_points[which], self._few[which]
        return points, weights


def _logarithms(fr: Modulus, digits: Array) -> Array:
    """Convert rows of four digits of one sign to scalars below the group order."""
    values = np.abs(digits).astype(np.uint64)
    words = np.zeros((len(digits), fr.words), np.uint32)
    words[:, 0] = values[:, 0] | values[:, 1] << np.uint64(16)
    words[:, 1] = values[:, 2] | values[:, 3] << np.uint64(16)
    negative = np.flatnonzero(digits[:, 0] < 0)
    if len(negative):
        plain = [fr.value - value for value in words_to_integers(fr, words[negative])]
        words[negative] = integers_to_words(fr, plain)
    return words


# Sums of products of 16-bit digits stay below 2**53, where floats are exact.
_EXACT_ROWS = 1 << 18


def weighed(scalars: Array, weights: Array) -> int:
    """Sum scalars[i] times the integer whose signed 16-bit digits are weights[i]."""
    total = 0
    for start in range(0, len(scalars), _EXACT_ROWS):
        rows = np.ascontiguousarray(scalars[start : start + _EXACT_ROWS], "<u4").view("<u2")
        digits = weights[start : start + _EXACT_ROWS].astype(np.float64)
        sums = rows.T.astype(np.float64) @ digits
        for (left, right), value in np.ndenumerate(sums):
            total += int(value) << 16 * (left + right)
    return total


def uniform(fr: Modulus, count: int, rng: np.random.Generator) -> Array:
    """Draw elements quickly; all are below p, except a few that may share its highest word."""
    words = rng.integers(0, 1 << 32, (count, fr.words), np.uint32)
    words[:, -1] = rng.integers(0, fr.value >> 32 * (fr.words - 1), count, np.uint32)
    return words


def some_scalars(fr: Modulus, kind: str, count: int, rng: np.random.Generator) -> Array:
    """Return canonical scalars: uint32 of shape (count, words)."""
    scalars = np.zeros((count, fr.words), np.uint32)
    match kind:
        case "uniform":
            return uniform(fr, count, rng)
        case "bits":
            scalars[:, 0] = rng.integers(0, 2, count)
        case "small":
            scalars[:, 0] = rng.integers(0, 1 << 16, count)
        case "equal":
            scalars[:] = uniform(fr, 1, rng)
        case "giant":
            # One bucket of each window has most of the entries.
            scalars[:] = uniform(fr, 1, rng)
            others = np.flatnonzero(rng.random(count) < 1 / 16)
            scalars[others] = uniform(fr, len(others), rng)
        case "r-1":
            scalars[:] = integers_to_words(fr, [fr.value - 1])
    return scalars


class _Sparse:
    """A sparse polynomial, as the input of a transform, with the expected output."""

    def __init__(self, fr: Modulus, case: Case) -> None:
        choices = case.choices
        self._fr, self._own = fr, choices
        self._log_size = choices["log_size"]
        self._rng = random.Random(f"{case.seed} {case.index} terms")
        size = 1 << self._log_size
        self._terms = {
            self._rng.randrange(size): self._rng.randrange(fr.value) for _ in range(_COEFFICIENTS)
        }
        curve = GROUPS[case.group].curve
        self._root = root_of_unity(curve.fr, choices["family"], self._log_size)
        self._order = bit_reversal(self._log_size)

    def _place(self, index: int, order: str) -> int:
        return int(self._order[index]) if order == "R" else index

    def before(self) -> Array:
        """Return the input values of the transform."""
        values = np.zeros((1 << self._log_size, self._fr.words), np.uint32)
        for index, value in self._terms.items():
            values[self._place(index, self._own["ordering"][0])] = from_integers(self._fr, [value])
        return values

    def check(self, values: Array) -> None:
        """Raise WrongResultError unless the output has the expected polynomial or values."""
        p, size = self._fr.value, 1 << self._log_size
        shift = self._own["coset"] or 1
        for index in {0, size - 1, *(self._rng.randrange(size) for _ in range(_LOOKS))}:
            if self._own["way"] == "forward":
                point = shift * pow(self._root, index, p) % p
                wanted = sum(value * pow(point, at, p) for at, value in self._terms.items())
            else:
                back = pow(self._root, -index, p)
                wanted = sum(value * pow(back, at, p) for at, value in self._terms.items())
                wanted *= pow(shift, -index, p)
                wanted *= pow(size, -1, p) if self._own["scaled"] else 1
            place = self._place(index, self._own["ordering"][1])
            if to_integers(self._fr, values[place : place + 1]) != [wanted % p]:
                raise WrongResultError(f"element {index} is not the value of the polynomial")
