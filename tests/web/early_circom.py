"""A witness calculator as the first releases of circom 2 made them, out of one of today.

They export neither `getInputSignalSize` nor `getInputSize`, and some import their memory.
(WebAssembly core specification 2.0, section 5.)
"""

from __future__ import annotations

_IMPORTS, _MEMORIES, _EXPORTS = 2, 5, 7
_MEMORY = 2


def early_calculator(content: bytes, own_memory: bool) -> bytes:
    """The module without those exports; without `own_memory` it imports env.memory."""
    sections = _sections(content)
    exports = sections[_EXPORTS]
    for name in (b"getInputSignalSize", b"getInputSize"):
        assert name in exports
        exports = exports.replace(name, b"x" + name[1:])
    sections[_EXPORTS] = exports
    if not own_memory:
        memories = sections.pop(_MEMORIES)
        assert memories[0] == 1
        count, at = _number(sections[_IMPORTS], 0)
        memory = b"\x03env\x06memory" + bytes([_MEMORY]) + memories[1:]
        sections[_IMPORTS] = _encoded(count + 1) + memory + sections[_IMPORTS][at:]
    parts = [bytes([kind]) + _encoded(len(data)) + data for kind, data in sections.items()]
    return content[:8] + b"".join(parts)


def _sections(content: bytes) -> dict[int, bytes]:
    sections, at = {}, 8
    while at < len(content):
        size, start = _number(content, at + 1)
        sections[content[at]] = content[start : start + size]
        at = start + size
    return sections


def _number(data: bytes, at: int) -> tuple[int, int]:
    value = shift = 0
    while True:
        value |= (data[at] & 0x7F) << shift
        shift, at = shift + 7, at + 1
        if data[at - 1] < 0x80:
            return value, at


def _encoded(value: int) -> bytes:
    high_bits = value >> 7
    return bytes([value & 0x7F | 0x80]) + _encoded(high_bits) if high_bits else bytes([value])
