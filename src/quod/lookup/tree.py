"""Trees of fractions in device memory, and their proof as one recording.

Level l of a tree has 2**l fractions: all numerators, then all denominators. The tables of layer k's
sumcheck, n and d at 0 and at 1 of its first variable, are halves of level k + 1 in memory. Data
passes between layers on the device; the host waits once for all layers.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from quod.device.memory.buffer import Buffer
from quod.device.protocol import AnyDevice
from quod.device.runtime.sentinel import UNWRITTEN, not_written
from quod.device.runtime.stream import RecordingStream
from quod.field.array import Words, canonical
from quod.field.element_bytes import Plain, decode, element_bytes, encode
from quod.field.plain_element import PlainElement, coefficients_of
from quod.field.spec import FieldSpec
from quod.frozen import frozen
from quod.hash.function import STATE_WORDS
from quod.hash.table import Hash
from quod.lookup.fraction_kernels import LayerForm, add_fractions, next_layer
from quod.lookup.fractions import DEGREE, FractionTree, LeafClaim, at_selector, layers_of
from quod.lookup.leaf_form import ComputedLevel, LeafForm, sum_leaves
from quod.lookup.leaves import ALIGNMENT
from quod.sumcheck.memory import SumcheckProgress
from quod.sumcheck.plan import Inputs, SumcheckPlan
from quod.sumcheck.polynomial import SumOfProducts, Term
from quod.sumcheck.run import elements_to_words, words_to_elements
from quod.sumcheck.shape import Shape


@frozen(eq=False)
class _Layer:
    """A layer's sumcheck, and the buffer of its messages and values."""

    plan: SumcheckPlan
    progress: Buffer
    sent: Buffer


@frozen(eq=False)
class ComputedLeaves:
    """Leaves of a tree without numerators, which kernels compute from columns and `parameters`.

    levels: the number of levels that are not in memory, from the leaves on.
    """

    form: LeafForm
    columns: Buffer
    parameters: Buffer
    levels: int = 2


class FractionTrees:
    """The trees of one sequence of sumchecks on a device, with memory for most of their levels.

    The caller writes the leaves to `leaves` from index `first` on. The exception is a first tree of
    `ComputedLeaves`: its lowest levels are never in memory, except for level 1. If its leaves are
    `LeafForm.in_base`, a shift alpha minus values w of the prime field, the tables in the sumcheck
    of the leaves' layer are the values. With the layer's challenge mu the polynomial is

        d0*d1 + mu*(d0 + d1) = w0*w1 - (alpha + mu)*(w0 + w1) + alpha*(alpha + 2*mu)
    """

    def __init__(
        self, device: AnyDevice, field: FieldSpec, trees: Sequence[FractionTree], *,
        computed: ComputedLeaves | None = None, hash: Hash = Hash.SHA3_256,
        log_capacity: int | None = None,
    ) -> None:  # fmt: skip
        """Allocate memory for at most four trees; see `SumcheckPlan` for `log_capacity`."""
        self._computed = computed
        self._lowest_stored = trees[0].log2_size
        if computed is not None:
            self._lowest_stored = max(1, self._lowest_stored - computed.levels)
        self._shift: PlainElement | None = None
        self._hash, self._log_capacity = hash, log_capacity
        self._device, self._field, self._trees = device, field, tuple(trees)
        self._layers_count = layers_of(trees)
        self._element = 4 * field.words
        plans = [self._plan(layer) for layer in range(1, self._layers_count)]
        shared_sizes = [
            max((getattr(plan, name) for plan in plans), default=self._element)
            for name in ("equality_bytes", "folded_bytes", "partial_bytes")
        ]
        progress_sizes = [plan.progress_bytes for plan in plans]
        end_bytes = 4 * SumcheckProgress.words(field, 1, self._layers_count)
        # A buffer has at least one element, because kernels need a buffer for an empty level too.
        sizes = [max(1, self._level_elements(level)) * self._element for level in self._levels]
        proof_sizes = [self._values(0) * self._element, *(plan.proof_bytes for plan in plans)]
        self.bytes = sum(shared_sizes + progress_sizes + sizes + proof_sizes)
        """The bytes of device memory that the trees take."""
        device.check_budget("sums of fractions", self.bytes)
        self._equality, self._folded, self._partial = map(device.allocate, shared_sizes)
        self._point = device.allocate(self._layers_count * self._element)
        self._memory = {
            level: device.allocate(size, zero=False)
            for level, size in zip(self._levels, sizes, strict=True)
        }
        self._start = device.allocate(4 * SumcheckProgress.words(field, 1, 0))
        self._end = device.allocate(end_bytes)
        self.points = [device.allocate(tree.log2_size * self._element) for tree in trees]
        """Buffers of the points of the trees' leaves, after the recording has run."""
        self._shift_memory = device.allocate(self._element)
        self._starts = [0]
        for size in proof_sizes:
            self._starts.append(self._starts[-1] + -(-size // ALIGNMENT) * ALIGNMENT)
        self._sent = device.allocate(self._starts[-1])
        self._first_values, *layer_buffers = (
            self._sent.slice(start, start + size)
            for start, size in zip(self._starts, proof_sizes, strict=False)
        )
        self._layers = [
            _Layer(plan, device.allocate(plan.progress_bytes), layer_buffer)
            for plan, layer_buffer in zip(plans, layer_buffers, strict=True)
        ]

    @property
    def _levels(self) -> range:
        return range(1, self._layers_count + 1)

    # --- the positions of fractions

    def leaves(self, tree: int) -> Buffer:
        """Return the buffer of the level that has a tree's leaves."""
        return self._memory[self._trees[tree].log2_size]

    def first(self, tree: int, level: int | None = None) -> int:
        """Return the index of a tree's first element in a level.

        level: by default the level of the tree's leaves.
        """
        level = self._trees[tree].log2_size if level is None else level
        return sum(self._elements(before, level) for before in range(tree))

    def _elements(self, tree: int, level: int) -> int:
        if tree == 0 and level > self._lowest_stored:
            return 0
        return self._trees[tree].tables(level - 1) << (level - 1)

    def _level_elements(self, level: int) -> int:
        return sum(self._elements(tree, level) for tree in range(len(self._trees)))

    def _active(self, layer: int) -> list[int]:
        return [number for number, tree in enumerate(self._trees) if tree.tables(layer)]

    def _source(self, layer: int) -> ComputedLevel | None:
        """Return the source of the first tree's tables in a layer, if they are not in memory."""
        depth = self._trees[0].log2_size - 1 - layer
        if self._computed is None or depth < 0 or layer + 1 <= self._lowest_stored:
            return None
        return ComputedLevel(self._computed.form, depth)

    def _is_shifted(self, layer: int) -> bool:
        """True for a layer whose first tables are values of the prime field, without the shift."""
        source = self._source(layer)
        return source is not None and source.in_base > 0

    def _values(self, layer: int) -> int:
        return sum(tree.tables(layer) for tree in self._trees)

    # --- the sumcheck of a layer

    def _plan(self, layer: int) -> SumcheckPlan:
        """Plan the sumcheck of a layer, which batches all active trees by powers of a challenge.

        A tree is active in a layer if the layer has tables of it.
        The active tree at index p scales the product of denominators by power 2*p, and the sum of
        numerators by power 2*p + 1. Scale number e - 1 is power e (None is power 0); the scales of
        shifted values come last.
        """
        terms: list[Term] = []
        numerator_terms: list[Term]
        scales: list[int | None] = []
        next_table, active, source = 0, self._active(layer), self._source(layer)
        for position, tree in enumerate(active):
            if tree == 0 and source is not None and source.in_base:
                shift_scale = 2 * len(active) - 1
                terms = [(1, (0, 1)), (-1, (0,)), (-1, (1,)), (1, ())]
                scales = [None, shift_scale, shift_scale, shift_scale + 1]
                next_table = 2
                continue
            if self._trees[tree].tables(layer) == 4:
                n0, n1, d0, d1 = range(next_table, next_table + 4)
                numerator_terms = [(1, (n0, d1)), (1, (n1, d0))]
            else:
                d0, d1 = range(next_table, next_table + 2)
                numerator_terms = [(1, (d0,)), (1, (d1,))]
            next_table = d1 + 1
            terms += [(1, (d0, d1)), *numerator_terms]
            scales += [2 * position - 1 if position else None, 2 * position, 2 * position]
        polynomial = SumOfProducts(tuple(terms))
        shape = Shape(
            self._field, polynomial, in_base=0 if source is None else source.in_base,
            has_point=True, scales=tuple(scales), hash=self._hash, source=source,
        )  # fmt: skip
        return SumcheckPlan(self._device, shape, layer, log_capacity=self._log_capacity)

    # --- launches

    def launch(
        self, recording: RecordingStream, definition: Any, count: int, *arguments: Any,
        **static: Any,
    ) -> None:  # fmt: skip
        """Record a launch of a kernel with `count` instances, which is its first argument."""
        compiled = self._device.compile(definition, field=self._field, **static)
        recording.launch(compiled, -(-count // compiled.lanes), count, *arguments)

    def record(self, recording: RecordingStream) -> None:
        """Record all sums from the leaves to the roots, then the sumchecks of all layers."""
        with recording.part("sums"):
            self._record_computed(recording)
            for level in reversed(self._levels[:-1]):
                for tree in self._active(level):
                    if tree == 0 and level >= self._lowest_stored:
                        continue
                    has_numerators = self._trees[tree].tables(level) == 4
                    self.launch(
                        recording, add_fractions, 1 << level, self.first(tree, level + 1),
                        self.first(tree, level), self._memory[level + 1], self._memory[level],
                        has_numerators=has_numerators,
                    )  # fmt: skip
        recording.copy(self._memory[1], self._first_values)
        before, values, first_value = self._start, self._first_values, 0
        for number, layer in enumerate(self._layers, start=1):
            with recording.part(f"layer {number}"):
                self._record_step(recording, number, layer, before, values, first_value)
                self._record_layer(recording, number, layer)
            plan = layer.plan
            before, values, first_value = layer.progress, layer.sent, number * plan.shape.degree
        with recording.part("end"):
            self._record_step(recording, self._layers_count, None, before, values, first_value)

    def _record_computed(self, recording: RecordingStream) -> None:
        """Record the first level in memory of computed leaves."""
        computed, level = self._computed, self._lowest_stored
        if computed is None:
            return
        depth = self._trees[0].log2_size - level
        compiled = self._device.compile(sum_leaves, form=computed.form, depth=depth)
        recording.launch(
            compiled, -(-(1 << level) // compiled.lanes), 1 << level, self.first(0, level),
            computed.columns, computed.parameters, self._memory[level],
        )  # fmt: skip

    def _record_step(
        self, recording: RecordingStream, number: int, layer: _Layer | None, before: Buffer,
        values: Buffer, first_value: int,
    ) -> None:  # fmt: skip
        """Record the step to layer `number`, or after the last layer, and keep its trees' points.

        before, values, first_value: the progress of the ended layer's sumcheck, and its values.
        """
        active = self._active(number - 1)
        form = LayerForm(
            self._field,
            counts=tuple(self._trees[tree].tables(number - 1) for tree in active),
            continuing_trees=tuple(
                position for position, t in enumerate(active) if self._trees[t].tables(number)
            ),
            was_shifted=self._is_shifted(number - 1), is_shifted=self._is_shifted(number),
            hash=self._hash,
        )  # fmt: skip
        lanes = self._step_lanes if layer is None else layer.plan.finish_lanes
        compiled = self._device.compile(next_layer, lanes=lanes, form=form)
        recording.launch(
            compiled, 1, number - 1, first_value, 0 if layer is None else layer.plan.first_scale,
            values, before, self._end if layer is None else layer.progress, self._point,
            self._equality, self._shift_memory,
        )  # fmt: skip
        for tree, point in zip(self._trees, self.points, strict=True):
            if tree.log2_size == number:
                recording.copy(self._point.slice(0, point.nbytes), point)

    def _record_layer(self, recording: RecordingStream, number: int, layer: _Layer) -> None:
        """Record the sumcheck of a layer, of `number` variables."""
        plan = layer.plan
        inputs = Inputs(None, self._memory[number + 1])
        if self._computed is not None and self._source(number) is not None:
            inputs = Inputs(
                self._computed.columns, self._memory[number + 1], self._computed.parameters
            )
        plan.record_point(recording, self._point, self._equality)
        plan.record(
            recording, inputs, equality=self._equality, progress=layer.progress,
            proof=layer.sent, folded=self._folded, partial=self._partial,
        )  # fmt: skip

    def begin(self, state: bytes, shift: PlainElement | None = None) -> None:
        """Upload the transcript's state before the layers, and the shift of leaves in the base."""
        self._shift = shift
        if shift is not None:
            words = elements_to_words(self._field, [shift.coefficients])
            self._device.upload(words, into=self._shift_memory)
        start = np.zeros(self._start.nbytes // 4, np.uint32)
        start[-STATE_WORDS:] = np.frombuffer(state, "<u4")
        self._device.upload(start, into=self._start)
        # `UNWRITTEN` is not an element, so missing writes are detected.
        marks = np.full(self._sent.nbytes // 4, UNWRITTEN, np.uint32)
        self._device.upload(marks, into=self._sent)

    @property
    def _step_lanes(self) -> int:
        """The workgroup size of the step after the last layer."""
        return self._layers[-1].plan.finish_lanes if self._layers else 1

    def download_state(self) -> bytes:
        """Download the state of the transcript after all messages."""
        words = np.empty(self._end.nbytes // 4, np.uint32)
        self._device.download(self._end, words)
        return words[-STATE_WORDS:].astype("<u4").tobytes()

    def download_claims(self, data: bytes) -> list[LeafClaim]:
        """Return the claims about each tree's leaves, which the messages `data` lead to."""
        claims: list[LeafClaim] = []
        for number, (tree, memory) in enumerate(zip(self._trees, self.points, strict=True)):
            words = np.empty((tree.log2_size, self._field.words), np.uint32)
            self._device.download(memory, words)
            if not canonical(
                self._field.modulus, words.reshape(-1, self._field.modulus.words)
            ).all():
                raise not_written(self._device, "points of leaves")
            claims.append(self._claim(number, words_to_elements(self._field, words), data))
        return claims

    def _claim(self, tree: int, point: list[Plain], data: bytes) -> LeafClaim:
        """Return the claim about a tree's leaves from the values of its last layer."""
        last = self._trees[tree].log2_size - 1
        element, start = element_bytes(self._field), 0
        for layer in range(last + 1):
            start += element * layer * DEGREE
            values_start = start
            start += element * self._values(layer)
        begin = values_start + element * sum(t.tables(last) for t in self._trees[:tree])
        stop = begin + element * self._trees[tree].tables(last)
        values = PlainElement.from_coefficients(self._field, decode(self._field, data[begin:stop]))
        selector = PlainElement(self._field, point[0])
        return LeafClaim(tuple(point), at_selector(self._field, values, selector))

    def download_messages(self) -> bytes:
        """Download all messages; raise DeviceError if the device did not write them."""
        words = np.empty(self._sent.nbytes // 4, np.uint32)
        self._device.download(self._sent, words)
        return b"".join(self._sent_by(layer, words) for layer in range(self._layers_count))

    def _sent_by(self, layer: int, words: Words) -> bytes:
        """Return the bytes of a layer's messages and values."""
        degree = self._layers[layer - 1].plan.shape.degree if layer else 0
        count, width = layer * degree, self._field.words
        modulus, start = self._field.modulus, self._starts[layer] // 4
        elements = words[start:][: (count + self._values(layer)) * width].reshape(-1, width)
        if not canonical(modulus, elements.reshape(-1, modulus.words)).all():
            raise not_written(self._device, "sums of fractions")
        values = words_to_elements(self._field, elements[count:])
        if self._is_shifted(layer):
            assert self._shift is not None
            numbers = PlainElement.from_coefficients(self._field, values[:2])
            values[:2] = coefficients_of([self._shift - number for number in numbers])
        return elements[:count].astype("<u4").tobytes() + encode(self._field, values)
