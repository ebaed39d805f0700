"""The prover of inferences."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from quod.commitment.rows import weighted_rows
from quod.commitment.scheme import Claim
from quod.device.discovery import DeviceChoice, resolve_device
from quod.device.memory.buffer import Buffer
from quod.device.protocol import AnyDevice
from quod.errors import DeviceError, InputError, MismatchError, VerificationError
from quod.field.array import Words, to_montgomery
from quod.field.element_bytes import Plain
from quod.field.plain_element import PlainElement, coefficients_of
from quod.frozen import frozen, replace
from quod.inference.layout import HIGH, LIMB_BITS, LOW, OUTPUT, QUOTIENT, ProofLayout
from quod.inference.network import Activations, run
from quod.inference.parts import join_parts
from quod.inference.perceptron import HALF, Numbers, Perceptron, check_images, clamped
from quod.inference.protocol import PRODUCT, Point, ProtocolRun, weighted
from quod.inference.statement import (
    FIELDS,
    LIMBS,
    SCHEME,
    WEIGHT_OFFSET,
    WEIGHTS,
    VerifyingKey,
    begin,
    field_for,
)
from quod.inference.verifier import claims_by_opening, verify
from quod.lookup import prover as lookups
from quod.lookup.committed import prove_committed
from quod.lookup.statement import Statement as Lookup
from quod.lookup.verifier import Reduced as LookupReduced
from quod.security import MIN_BITS
from quod.sumcheck import prover as sumchecks
from quod.sumcheck.eq_reference import equalities
from quod.sumcheck.run import elements_to_words
from quod.sumcheck.verifier import Reduced
from quod.sumcheck.verifier import Statement as Sumcheck
from quod.transcript.labels import Label
from quod.transcript.messages import ProofWriter
from quod.transcript.transcript import Transcript
from quod.validation import whole_number


@frozen(eq=False)
class Inference:
    """Logits, a row per image, and their proof."""

    logits: Numbers
    proof: bytes


class Prover:
    """A prover of inferences on a device, which has committed to a perceptron's weights.

    key: the verifying key. By default it is created, with the smallest field of challenges for
        which proofs of up to 4,096 images have `MIN_BITS`; an earlier prover's key is reused.
    Keys and proofs are verified before they are returned: DeviceError for a device with wrong
    results. MismatchError for another perceptron's key, and InputError for a key with fewer bits
    than `allow_bits`.
    """

    def __init__(
        self, device: DeviceChoice, perceptron: Perceptron, *, key: VerifyingKey | None = None,
        allow_bits: int = MIN_BITS,
    ) -> None:  # fmt: skip
        self.device = resolve_device(device)
        self.perceptron = perceptron
        layers = perceptron.layers
        widths = (layers[0].inputs, *(layer.outputs for layer in layers))
        layout = ProofLayout(widths, perceptron.table_bits, 1)
        if key is None:
            field = field_for(widths, perceptron.table_bits)
        else:
            field = key.field
        self._allow_bits = whole_number("allow_bits", allow_bits, 0)
        table = np.zeros(1 << layout.log_weights, np.int64)
        self._weights: list[Buffer] = []
        self._transposed: list[Buffer] = []
        for number, layer in enumerate(layers):
            shape = (1 << layout.log_rows(number), 1 << layout.log_columns(number))
            padded = np.zeros(shape, np.int64)
            padded[: layer.outputs, : layer.inputs] = layer.weights
            offset = layout.weight_offsets[number]
            table[offset : offset + padded.size] = padded.reshape(-1)
            self._weights.append(self.device.upload(_words(self.device, padded)))
            self._transposed.append(self.device.upload(_words(self.device, padded.T)))
        committed = _words(self.device, table + WEIGHT_OFFSET)
        self._committer = SCHEME.committer(self.device, field, layout.log_weights, allow_bits=0)
        self._committed = self.device.upload(committed)
        writer = ProofWriter(Transcript())
        self._committer.commit(self._committed, writer)
        verifying_key = VerifyingKey(
            widths,
            perceptron.table_bits,
            tuple(tuple(layer.biases.tolist()) for layer in layers),
            tuple(tuple(layer.multipliers.tolist()) for layer in perceptron.hidden),  # type: ignore[union-attr]
            writer.getvalue(),
            b"",
            field,
        )
        verifying_key.check_bits(1, self._allow_bits)
        if key is not None:
            if verifying_key.digest != key.digest:
                raise MismatchError("the key belongs to another perceptron")
            key.check_weights(allow_bits=self._allow_bits)
            self.key = key
            return
        proof = prove_committed(
            self.device, field, [committed], WEIGHTS, scheme=SCHEME, allow_bits=0
        )
        self.key = replace(verifying_key, weights_proof=proof)
        try:
            self.key.check_weights(allow_bits=self._allow_bits)
        except (VerificationError, InputError) as error:
            raise lookups.wrong_proof(self.device, error) from None

    def prove(self, images: object) -> Inference:
        """Prove the logits of images: integers in 0 to 127, a row per image.

        InputError for other images, and for so many that the proof has fewer bits than the prover
        allows; DeviceError for a device that computed a wrong proof.
        """
        values = check_images(images, self.key.widths[0])
        self.key.check_bits(len(values), self._allow_bits)  # before any computation
        activations = run(self.device, self.perceptron, values)
        transcript = begin(self.key, values, activations.logits)
        writer = _Writer(self, values, activations, transcript)
        try:
            ProtocolRun(writer, self.key, values, activations.logits).run()
            proof = writer.proof()
            verify(self.key, values, activations.logits, proof, allow_bits=self._allow_bits)
        except (VerificationError, InputError) as error:
            raise lookups.wrong_proof(self.device, error) from None
        return Inference(activations.logits, proof)


class _Writer:
    """The prover's side; `Prover.prove` has already checked the security bits of the proof."""

    def __init__(
        self, prover: Prover, images: Numbers, activations: Activations, transcript: Transcript
    ) -> None:
        self.transcript = transcript
        self._prover, self._device, self._field = prover, prover.device, prover.key.field
        self._layout = prover.key.layout(len(images))
        self._parts: list[bytes] = []
        self._inputs = _padded(self._layout, images, self._layout.log_columns(0), 0)
        self._columns = self._padded_columns(activations)
        self._limbs: Any = None
        self._committer = SCHEME.committer(
            self._device,
            self._field,
            self._layout.log_block + self._layout.log_blocks,
            allow_bits=0,
        )

    def _padded_columns(self, activations: Activations) -> dict[int, Numbers]:
        """Return the columns, padded in images and in outputs to the sizes of the layout."""
        layout, columns_by_index = self._layout, {}
        for layer in range(layout.hidden):
            remainders = _padded(layout, activations.remainders[layer], layout.log_hidden, HALF)
            columns = {
                QUOTIENT: _padded(layout, activations.quotients[layer], layout.log_hidden, 0),
                OUTPUT: _padded(layout, activations.outputs[layer], layout.log_hidden, 0),
                LOW: remainders & ((1 << LIMB_BITS) - 1),
                HIGH: remainders >> LIMB_BITS,
            }
            for which, column in columns.items():
                columns_by_index[layout.column(layer, which)] = column
        return columns_by_index

    def proof(self) -> bytes:
        """Return the bytes of all parts, each preceded by its length."""
        return join_parts(self._parts)

    def commit(self) -> None:
        layout, device = self._layout, self._device
        words = {index: _words(device, column) for index, column in self._columns.items()}
        layers = range(layout.hidden)
        self._pairs = [
            [words[layout.column(layer, which)] for which in (QUOTIENT, OUTPUT)] for layer in layers
        ]
        self._limbs = [
            words[layout.column(layer, which)] for layer in layers for which in (LOW, HIGH)
        ]
        half = 1 << (layout.table_bits - 1)
        rescaled_sums = np.arange(-half, half)
        self._table = [_words(device, rescaled_sums), _words(device, clamped(rescaled_sums))]
        self._counts = {
            layout.pair_counts: lookups.multiplicities(
                device, self._field, self._pairs, self._table
            ),
            layout.limb_counts: lookups.multiplicities(device, self._field, self._limbs, LIMBS),
        }
        table = np.zeros(
            (1 << layout.log_blocks, 1 << layout.log_block, self._field.modulus.words), np.uint32
        )
        for index, column in (words | self._counts).items():
            table[index, : len(column)] = column
        self._committed = device.upload(table.reshape(-1, self._field.modulus.words))
        # A row has the entries with the same upper coordinates, of all columns.
        blocks = table.reshape(
            len(table), -1, 1 << layout.log_block // 2, self._field.modulus.words
        )
        transposed = np.ascontiguousarray(blocks.transpose(1, 0, 2, 3))
        self._transposed_columns = device.upload(transposed.reshape(-1, self._field.modulus.words))
        writer = ProofWriter(self.transcript)
        self._committer.commit(self._committed, writer)
        self._parts.append(writer.getvalue())

    def lookup(self, statement: Lookup) -> LookupReduced:
        layout = self._layout
        if statement.table == LIMBS:
            proof = lookups.prove(
                self._device, self._field, self._limbs, LIMBS, self._counts[layout.limb_counts],
                transcript=self.transcript, allow_bits=0,
            )  # fmt: skip
        else:
            proof = lookups.prove(
                self._device, self._field, self._pairs, self._table,
                self._counts[layout.pair_counts], transcript=self.transcript, allow_bits=0,
            )  # fmt: skip
        self._parts.append(proof.data)
        return proof.reduced

    def values(self, point: Point, count: int) -> list[Plain]:
        low = self._layout.log_block // 2
        upper, lower = point[: len(point) - low], point[len(point) - low :]
        rows = weighted_rows(
            self._device, self._field, self._transposed_columns,
            coefficients_of(equalities(self._field, upper)), self._layout.log_blocks + low,
        )  # fmt: skip
        weights = equalities(self._field, lower)
        elements = PlainElement.from_coefficients(self._field, rows)
        values = [
            weighted(self._field, weights, elements[index << low : (index + 1) << low]).coefficients
            for index in range(count)
        ]
        writer = ProofWriter(self.transcript)
        writer.elements(Label.VALUES, self._field, values)
        self._parts.append(writer.getvalue())
        return values

    def inner(self, statement: Sumcheck, layer: int, rows: Point, images: Point) -> Reduced:
        layout, device = self._layout, self._device
        weights = equalities(self._field, rows)
        if layer < layout.hidden:
            multipliers = self._prover.key.multipliers[layer]
            padded = (*multipliers, *[0] * (len(weights) - len(multipliers)))
            weights = [w * m for w, m in zip(weights, padded, strict=True)]
        log_columns = layout.log_columns(layer)
        combined_weights = weighted_rows(
            device, self._field, self._prover._weights[layer], coefficients_of(weights), log_columns
        )
        inputs = self._columns[layout.column(layer - 1, OUTPUT)] if layer else self._inputs
        activations = device.upload(_words(device, inputs))
        combined_activations = weighted_rows(
            device, self._field, activations, coefficients_of(equalities(self._field, images)),
            log_columns,
        )  # fmt: skip
        tables = [
            elements_to_words(self._field, combined_weights),
            elements_to_words(self._field, combined_activations),
        ]
        return self._sumcheck(statement, tables)

    def row(self, statement: Sumcheck, layer: int, columns: Point) -> Reduced:
        device, log_rows = self._device, self._layout.log_rows(layer)
        multipliers = np.zeros(1 << log_rows, np.int64)
        layer_multipliers = self._prover.key.multipliers[layer]
        multipliers[: len(layer_multipliers)] = layer_multipliers
        weights = coefficients_of(equalities(self._field, columns))
        combined_weights = weighted_rows(
            device, self._field, self._prover._transposed[layer], weights, log_rows
        )
        tables = [_words(device, multipliers), elements_to_words(self._field, combined_weights)]
        return self._sumcheck(statement, tables)

    def _sumcheck(self, statement: Sumcheck, tables: list[Words]) -> Reduced:
        proof = sumchecks.prove(
            self._device,
            self._field,
            PRODUCT,
            tables,
            point=statement.point,
            transcript=self.transcript,
            allow_bits=0,
        )
        if proof.statement != statement:
            raise DeviceError(
                f"{self._device.name} computed another sum than is claimed; its memory or its "
                "driver may be faulty"
            )
        self._parts.append(proof.data)
        return proof.reduced

    def open_columns(self, claims: Sequence[Claim]) -> None:
        self._open(self._committer, claims)

    def open_weights(self, claims: Sequence[Claim]) -> None:
        self._open(self._prover._committer, claims)

    def _open(self, committer: Any, claims: Sequence[Claim]) -> None:
        for opening_claims in claims_by_opening(claims):
            writer = ProofWriter(self.transcript)
            committer.open(opening_claims, writer)
            self._parts.append(writer.getvalue())


def _padded(layout: ProofLayout, numbers: Numbers, log_columns: int, fill: int) -> Numbers:
    """Pad rows to 2**log_columns with `fill`, and repeat the last row up to a power of two."""
    table = np.full((1 << layout.log_images, 1 << log_columns), fill, np.int64)
    table[: len(numbers), : numbers.shape[1]] = numbers
    table[len(numbers) :] = table[len(numbers) - 1]
    return table


def _words(device: AnyDevice, numbers: Numbers) -> Words:
    """Convert integers of absolute value below p to elements in memory form: (numbers, words)."""
    modulus = FIELDS[0].modulus
    flat = np.ascontiguousarray(numbers, np.int64).reshape(-1)
    shifted = flat.astype(np.uint64)
    shifted[flat < 0] += np.uint64(modulus.value)
    words = shifted.view(np.uint32).reshape(-1, modulus.words)
    return words if modulus.montgomery_radix == 1 else to_montgomery(device, modulus, words)
