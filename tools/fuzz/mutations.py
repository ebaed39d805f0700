"""Mutations of well-formed input that follow its structure, so that they reach deep checks.

A mutation takes a generator of random numbers and a seed's bytes, and gives other bytes. Equal
generators give equal bytes.
"""

from __future__ import annotations

import json
import re
import struct
from collections.abc import Callable
from random import Random
from typing import Any

Mutation = Callable[[Random, bytes], bytes]

_EDGES = [0, 1, 2, 3, 7, 0x7F, 0x80, 0xFF, 2**16, 2**20, 2**31 - 1, 2**31, 2**32 - 8, 2**32 - 1]
_LENGTHS = [1, 2, 4, 8, 12, 32, 44, 64]
_DIGITS = [1, 9, 10, 20, 21, 78, 160, 161, 400, 4300, 4301, 5000]
_DEPTHS = [2, 8, 31, 33, 65, 300, 2000]
# What a repeated piece is made into: more than any limit on small seeds, less than takes long.
_MAX_BYTES = 1 << 16


def of_bytes(random: Random, data: bytes) -> bytes:
    """Flip bits, set integers to extremes, and delete, duplicate or invent pieces."""
    result = bytearray(data)
    for _ in range(random.choice((1, 1, 1, 2, 3, 6))):
        at, length = random.randrange(len(result) + 1), random.choice(_LENGTHS)
        match random.randrange(9):
            case 0:
                if at < len(result):
                    result[at] ^= 1 << random.randrange(8)
            case 1:
                result[at : at + 1] = bytes([random.choice((0, 0x7F, 0x80, 0xFF))])
            case 2:
                at -= at % 4
                result[at : at + 4] = struct.pack("<I", random.choice(_EDGES))
            case 3:
                result[at : at + 8] = struct.pack("<Q", 2**64 - 1 - random.randrange(4096))
            case 4:
                del result[at : at + length]
            case 5:
                result[at:at] = result[at : at + length]
            case 6:
                del result[at:]
            case 7:
                result[at:at] = random.randbytes(length)
            case 8:
                piece = bytes(result[at : at + length]) or b"\x80"
                result[at:at] = piece * random.choice((2, 100, _MAX_BYTES // length))
    return bytes(result)


def of_container(random: Random, data: bytes) -> bytes:
    """Damage, drop, duplicate or renumber the sections of an iden3 container.

    Its lengths agree with its bytes unless they are what is damaged.
    """
    if random.random() < 0.2:
        return of_bytes(random, data)
    kind, version, sections = _split(data)
    for _ in range(random.choice((1, 1, 2, 3))):
        index = random.randrange(len(sections)) if sections else 0
        match random.randrange(8) if sections else 7:
            case 0 | 1 | 2:
                number, content = sections[index]
                sections[index] = number, of_bytes(random, content)
            case 3:
                del sections[index]
            case 4:
                sections.insert(random.randrange(len(sections) + 1), sections[index])
            case 5:
                sections[index] = random.choice((0, 1, 2, 11, 2**32 - 1)), sections[index][1]
            case 6:
                random.shuffle(sections)
            case 7:
                sections += [(100 + i, b"") for i in range(random.choice((1, 300, 3000)))]
    parts = [struct.pack("<IQ", number, len(content)) + content for number, content in sections]
    count = len(parts) if random.random() < 0.95 else random.choice(_EDGES)
    return kind + struct.pack("<II", version, count) + b"".join(parts)


def _split(data: bytes) -> tuple[bytes, int, list[tuple[int, bytes]]]:
    kind, version, count = struct.unpack_from("<4sII", data)
    position, sections = 12, []
    for _ in range(count):
        number, length = struct.unpack_from("<IQ", data, position)
        position += 12 + length
        sections.append((number, data[position - length : position]))
    return kind, version, sections


def of_json(random: Random, data: bytes) -> bytes:
    """Change values, keys and lists of a JSON document, or its text so that it is not JSON."""
    if random.random() < 0.3:
        return of_text(random, data)
    document = [json.loads(data)]
    for _ in range(random.choice((1, 1, 2, 4))):
        holder, key = random.choice(_places(document))
        match random.randrange(4):
            case 0 | 1:
                holder[key] = _value(random)
            case 2:
                del holder[key]
            case 3:
                if isinstance(holder, list):
                    # Many of what is small only: what is repeated may be repeated again.
                    many = random.choice((1, 2, 300 if isinstance(holder[key], str) else 3))
                    holder[key:key] = [holder[key]] * many
                else:
                    holder[_text(random)] = holder[key]
        if not document:
            return b""
    text = json.dumps(document[0], ensure_ascii=random.random() < 0.5)
    return text.encode("utf-8", "surrogatepass")


def _places(value: Any) -> list[tuple[Any, Any]]:
    """Return every container of a document with each of its keys."""
    places: list[tuple[Any, Any]] = []
    pending = [value]
    while pending:
        holder = pending.pop()
        items = holder.items() if isinstance(holder, dict) else enumerate(holder)
        for key, inner in items:
            places.append((holder, key))
            if isinstance(inner, (dict, list)):
                pending.append(inner)
    return places


def _value(random: Random) -> Any:
    match random.randrange(9):
        case 0:
            return random.choice((None, True, False, 0, 1, -1, 2**64, 10**30, 0.5, float("nan")))
        case 1:
            return random.choice(("", "0", "-1", "+1", "00", "1e9", "0x1", " 1", "1\n", "٣"))
        case 2:
            return str(random.choice((1, 9))) * random.choice(_DIGITS)
        case 3:
            return str(random.getrandbits(random.choice((1, 64, 253, 254, 255, 381, 400))))
        case 4:
            return _text(random)
        case 5:
            value: Any = []
            for _ in range(random.choice((1, 2, 31, 33, 200))):
                value = [value] if random.random() < 0.5 else {"a": value}
            return value
        case 6:
            return [str(random.randrange(10)) for _ in range(random.randrange(5))]
        case 7:
            return {}
        case _:
            return random.choice(("groth16", "plonk", "bn128", "bls12381", "goldilocks"))


def _text(random: Random) -> str:
    alphabet = '"\\[]{}:,aé\0\n\u202e\ud800\udfff\U0001f512'
    return "".join(random.choice(alphabet) for _ in range(random.choice((1, 3, 10))))


_TOKENS = re.compile(r"\s+|\w+|.", re.DOTALL)


def of_text(random: Random, data: bytes) -> bytes:
    """Drop, duplicate, swap or replace tokens and lines; nest brackets; lengthen numbers."""
    tokens = _TOKENS.findall(data.decode("utf-8", "replace")) or [" "]
    for _ in range(random.choice((1, 1, 2, 4))):
        at = random.randrange(len(tokens))
        match random.randrange(9):
            case 0:
                del tokens[at : at + random.choice((1, 1, 2, 10, 10**6))]
            case 1:
                tokens.insert(at, tokens[at])
            case 2:
                tokens[at] = random.choice(tokens)
            case 3:
                other = random.randrange(len(tokens))
                tokens[at], tokens[other] = tokens[other], tokens[at]
            case 4:
                tokens[at] = random.choice("019") * random.choice(_DIGITS)
            case 5:
                opening = random.choice(("{", "[", "(", "ptr<", "/*", '"', "%a: u32 = if %b {"))
                tokens[at:at] = [opening] * random.choice(_DEPTHS)
            case 6:
                length = random.choice((1, 5, 40))
                piece = tokens[at : at + length]
                tokens[at:at] = piece * random.choice((1, 10, 100))
            case 7:
                tokens[at] = random.choice(("-", "%", "@", '"', "\\", "\0", "\n", "\u2028", "٣"))
            case 8:
                return of_bytes(random, "".join(tokens).encode("utf-8", "surrogatepass"))
        tokens = tokens or [" "]
    return "".join(tokens).encode("utf-8", "surrogatepass")[: 4 * _MAX_BYTES]
