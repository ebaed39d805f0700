"""What a circuit is called, from where its files are."""

from __future__ import annotations

from pathlib import Path

# How circom's and snarkjs's instructions name the key of any circuit.
_GENERIC = ("circuit", "key", "final", "zkey", "proving")


def circuit_name(zkey: Path) -> str:
    """A name for the circuit of a key: that of its file, without ``_0001`` or ``_final``.

    Where the file is called as any key may be, ``circuit_final.zkey``, it is its folder's.
    """
    words = zkey.stem.split("_")
    while len(words) > 1 and (words[-1] == "final" or words[-1].isdecimal()):
        words.pop()
    name = "_".join(words)
    return (zkey.resolve().parent.name or name) if name.lower() in _GENERIC else name
