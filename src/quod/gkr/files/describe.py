"""Descriptions of files of circuits, keys, proofs and inputs, for display."""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Any

from quod.commitment.scheme import Scheme
from quod.errors import InputError
from quod.field.spec import FieldSpec
from quod.formats.circuit6.file import MAGIC, MAX_TOTAL, Circuit6
from quod.formats.circuit6.witness import Circuit6Witness, is_circuit6_witness
from quod.formats.strict_json import parse_json
from quod.gkr.files import proof as proof_file
from quod.gkr.files.inputs import INPUTS
from quod.gkr.files.key import FORMAT, parse_verifying_key
from quod.gkr.files.proof import parse_proof
from quod.gkr.reduction import Reduction
from quod.gkr.security import error_terms, log_instances, security_bits
from quod.gkr.size import layer_bytes
from quod.hash.table import Hash
from quod.layered import file as circuit_file
from quod.layered.circuit import KINDS, LayeredCircuit
from quod.layered.file import parse_circuit

# The first bracket of a document must be within this number of bytes.
_LEADING_SPACE = 64


def describe_file(data: memoryview, name: str) -> dict[str, object] | None:
    """Describe a file in the order of display; return None for files of other parts of Quod.

    The keys ``file``, ``kind`` and ``bytes`` are always present. Raises InputError where reading
    the file would.
    """
    description = _described(data, name)
    if description is None:
        return None
    return {"file": name, "kind": description.pop("kind"), "bytes": len(data), **description}


def _described(data: memoryview, name: str) -> dict[str, object] | None:
    magic = bytes(data[: len(MAGIC)])
    if magic == MAGIC:
        return _circuit6(Circuit6.parse(data, name))
    if magic[:4] == circuit_file.KIND.encode():
        circuit = parse_circuit(data, name)
        return {"kind": "layered circuit (qcir)", **circuit_summary(circuit)}
    if magic[:4] == proof_file.KIND.encode():
        proof = parse_proof(data, name)
        return {
            "kind": "proof of a layered circuit (qgkp)",
            "circuit": proof.circuit.hex(),
            "instances": proof.instances,
            **proof.kind,
            "proof_bytes": len(proof.proof),
            "zero_knowledge": False,
        }
    if is_circuit6_witness(data):
        witness = Circuit6Witness.parse(data, name)
        return {
            "kind": "witness (Expander)",
            "field": witness.field.name,
            "instances": len(witness),
            "inputs": witness.private.shape[1],
            "public": witness.public.shape[1],
        }
    return _json(data, name)


def _json(data: memoryview, name: str) -> dict[str, object] | None:
    first = bytes(data[:_LEADING_SPACE]).lstrip()[:1]
    if first not in (b"{", b"[") or len(data) > INPUTS.max_bytes:
        return None
    content = bytes(data)
    if first == b"[":
        return _public_inputs(content, name)
    if FORMAT.split(" verifying", maxsplit=1)[0].encode() in content[: 1 << 16]:
        file = parse_verifying_key(content, name)
        return {
            "kind": "verifying key of a layered circuit (JSON)",
            "circuit": file.key.circuit.hex(),
            "field": file.key.field.name,
            "commitment": file.key.commitment.parameters(),
            "chain": file.key.chain,
            "random_coefficients": file.key.randoms,
            "bits": file.key.bits,
            "hash": file.key.hash.value,
            "reduction": file.key.reduction.value,
            "public": file.public,
            "zeros": file.zeros,
        }
    if b'"inputs"' not in content:
        return None
    document: Any = parse_json(content, name, INPUTS)
    if not isinstance(document, dict) or "inputs" not in document:
        return None
    shapes: dict[str, object] = {}
    for key in ("inputs", "public"):
        rows = document.get(key, [])
        if not isinstance(rows, list):
            raise InputError("must be a list", path=name, section=key)
        nested = bool(rows) and isinstance(rows[0], list)
        if key == "inputs":
            shapes["instances"] = len(rows) if nested else 1
        shapes[key] = len(rows[0] if nested else rows)
    return {"kind": "inputs of a layered circuit (JSON)", **shapes}


def _public_inputs(content: bytes, name: str) -> dict[str, object] | None:
    """Describe a list of lists of public inputs; None for a flat list, as Groth16 has."""
    rows: Any = parse_json(content, name, INPUTS)
    if not rows or not all(isinstance(row, list) for row in rows):
        return None
    return {
        "kind": "public inputs of a layered circuit (JSON)",
        "instances": len(rows),
        "public": len(rows[0]),
    }


def _circuit6(circuit: Circuit6) -> dict[str, object]:
    segments = circuit.segments
    return {
        "kind": "layered circuit (Expander, CIRCUIT6)",
        "field": circuit.field.name,
        "inputs": segments[circuit.layers[0]].inputs,
        "public": circuit.public,
        "outputs": circuit.outputs,
        "zeros": circuit.zeros,
        "layers": len(circuit.layers),
        "segments": len(segments),
        "gates": {
            kind: f"2**{MAX_TOTAL.bit_length() - 1} or more" if count >= MAX_TOTAL else count
            for kind, count in circuit.gates().items()
        },
        "random_coefficients": circuit.randoms(),
        "provable": circuit.field.modulus is not None and circuit.zeros > 0,
    }


def circuit_summary(circuit: LayeredCircuit) -> dict[str, object]:
    """Return the counts of a circuit, in the order of display."""
    return {
        "field": circuit.field.name,
        "digest": circuit.digest.hex(),
        "inputs": 1 << circuit.log_inputs,
        "public": circuit.public,
        "outputs": 1 << circuit.log_outputs,
        "zeros": circuit.zeros,
        "layers": len(circuit.layers),
        "gates": {kind: sum(len(layer.gates[kind]) for layer in circuit.layers) for kind in KINDS},
        "coefficients": len(circuit.coefficients),
        "random_coefficients": circuit.randoms,
    }


def layer_rows(circuit: LayeredCircuit) -> list[dict[str, int]]:
    """Return for each layer its number of values, and its number of gates of each kind."""
    return [
        {"values": 1 << layer.log_size, **{kind: len(layer.gates[kind]) for kind in KINDS}}
        for layer in circuit.layers
    ]


def soundness_summary(
    circuit: LayeredCircuit, field: FieldSpec, commitment: Scheme, instances: int,
    hash: Hash = Hash.SHA3_256, reduction: Reduction = Reduction.TWO_PHASE,
) -> dict[str, object]:  # fmt: skip
    """Return each error term as a power of two, the bits of the sum, and the length of proofs.

    The lengths are those of both reductions, without the commitment.
    """
    parameters: dict[str, Any] = {
        "instances": instances, "commitment": commitment, "hash": hash, "reduction": reduction,
    }  # fmt: skip
    terms, bits = (
        error_terms(circuit, field, **parameters),
        security_bits(circuit, field, **parameters),
    )
    return {
        "challenges": field.name,
        "commitment": commitment.parameters(),
        "hash": hash.value,
        "instances": instances,
        "reduction": reduction.value,
        "error_terms": {cause: f"2**{_log2(term):.1f}" for cause, term in terms.items()},
        "bits": bits,
        "bytes_of_layers": {
            each.value: layer_bytes(circuit, field, instances, each) for each in Reduction
        },
        "zero_knowledge": False,
    }


def value_bytes(circuit: LayeredCircuit, field: FieldSpec, instances: int) -> int:
    """Return the device bytes of all layers' values; a prover needs a few times as much.

    Values above a random coefficient are in the field of challenges.
    """
    total = circuit.field.bytes << circuit.log_inputs
    element_bytes = circuit.field.bytes
    for layer in circuit.layers:
        coefficient_indices = [gates.coefficient for gates in layer.gates.values()]
        if any(circuit.is_random[indices].any() for indices in coefficient_indices):
            element_bytes = 4 * field.words
        total += element_bytes << layer.log_size
    return total << log_instances(instances)


def _log2(term: Fraction) -> float:
    """Return log2 of a fraction, which may be too small for a float."""
    return math.log2(term.numerator) - math.log2(term.denominator)
