"""Export of a proving key to the JSON of ``snarkjs zkey export json``, with numbers as strings.

The points of h are named `hExps`. The list C begins with a null for the constant and each public
variable, so that it is as long as A. Values of `ccoefs` are canonical integers.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from itertools import chain, repeat
from os import PathLike
from typing import Any, BinaryIO

import numpy as np

from quod.curve.array import to_points
from quod.curve.groups import GROUPS
from quod.field.array import Words, to_integers
from quod.formats import write_atomically
from quod.formats.json_text import write_json_list
from quod.formats.snarkjs_json import point_strings
from quod.formats.zkey.file import Zkey

_SINGLE = {"alpha": (1,), "beta": (1, 2), "gamma": (2,), "delta": (1, 2)}
_LISTS = {"A": ("a", 1), "B1": ("b_g1", 1), "B2": ("b_g2", 2), "C": ("c", 1), "hExps": ("h", 1)}

# The number of points or entries that are converted to integers at a time.
_CHUNK = 1 << 14


def export_json(source: str | PathLike[str], target: str | PathLike[str]) -> None:
    """Write the key `source` as JSON to `target`.

    Raises InputError for a key that is damaged, has a coordinate that is not below q or a point at
    infinity where none can be; raises OutputError if the file cannot be written. Does not check
    that points are on the curve, or that the key is secure.
    """
    zkey = Zkey.open(source)
    zkey.check_points()

    def write(file: BinaryIO) -> None:
        zkey_to_json(zkey, file)
        zkey.check_unchanged()

    write_atomically(target, write)


def zkey_to_json(zkey: Zkey, file: BinaryIO) -> None:
    """Write a key to an open file."""
    head: dict[str, Any] = {
        "protocol": "groth16",
        "n8q": zkey.fq.bytes,
        "q": str(zkey.fq.value),
        "n8r": zkey.fr.bytes,
        "r": str(zkey.fr.value),
        "nVars": zkey.variables,
        "nPublic": zkey.public,
        "domainSize": zkey.domain_size,
        "power": zkey.log2_domain,
    }
    for name, degrees in _SINGLE.items():
        for degree in degrees:
            points: Words = getattr(zkey, f"{name}_g{degree}")
            (head[f"vk_{name}_{degree}"],) = _points(zkey, points[None], degree)
    file.write(json.dumps(head, indent=1)[:-2].encode())
    _write(file, "IC", _points(zkey, zkey.ic, 1))
    _write(file, "ccoefs", _entries(zkey))
    for name, (attribute, degree) in _LISTS.items():
        items = _points(zkey, getattr(zkey, attribute), degree)
        nulls = repeat(None, zkey.public + 1)
        _write(file, name, chain(nulls, items) if name == "C" else items)
    file.write(b"\n}")


def _write(file: BinaryIO, name: str, items: Iterator[Any]) -> None:
    write_json_list(file, name, (json.dumps(item, indent=1) for item in items))


def _points(zkey: Zkey, points: Words, degree: int) -> Iterator[Any]:
    group = GROUPS[f"{zkey.curve}.g{degree}"]
    for start in range(0, len(points), _CHUNK):
        for point in to_points(group, np.array(points[start : start + _CHUNK])):
            yield point_strings(point, degree, "a point", zkey.fq)


def _entries(zkey: Zkey) -> Iterator[Any]:
    """Yield the entries of section 4, with canonical values as decimal strings."""
    fr = zkey.fr
    # The file has value * R**2, of which `to_integers` removes one factor R.
    inverse_radix = pow(fr.montgomery_radix, -1, fr.value)
    for start in range(0, len(zkey.coefficients), _CHUNK):
        chunk = zkey.coefficients[start : start + _CHUNK]
        values = to_integers(fr, np.ascontiguousarray(chunk["value"]))
        index_lists = (chunk[name].tolist() for name in ("matrix", "constraint", "signal"))
        for matrix, constraint, signal, value in zip(*index_lists, values, strict=True):
            yield {
                "matrix": matrix, "constraint": constraint, "signal": signal,
                "value": str(value * inverse_radix % fr.value),
            }  # fmt: skip
