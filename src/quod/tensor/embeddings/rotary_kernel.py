"""The kernel of rotary positions."""

from __future__ import annotations

from quod.kernel import Builder, KernelDefinition, Location, Value, bf16, f32, pointer, u32, u64
from quod.kernel.ir.types import Type
from quod.kernel.ir.value import ParameterType
from quod.kernel.registry import register
from quod.tensor.accesses import Accesses
from quod.tensor.elementwise.kernel import TYPES
from quod.tensor.rows.groups import own_accesses, own_rows
from quod.tensor.rows.plan import GroupPlan


def _rope(
    k: Builder, rows: Value, width: Value, turned: Value, inner: Value, tokens: Value, sign: Value,
    x: Value, table: Value, y: Value, *, element: Type, plan: GroupPlan, interleaved: bool,
) -> None:  # fmt: skip
    """Rotate the pairs of each row by the angles of its token (Su et al., RoFormer, 2021).

    A row of the table has the cosines and sines of a token. A row of x has `width` accesses of
    pairs, of which `turned` are rotated and the others copied; a token has `inner` rows. `sign` is
    1, or -1 for the inverse.
    """
    elements_per_access = 2 * plan.vector if interleaved else plan.vector
    accesses, f32_accesses = (
        Accesses(k, element, elements_per_access),
        Accesses(k, f32, plan.vector),
    )
    size = width if interleaved else width * 2
    with own_rows(k, plan, rows) as loop:
        row_start = loop.index.cast(u64) * size.cast(u64)
        source, target = accesses.of(x, row_start), accesses.of(y, row_start)
        token = loop.index // inner % tokens
        angles = f32_accesses.of(table, token.cast(u64) * (turned * 2).cast(u64))
        with own_accesses(k, plan, width) as items:
            access = items.index
            is_turned = access < turned
            table_access = k.minimum(access, turned - 1)
            cosines, sines = (
                f32_accesses.load(angles, table_access),
                f32_accesses.load(angles, table_access + turned),
            )
            if interleaved:
                elements = accesses.load(source, access)
                pairs = list(zip(elements[::2], elements[1::2], strict=True))
            else:
                low, high = (
                    k.select(is_turned, access, access * 2),
                    k.select(is_turned, access + turned, access * 2 + 1),
                )
                pairs = list(
                    zip(accesses.load(source, low), accesses.load(source, high), strict=True)
                )
            rotated = []
            for (a, b), cosine, sine in zip(pairs, cosines, sines, strict=True):
                sine = sine * sign
                rotated.append(
                    (
                        k.select(is_turned, a * cosine - b * sine, a),
                        k.select(is_turned, b * cosine + a * sine, b),
                    )
                )
            if interleaved:
                accesses.store(target, access, [value for pair in rotated for value in pair])
            else:
                accesses.store(target, low, [pair[0] for pair in rotated])
                accesses.store(target, high, [pair[1] for pair in rotated])


def _kernel(element: Type) -> KernelDefinition:
    counts = ("rows", "width", "turned", "inner", "tokens")
    parameters: dict[str, ParameterType] = dict.fromkeys(counts, u32)
    parameters |= {"sign": f32, "x": pointer(element), "table": pointer(f32)}
    parameters["y"] = pointer(element)
    location = Location(_rope.__code__.co_filename, _rope.__code__.co_firstlineno)
    return KernelDefinition(f"rope_{element}", _rope, parameters, location)


ROPE = {element: _kernel(element) for element in TYPES}
"""The kernels by element type."""

for _element, _interleaved in ((f32, False), (bf16, True)):
    _form = "interleaved" if _interleaved else "halves"
    register(
        f"tensor.rope_{_form}_{_element}", ROPE[_element], element=_element,
        plan=GroupPlan(lanes=8, threads=8, vector=4, rows=1), interleaved=_interleaved,
    )  # fmt: skip
