"""Kernels over the gates of a layer: its values, and the sumcheck tables of both phases.

Entries are ordered by proof, then by wire of the layer, then by instance of the circuit: entry
(((proof << log_size) + wire) << log_instances) + instance. In the second phase the instance
variables are bound already, so entries have no instance. Weights are the combined eq weights of the
claims about the layer: one per proof and output wire.
"""

from __future__ import annotations

from typing import Any

from quod.gkr.prover.gates import (
    Coefficients,
    GateForm,
    GateTable,
    LayerSizes,
    added_gates,
    bounded,
    power,
)
from quod.kernel import U32, Builder, Pointer, kernel, u32
from quod.kernel.ir.value import Value
from quod.layered.circuit import POWERS


@kernel
def layer_values(
    k: Builder,
    n: U32,
    sizes: LayerSizes,
    gates: GateTable,
    below: Pointer[U32],
    values: Pointer[U32],
    *,
    form: GateForm,
) -> None:
    """Compute n values of a layer from the values below it."""
    coefficients = Coefficients(k, form, gates)
    mixed = coefficients.mixed
    f = mixed.base if form.below_is_base and not form.has_random else mixed.extended
    i = k.global_id()
    with k.if_(i < n):
        proof, wire, instance = _indices_of_entry(k, i, sizes.log_size, sizes.log_instances)
        below_field = mixed.base if form.below_is_base else mixed.extended

        def value(input_wire: Value) -> Any:
            entry = (((proof << sizes.log_below) + input_wire) << sizes.log_instances) + instance
            return below_field.bounded(below_field.load(below, entry))

        def gate_term(kind: str, *row: Value) -> Any:
            *inputs, code = row
            product = coefficients.load(code, proof, instance)
            for input_wire in inputs:
                product = bounded(
                    mixed,
                    mixed.multiply(
                        product, power(below_field, value(input_wire), POWERS.get(kind, 1))
                    ),
                )
            return product

        total = added_gates(
            mixed, f, form.kinds, gates, wire, k.constant(1, u32) << sizes.log_size, gate_term
        )
        f.store(values, i, total)


@kernel
def first_phase(
    k: Builder,
    n: U32,
    first: U32,
    sizes: LayerSizes,
    gates: GateTable,
    below: Pointer[U32],
    weights: Pointer[U32],
    table: Pointer[U32],
    *,
    form: GateForm,
) -> None:
    """Compute the table of the first phase: n entries, stored from entry `first` of `table` on.

    The entry of wire x is a sum over the gates whose first input is x: the gate's coefficient times
    the weight of its output and, for a product gate, the value of its second input. The input of a
    power gate is raised in the rounds, not here.
    """
    coefficients = Coefficients(k, form, gates)
    mixed, f = coefficients.mixed, coefficients.mixed.extended
    i = k.global_id()
    with k.if_(i < n):
        proof, wire, instance = _indices_of_entry(k, i, sizes.log_below, sizes.log_instances)
        below_field = mixed.base if form.below_is_base else f

        def gate_term(_kind: str, *row: Value) -> Any:
            output, *inputs, code = row
            product = coefficients.load(code, proof, instance)
            for second_input in inputs:
                entry = (
                    ((proof << sizes.log_below) + second_input) << sizes.log_instances
                ) + instance
                product = bounded(
                    mixed,
                    mixed.multiply(product, below_field.bounded(below_field.load(below, entry))),
                )
            return mixed.multiply(f.load(weights, (proof << sizes.log_size) + output), product)

        total = added_gates(
            mixed, f, form.kinds, gates, wire, k.constant(1, u32) << sizes.log_below, gate_term
        )
        f.store(table, first + i, total)


@kernel
def second_phase(
    k: Builder,
    n: U32,
    first: U32,
    log_size: U32,
    log_below: U32,
    gates: GateTable,
    at_x: Pointer[U32],
    weights: Pointer[U32],
    table: Pointer[U32],
    *,
    form: GateForm,
) -> None:
    """Compute the table of the second phase: n entries, stored from entry `first` of `table` on.

    The entry of wire y is a sum over the product gates whose second input is y: the gate's
    coefficient times the weight of its output times `at_x` of its first input.
    at_x: the eq table of the first sumcheck's point, 2**log_below elements per proof.
    """
    i, size = k.global_id(), k.constant(1, u32) << log_below
    proof, wire = i >> log_below, i & (size - 1)
    coefficients = Coefficients(k, form, gates)
    mixed, f = coefficients.mixed, coefficients.mixed.extended
    with k.if_(i < n):

        def gate_term(_kind: str, *row: Value) -> Any:
            output, first_input, code = row
            weight = f.load(weights, (proof << log_size) + output)
            product = f.bounded(weight * f.load(at_x, (proof << log_below) + first_input))
            # Public inputs that are factors are the same in all instances (`Statement`).
            return mixed.multiply(product, coefficients.load(code, proof, k.constant(0, u32)))

        f.store(table, first + i, added_gates(mixed, f, form.kinds, gates, wire, size, gate_term))


def _indices_of_entry(
    k: Builder, i: Value, log_size: Value, log_instances: Value
) -> tuple[Value, Value, Value]:
    """Return the indices of the proof, the wire and the instance of entry i of a layer."""
    one = k.constant(1, u32)
    row = i >> log_instances
    return row >> log_size, row & ((one << log_size) - 1), i & ((one << log_instances) - 1)
