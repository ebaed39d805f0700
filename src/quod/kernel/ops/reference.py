"""Print docs/kernel-ops.md, generated from the op table.

python -m quod.kernel.ops.reference > docs/kernel-ops.md
"""

from __future__ import annotations

import sys

from quod.kernel.builder.float_functions import FUNCTIONS
from quod.kernel.ir import types
from quod.kernel.ops.definition import OpDefinition
from quod.kernel.ops.scalar import OPS

_INTRODUCTION = """# The ops of the kernel language

Made from the op table (`src/quod/kernel/ops/scalar.py`) by `python -m quod.kernel.ops.reference`.
For the language itself see [language.md](language.md).

A letter in a signature stands for any one of the types given after it, the same one throughout the
row; `cc` is a carry, and `...` stands for any number of values.

Integer arithmetic wraps. Floating-point arithmetic is IEEE 754, rounded to nearest even after each
op, with subnormal numbers; the bits of a NaN are unspecified. An op can be *pure* (it may be
folded, shared and removed), a link of a *carry* chain, a *read*, a *write*, an exchange within a
*subgroup*, a *barrier* or *control*. Rounding errors are listed by target: `llvm` is the CPU, `ptx`
an NVIDIA GPU, `wgsl` WebGPU.
"""

_FUNCTIONS_HEADING = """
## Functions of f32

These functions consist of ops (`src/quod/kernel/builder/float_functions.py`), so devices with IEEE
754 give the same bits. The exception is `k.exp2`, which is the op `exp2` on devices that have it.
Errors are maxima in ULP. For WGSL they hold for normal operands and results, as WGSL may flush
subnormal numbers to zero. `python -m tools.float_errors --device cuda` measures these errors and
those of the ops.

| function | meaning | error | error in WGSL |
|---|---|---|---|
"""

_SETS: dict[tuple[types.Type, ...], str] = {
    types.SCALARS: "any scalar",
    types.NUMBERS: "any number",
    types.INTEGERS: "any integer",
    (*types.SCALARS, *types.STORAGE, *types.NARROW_FLOATS): (
        "any scalar, u8, u16, i8, i16, f16, bf16, e4m3 or e5m2"
    ),
}


def render() -> str:
    """Return the whole page."""
    parts = [_INTRODUCTION]
    group = ""
    for definition in OPS.values():
        if definition.group != group:
            group = definition.group
            parts.append(f"\n## {group}\n\n| op | signature | effect | meaning |\n")
            parts.append("|---|---|---|---|\n")
        parts.append(_row(definition))
    parts.append(_FUNCTIONS_HEADING)
    parts += [
        f"| `k.{name}(a)` | {row.doc} | {row.ulps:g} | {row.ulps_in_wgsl:g} |\n"
        for name, row in FUNCTIONS.items()
    ]
    return "".join(parts)


def _row(definition: OpDefinition) -> str:
    operands = ", ".join(definition.operands) or "nothing"
    results = ", ".join(definition.results) or "nothing"
    type_choices = "; ".join(
        f"{name}: {_describe(choices)}" for name, choices in definition.variables.items()
    )
    signature = f"`{operands} -> {results}`" + (f"<br>{type_choices}" if type_choices else "")
    effect = "pure" if definition.effect == "none" else definition.effect
    doc = definition.doc
    if definition.ulps:
        errors = ", ".join(f"{target} {ulps:g}" for target, ulps in definition.ulps.items())
        doc += f" Greatest error in ULP: {errors}."
    return f"| `{definition.name}` | {signature} | {effect} | {doc} |\n"


def _describe(choices: tuple[types.Type, ...]) -> str:
    return _SETS.get(choices) or ", ".join(type_.name for type_ in choices)


if __name__ == "__main__":
    sys.stdout.write(render())
