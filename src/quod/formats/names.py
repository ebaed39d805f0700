"""The name of a circuit, derived from the paths of its files."""

from __future__ import annotations

from pathlib import Path

# The generic names of keys in the instructions of circom and snarkjs.
_GENERIC = ("circuit", "key", "final", "zkey", "proving")


def circuit_name(zkey: Path) -> str:
    """Return a name for the circuit of a key: its file's name, without ``_0001`` or ``_final``.

    A generic file name such as ``circuit_final.zkey`` gives the name of its folder instead.
    """
    words = zkey.stem.split("_")
    while len(words) > 1 and (words[-1] == "final" or words[-1].isdecimal()):
        words.pop()
    name = "_".join(words)
    return (zkey.resolve().parent.name or name) if name.lower() in _GENERIC else name
