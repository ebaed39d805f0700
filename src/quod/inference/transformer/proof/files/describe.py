"""Descriptions of keys of language models and of proven answers."""

from __future__ import annotations

from quod.inference.transformer.proof.files import answer as answer_file
from quod.inference.transformer.proof.files import key as key_file


def describe_file(data: memoryview, name: str) -> dict[str, object] | None:
    """Describe a file by facts in display order; None if it is neither a key nor an answer.

    ``file``, ``kind`` and ``bytes`` are always present. InputError for a malformed file, as for
    reading it.
    """
    kind = bytes(data[:4])
    description: dict[str, object]
    if kind == key_file.KIND.encode():
        key = key_file.parse_key(data, name)
        description = {
            "kind": "verifying key of a language model (qtvk)",
            "layers": key.layers,
            "width": key.width,
            "hidden_width": key.hidden,
            "heads": key.heads,
            "key_value_heads": key.kv_heads,
            "context": key.context,
            "tokens": key.vocabulary,
            "log2_committed": {name: part.log2_size for name, part in key.weights.items()},
            "sha256_of_model": key.model.hex(),
            "roots": {name: root.hex() for name, root in key.roots.items()},
            "digest": key.digest.hex(),
        }
    elif kind == answer_file.KIND.encode():
        answer = answer_file.parse_answer(data, name)
        statement = answer.statement
        description = {
            "kind": "answer of a language model with its proof (qtip)",
            "key": answer.key.hex(),
            "prompt_tokens": statement.prompt,
            "answer_tokens": len(statement.chosen),
            "proof_bytes": len(answer.proof),
            "zero_knowledge": False,
        }
    else:
        return None
    return {"file": name, "kind": description.pop("kind"), "bytes": len(data), **description}
