"""Descriptions of files: the kind, the curve and the sizes."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from math import prod
from typing import Any

import numpy as np

from quod.curve.named import CURVES
from quod.errors import InputError
from quod.formats import bellman, ptau, r1cs, wtns
from quod.formats.curves import field_rows
from quod.formats.gguf import file as gguf
from quod.formats.gguf.metadata import shown_metadata
from quod.formats.iden3 import Iden3File
from quod.formats.snarkjs_json import (
    PROTOCOL,
    parse_proof,
    parse_public,
    parse_verification_key,
)
from quod.formats.source import Path, check_length, is_pipe, map_file
from quod.formats.strict_json import ANY, parse_json, read_json
from quod.formats.zkey import file as zkey
from quod.formats.zkey import header as zkey_header
from quod.validation import file_path

_OTHER_PROTOCOLS = [name for name in zkey_header.PROTOCOLS.values() if name != PROTOCOL]
_ONLY_GROTH16 = "Quod proves and verifies Groth16 only; use snarkjs with this file"

# The number of values of a witness that are classified in one step.
_CHUNK_VALUES = 1 << 16
# The number of bytes that are searched for the first bracket of a document.
_START_BYTES = 64


def describe(path: Path) -> dict[str, object]:
    """Describe the file at `path` as a mapping in display order.

    It always has ``file``, ``kind`` and ``bytes``; the other rows depend on the kind. The file is
    checked as if it were opened. A pipe may have at most 32 MiB. Raises `InputError` for a file of
    unknown kind.
    """
    name = file_path(path)
    return describe_bytes(contents(name), name)


def contents(path: Path) -> memoryview:
    """Return the bytes that `describe` reads: a map of a file, or the contents of a pipe."""
    return memoryview(read_json(path, ANY)) if is_pipe(path) else map_file(path)


def describe_bytes(data: memoryview, name: str) -> dict[str, object]:
    """Describe bytes in memory as `describe` does; `name` stands for the path in errors."""
    kind = bytes(data[:4]).decode("latin-1")
    if kind in _BINARY:
        version, reader = _BINARY[kind]
        description = reader(Iden3File.parse(data, name, kind, version))
    elif kind == gguf.MAGIC:
        description = _gguf(gguf.Gguf.parse(data, name))
    elif bellman.begins_as_bellman_key(data):
        description = _bellman(bellman.bellman_key(data, name))
    else:
        description = _json(data, name)
    return {"file": name, "kind": description.pop("kind"), "bytes": len(data), **description}


def _zkey(file: Iden3File) -> dict[str, object]:
    header, section = zkey_header.read_zkey_header(file)
    common: dict[str, object] = {
        "kind": f"{header.protocol} proving key (zkey)",
        "protocol": header.protocol,
        "curve": header.curve.name,
    }
    if header.protocol != PROTOCOL:
        section.u32("the count of additions")
        return common | {
            "constraints": section.u32("the count of constraints"),
            "domain_size": header.domain_size,
            "public": header.public,
            "variables": header.variables,
            "note": _ONLY_GROTH16,
            "sections": _section_bytes(file),
        }
    key = zkey.Zkey.of(file)
    return common | {
        "constraints": key.constraints,
        "domain_size": key.domain_size,
        "log2_domain": key.log2_domain,
        "public": key.public,
        "variables": key.variables,
        "coefficients": len(key.coefficients),
        "contributions": key.contributions,
        "circuit_hash": None if key.circuit_hash is None else key.circuit_hash.hex(),
        "sections": _section_bytes(file),
    }


def _wtns(file: Iden3File) -> dict[str, object]:
    witness = wtns.Witness.of(file)
    bit_count = one_word_count = 0
    for start in range(0, len(witness), _CHUNK_VALUES):
        values = witness.values[start : start + _CHUNK_VALUES]
        has_one_word = (values[:, 1:] == 0).all(axis=1)
        one_word_count += int(np.count_nonzero(has_one_word))
        bit_count += int(np.count_nonzero(has_one_word & (values[:, 0] < 2)))
    return {
        "kind": "witness (wtns)",
        **field_rows(witness.curve),
        "values": len(witness),
        "zeros_and_ones": bit_count,
        "below_2**32": one_word_count,
    }


def _r1cs(file: Iden3File) -> dict[str, object]:
    system = r1cs.R1cs.of(file)
    return {
        "kind": "constraint system (r1cs)",
        **field_rows(system.curve),
        "constraints": system.constraints,
        "wires": system.wires,
        "public_outputs": system.public_outputs,
        "public_inputs": system.public_inputs,
        "private_inputs": system.private_inputs,
        "labels": system.labels,
        "nonzeros": {
            "a": system.a.nonzeros,
            "b": system.b.nonzeros,
            "c": system.c.nonzeros,
        },
    }


def _bellman(key: bellman.BellmanVerifyingKey | bellman.BellmanParameters) -> dict[str, object]:
    common: dict[str, object] = {
        "kind": "bellman verifying key",
        "protocol": PROTOCOL,
        "curve": bellman.CURVE.name,
        "public": key.public,
    }
    if isinstance(key, bellman.BellmanVerifyingKey):
        return common
    return common | {
        "kind": "bellman proving key (parameters)",
        "domain_size": len(key.points["h"]) + 1,
        "variables": key.public + 1 + len(key.points["l"]),
        "points": {name: len(key.points[name]) for name in bellman.LISTS},
        "contributions": key.contributions,
        "circuit_hash": None if key.circuit_hash is None else key.circuit_hash.hex(),
    }


def _gguf(file: gguf.Gguf) -> dict[str, object]:
    by_type: dict[str, int] = {}
    tensors = file.tensors.values()
    for tensor in tensors:
        if not tensor.type.is_known:
            continue
        by_type[tensor.type.name] = by_type.get(tensor.type.name, 0) + len(tensor.data)
    return {
        "kind": "model (gguf)",
        "version": file.version,
        "alignment": file.alignment,
        "data_offset": file.data_offset,
        "parameters": sum(prod(tensor.shape) for tensor in tensors),
        "bytes_by_type": by_type,
        "metadata": {key: shown_metadata(value) for key, value in file.metadata.items()},
        "tensors": {
            tensor.name: {
                "type": tensor.type.name,
                "shape": " x ".join(map(str, tensor.shape)) or "1",
                "bytes": len(tensor.data) if tensor.type.is_known else None,
                "offset": tensor.offset,
            }
            for tensor in tensors
        },
    }


def _ptau(file: Iden3File) -> dict[str, object]:
    header = ptau.read_ptau_header(file)
    return {
        "kind": "powers of tau (ptau)",
        "curve": header.curve.name,
        "log2_powers": header.power,
        "log2_ceremony_powers": header.ceremony_power,
        "prepared": ptau.is_prepared(file),
        "sections": _section_bytes(file),
    }


_BINARY: dict[str, tuple[int, Callable[[Iden3File], dict[str, object]]]] = {
    zkey.KIND: (zkey.VERSION, _zkey),
    wtns.KIND: (wtns.VERSION, _wtns),
    r1cs.KIND: (r1cs.VERSION, _r1cs),
    ptau.KIND: (ptau.VERSION, _ptau),
}


def _json(data: memoryview, path: str) -> dict[str, object]:
    try:
        # If the file exceeds the limit, only its start is read.
        content = bytes(data[: ANY.max_bytes if len(data) <= ANY.max_bytes else _START_BYTES])
        check_length(len(data), ANY.max_bytes, ANY.what, path)
        document: Any = parse_json(content, path, ANY)
    except InputError as error:
        if content[:_START_BYTES].lstrip()[:1] in (b"{", b"["):
            raise
        raise InputError(
            "is not a file that Quod knows (zkey, wtns, r1cs, ptau, gguf, JSON, "
            "bellman's keys); check that the right file was given",
            path=path,
            offset=0 if error.offset is None else error.offset,
        ) from error
    if isinstance(document, list):
        fits = _fitting_curves(lambda curve: parse_public(content, curve=curve, name=path))
        if fits:
            return {
                "kind": "public inputs (public.json)",
                "public": len(document),
                "fits": fits,
            }
    elif isinstance(document, dict) and document.get("protocol") in _OTHER_PROTOCOLS:
        kind = "verifying key" if "nPublic" in document else "proof"
        return {
            "kind": f"{document['protocol']} {kind} (JSON)",
            "protocol": document["protocol"],
            "note": _ONLY_GROTH16,
        }
    elif isinstance(document, dict) and "pi_a" in document:
        # A proof that does not name its curve may still be valid.
        is_named = "curve" in document
        fits = _fitting_curves(lambda curve: parse_proof(content, curve=curve, name=path))
        # For a proof that fits no curve, the error for one of them is reported.
        assumed = None if is_named else [*fits, *CURVES][0]
        proof = parse_proof(content, curve=assumed, name=path)
        return {
            "kind": "proof (proof.json)",
            "protocol": PROTOCOL,
            "curve": proof.curve if is_named else None,
            **({} if is_named else {"fits": fits}),
        }
    elif isinstance(document, dict) and "IC" in document:
        key = parse_verification_key(content, name=path)
        return {
            "kind": "verifying key (verification_key.json)",
            "protocol": PROTOCOL,
            "curve": key.curve,
            "public": key.public,
        }
    raise InputError(
        "is JSON, but not a proof, a verification key or a list of public inputs; "
        "check that the right file was given",
        path=path,
    )


def _fitting_curves(read: Callable[[str], object]) -> list[str]:
    """Return the curves over which `read` accepts the file."""
    fitting = []
    for name in CURVES:
        with contextlib.suppress(InputError):
            read(name)
            fitting.append(name)
    return fitting


def _section_bytes(file: Iden3File) -> dict[str, int]:
    return {str(number): section.length for number, section in sorted(file.sections.items())}
