"""Descriptions of files of keys and of proven inferences."""

from __future__ import annotations

from quod.inference.files import key as key_file
from quod.inference.files import proof as proof_file
from quod.inference.statement import error_terms
from quod.security import bits_of


def describe_file(data: memoryview, name: str) -> dict[str, object] | None:
    """Describe a file by facts in display order; None if it is not a file of inferences.

    ``file``, ``kind`` and ``bytes`` are always present. InputError for a malformed file, as for
    reading it.
    """
    kind = bytes(data[:4])
    description: dict[str, object]
    if kind == key_file.KIND.encode():
        key = key_file.parse_verifying_key(data, name)
        description = {
            "kind": "verifying key of an inference (qivk)",
            "widths": list(key.widths),
            "table_bits": key.table_bits,
            "field": key.field.name,
            "bits_of_one_image": bits_of(error_terms(key, 1).values()),
            "root": key.root.hex(),
            "digest": key.digest.hex(),
            "weights_proof_bytes": len(key.weights_proof),
        }
    elif kind == proof_file.KIND.encode():
        proof = proof_file.parse_proof(data, name)
        description = {
            "kind": "proof of inferences (qinp)",
            "key": proof.key.hex(),
            "images": proof.logits.shape[0],
            "logits": proof.logits.shape[1],
            "proof_bytes": len(proof.proof),
            "zero_knowledge": False,
        }
    else:
        return None
    return {"file": name, "kind": description.pop("kind"), "bytes": len(data), **description}
