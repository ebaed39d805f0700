"""Plans: the static scales of a model, from calibration texts, with a report of their accuracy."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from hashlib import sha256
from typing import Any

import numpy as np
from numpy.typing import NDArray

from quod.errors import InputError, MismatchError
from quod.formats.gguf.file import Gguf
from quod.formats.output import write_atomically
from quod.formats.source import Path, map_file
from quod.formats.strict_json import JsonKind, parse_json, read_json
from quod.frozen import fields_of, frozen
from quod.inference.transformer.float_model import FloatModel, Floats
from quod.inference.transformer.model import Model
from quod.inference.transformer.program import Product, Program, build
from quod.inference.transformer.reference import Reference, Trace
from quod.inference.transformer.scales import LAYER_VALUES, LayerScales, Scales, scales_of
from quod.validation import file_path, shown

_FORMAT = "quod transformer plan"
_VERSION = 1
_PLAN = JsonKind("a plan of a language model", 4 << 20, 1 << 17)
_MAX_FRACTION = 24
_MAX_SUM = (1 << 63) - (1 << 32)
"""No sum reaches this, which leaves numbers that stand for logits that were not written."""
CHUNK = 256
"""Calibration texts are evaluated in windows of at most this number of tokens."""

_BATCH = 8
"""The windows that are evaluated at once, so that weights are converted seldom."""

Progress = Callable[[str, int, int], None]


@frozen
class Report:
    """The accuracy of a plan, measured on texts that its scales were not chosen from.

    tokens: The number of tokens evaluated.
    divergence: The mean Kullback-Leibler divergence of the next token from the float model's.
    equal_choices: The share of positions at which both models find the same token likeliest.
    perplexity, float_perplexity: The perplexity of the integer program and of the float model.
    saturated: The number of saturated values for each thousand tokens.
    """

    tokens: int
    divergence: float
    equal_choices: float
    perplexity: float
    float_perplexity: float
    saturated: float


@frozen
class Plan:
    """The scales of a model.

    digest: The SHA-256 of the model's file.
    scales: The fractional bits of all values.
    calibration_tokens: The number of tokens that the scales were chosen from.
    report: The accuracy; None if it was not measured.
    """

    digest: bytes
    scales: Scales
    calibration_tokens: int
    report: Report | None

    def write(self, path: Path, *, replace: bool = True) -> None:
        """Write the plan as JSON."""
        document = {
            "format": _FORMAT,
            "version": _VERSION,
            "model": self.digest.hex(),
            "scales": self.scales.as_json(),
            "layer_values": list(LAYER_VALUES),
            "calibration_tokens": self.calibration_tokens,
            # As text, because JSON's fractions depend on their reader.
            "report": None
            if self.report is None
            else {name: repr(value) for name, value in fields_of(self.report).items()},
        }
        write_atomically(path, json.dumps(document, indent=1).encode() + b"\n", replace=replace)

    @property
    def identity(self) -> str:
        """The SHA-256 of the model's digest and the scales, on which every bit of a logit depends.

        Plans that differ only in their report have the same identity.
        """
        document = [_FORMAT, _VERSION, self.digest.hex(), self.scales.as_json()]
        return sha256(json.dumps(document, separators=(",", ":")).encode()).hexdigest()

    def check_model(self, model: Gguf, digest: bytes) -> None:
        """Raise MismatchError if this is the plan of another model."""
        if self.digest != digest:
            raise MismatchError(
                f"the plan is for the model with SHA-256 {self.digest.hex()[:16]}..., and "
                f"{model.path} has {digest.hex()[:16]}...; make a plan for this model"
            )


def read_plan(path: Path) -> Plan:
    """Read a plan; InputError, with the file and the field, for anything else."""
    return parse_plan(read_json(path, _PLAN), file_path(path))


def parse_plan(data: bytes, name: str) -> Plan:
    """Read a plan as `read_plan` does, from bytes; `name` stands for the path in errors."""
    document = parse_json(data, name, _PLAN)
    if not isinstance(document, dict) or document.get("format") != _FORMAT:
        raise InputError("is not a plan of a language model", path=name)
    if document.get("version") != _VERSION:
        raise InputError(
            f"has version {shown(document.get('version'))} of plans; Quod reads {_VERSION}, so "
            "make the plan again",
            path=name,
        )
    if document.get("layer_values") != list(LAYER_VALUES):
        raise _field_error(name, "layer_values", f"is not {list(LAYER_VALUES)}")
    scales = document.get("scales")
    if not isinstance(scales, dict) or sorted(scales) != ["layers", "norm", "residual"]:
        raise _field_error(name, "scales", "is no object with layers, norm and residual")
    layers = scales["layers"]
    if not isinstance(layers, list):
        raise _field_error(name, "scales.layers", "is no list")
    chosen = []
    for index, numbers in enumerate(layers):
        field = f"scales.layers[{index}]"
        if not isinstance(numbers, list) or len(numbers) != len(LAYER_VALUES):
            raise _field_error(name, field, f"has no {len(LAYER_VALUES)} numbers")
        chosen.append(LayerScales(*[_fraction(name, field, number) for number in numbers]))
    residual, norm = (_fraction(name, f"scales.{key}", scales[key]) for key in ("residual", "norm"))
    return Plan(
        _digest(name, document.get("model")), Scales(residual, norm, tuple(chosen)),
        _count(name, document.get("calibration_tokens")), _report(name, document.get("report")),
    )  # fmt: skip


def digest_of(path: Path) -> bytes:
    """Return the SHA-256 of a file."""
    return sha256(map_file(path)).digest()


def check_bounds(program: Program) -> None:
    """Raise InputError, with the tensor's name, if a sum could reach 2**63.

    The weights are looked at where the sizes of scales and minima alone do not exclude it.
    """
    for _, product in program.products():
        if _largest_sum_by_scales(product) < _MAX_SUM:
            continue
        bound = largest_sum(product)
        if bound >= _MAX_SUM:
            raise InputError(
                f"sums could reach 2^{bound.bit_length() - 1} under this plan, and must be below "
                "2^63",
                path=program.model.path, section=f"tensor {product.matrix.name!r}",
            )  # fmt: skip


def _largest_sum_by_scales(product: Product) -> int:
    """Return a bound of `largest_sum` that holds for all quants."""
    matrix = product.matrix
    scale, minimum = (
        int(np.abs(values.astype(np.int64)).max()) for values in (matrix.scales, matrix.minima)
    )
    weight = scale * ((1 << matrix.bits) - 1) + minimum
    bias = 0 if product.bias is None else int(np.abs(product.bias).max())
    return weight * matrix.columns * product.input_limit + bias + (1 << (product.shift or 0))


def largest_sum(product: Product) -> int:
    """Return the largest absolute value that a sum can have before it is shifted."""
    matrix, largest = product.matrix, 0
    for rows in matrix.row_blocks():
        sums = np.abs(matrix.integers(rows)).sum(axis=1).astype(object) * product.input_limit
        if product.bias is not None:
            sums = sums + np.abs(product.bias[rows]).astype(object)
        largest = max(largest, int(sums.max()))
    return largest + ((1 << (product.shift or 0)) >> 1)


def make_plan(
    file: Gguf,
    model: Model,
    calibration: Sequence[NDArray[np.int64]],
    evaluation: Sequence[NDArray[np.int64]] = (),
    progress: Progress | None = None,
) -> Plan:
    """Choose the scales of a model, and measure their accuracy on other texts.

    calibration, evaluation: The tokens of texts. No report is made without evaluation texts.
    progress: Is called with a step, the tokens done and the tokens in total.
    Raises InputError for a model whose sums could reach 2**63, with the tensor.
    """
    largest: dict[str, float] = {}

    def observe(name: str, values: Floats) -> None:
        value = float(np.abs(values).max())
        # Of a NaN and a number, `max` may return either.
        largest[name] = max(largest.get(name, 0.0), value if np.isfinite(value) else np.inf)

    chunks = _chunks(model, calibration)
    if not chunks:
        raise InputError("the calibration texts have no tokens")
    floats, done, total = FloatModel(model, observe), 0, sum([len(chunk) for chunk in chunks])
    for start in range(0, len(chunks), _BATCH):
        batch = chunks[start : start + _BATCH]
        with np.errstate(all="ignore"):
            floats.outputs(batch)
        done += sum([len(chunk) for chunk in batch])
        if progress is not None:
            progress("calibration", done, total)
    if np.inf in largest.values():
        raise InputError("values of the model are infinite or NaN in f32", path=model.path)
    scales = scales_of(largest, model)
    program = build(model, scales)
    check_bounds(program)
    report = accuracy(program, evaluation, progress) if evaluation else None
    return Plan(digest_of(file.path), scales, total, report)


def accuracy(
    program: Program, texts: Sequence[NDArray[np.int64]], progress: Progress | None = None
) -> Report:
    """Compare the integer program with the float model on texts."""
    reference, floats = Reference(program), FloatModel(program.model)
    divergences, equal, losses, float_losses, saturated = [], [], [], [], 0

    def compare(tokens: NDArray[np.int64]) -> None:
        nonlocal saturated
        trace = Trace({}, {})
        integers = reference.logits(tokens, trace=trace)
        saturated += sum(trace.saturated.values())
        integer = log_probabilities(np.ldexp(integers.astype(np.float64), -program.logit_bits))
        expected = log_probabilities(floats.logits(tokens).astype(np.float64))
        divergences.extend((np.exp(expected) * (expected - integer)).sum(axis=1).tolist())
        equal.extend((integer.argmax(axis=1) == expected.argmax(axis=1)).tolist())
        index = np.arange(len(tokens) - 1)
        losses.extend((-integer[index, tokens[1:]]).tolist())
        float_losses.extend((-expected[index, tokens[1:]]).tolist())

    chunks, done = _chunks(program.model, texts), 0
    for chunk in chunks:
        compare(chunk)
        done += len(chunk)
        if progress is not None:
            progress("accuracy", done, sum([len(other) for other in chunks]))
    count = len(divergences)
    return Report(
        count, float(np.mean(divergences)), float(np.mean(equal)),
        float(np.exp(np.mean(losses or [0.0]))), float(np.exp(np.mean(float_losses or [0.0]))),
        1000 * saturated / count,
    )  # fmt: skip


def log_probabilities(logits: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the logarithms of the softmax along the last axis."""
    shifted = logits - logits.max(axis=-1, keepdims=True)
    return np.asarray(shifted - np.log(np.exp(shifted).sum(axis=-1, keepdims=True)))


def _chunks(model: Model, texts: Sequence[NDArray[np.int64]]) -> list[NDArray[np.int64]]:
    size = min(CHUNK, model.architecture.context)
    return [text[i : i + size] for text in texts for i in range(0, len(text), size)]


def _fraction(path: str, field: str, value: object) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value <= _MAX_FRACTION:
        raise _field_error(path, field, f"is no number from 0 to {_MAX_FRACTION}")
    return value


def _digest(path: str, value: object) -> bytes:
    try:
        digest = bytes.fromhex(value) if isinstance(value, str) else b""
    except ValueError:
        digest = b""
    if len(digest) != 32:
        raise _field_error(path, "model", "is no SHA-256 in hexadecimal")
    return digest


def _count(path: str, value: object) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or value < 1:
        raise _field_error(path, "calibration_tokens", "is no number above zero")
    return value


def _report(path: str, value: Any) -> Report | None:
    if value is None:
        return None
    names = list(Report.__annotations__)
    if not isinstance(value, dict) or sorted(value) != sorted(names):
        raise _field_error(path, "report", f"is no object with {', '.join(names)}")
    try:
        return Report(int(value["tokens"]), *[float(value[name]) for name in names[1:]])
    except (TypeError, ValueError):
        raise _field_error(path, "report", "has a value that is no number as text") from None


def _field_error(path: str, field: str, message: str) -> InputError:
    return InputError(message, path=path, section=field)
