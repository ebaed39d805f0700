"""Generate ``runtime/curves.js``, the curves of the browser's runtime, from `quod.curve.named`.

To regenerate the file: python -m quod.web.curve_table > src/quod/web/runtime/curves.js
"""

from __future__ import annotations

import sys

from quod.curve.named import CURVES
from quod.curve.parameters import Fq2Element, PairingCurve


def render() -> str:
    """Return the text of the file; it has the curves with u^2 = -1, the Fq2 of the runtime."""
    curves = [curve for curve in CURVES.values() if curve.tower.fq2_non_residue == -1]
    return (
        "// Written by python -m quod.web.curve_table from quod.curve.named.\n\n"
        '/** @typedef {import("./field.js").Fq2} Fq2 */\n\n'
        "export const sources = {\n" + "".join(map(_source, curves)) + "};\n"
    )


def _source(curve: PairingCurve) -> str:
    aliases = ", ".join(f'"{name}"' for name in curve.aliases)
    x, y = (f"      {_fq2(coordinate)},\n" for coordinate in curve.g2.generator)
    return (
        f"  {curve.name}: {{\n"
        f'    snarkjs: "{curve.snarkjs_name}",\n'
        f"    aliases: /** @type {{string[]}} */ ([{aliases}]),\n"
        f'    family: /** @type {{const}} */ ("{curve.family.value}"),\n'
        f"    q: {_big(curve.fq.value)},\n"
        f"    r: {_big(curve.fr.value)},\n"
        f"    x: {_big(curve.x)},\n"
        f"    xi: /** @type {{Fq2}} */ ({_fq2(curve.tower.fq6_non_residue)}),\n"
        f"    b: {_big(curve.g1.b)},\n"
        f"    generator1: {_big(curve.g1.generator[0])},\n"
        f"    generator2: /** @type {{[Fq2, Fq2]}} */ ([\n{x}{y}    ]),\n"
        f"    bytes: {curve.fq.bytes},\n"
        "  },\n"
    )


def _big(number: int) -> str:
    return f"{number}n" if abs(number) < 16 else f"{number:#x}n"


def _fq2(element: Fq2Element) -> str:
    return f"[{_big(element[0])}, {_big(element[1])}]"


if __name__ == "__main__":
    sys.stdout.write(render())
