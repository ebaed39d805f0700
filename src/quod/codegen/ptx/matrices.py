"""PTX rules of matrix fragments in the registers of a warp."""

from __future__ import annotations

from quod.codegen.ptx.body import BodyEmitter, Rule
from quod.codegen.ptx.memory import address_of
from quod.codegen.ptx.types import register_kind
from quod.kernel.ir.nodes import Op


def _load(modifier: str) -> Rule:
    def rule(body: BodyEmitter, op: Op) -> None:
        address = address_of(body, *op.operands).text()
        words = _results(body, op)
        body.line(f"ldmatrix.sync.aligned.m8n8.x4{modifier}.shared.b16 {words}, {address};")

    return rule


def _store(body: BodyEmitter, op: Op) -> None:
    pointer, index, *words = op.operands
    body.require(op, (7, 8), 90)
    address = address_of(body, pointer, index).text()
    stored = _vector([body.register(word) for word in words])
    modifier = f".x{len(words)}" + (".trans" if op.attributes["transposed"] else "")
    body.line(f"stmatrix.sync.aligned.m8n8{modifier}.shared.b16 {address}, {stored};")


def _multiply(shape: str, element: str, sums: str = "f32", element_b: str | None = None) -> Rule:
    """Make the rule of an mma; `element_b` is the element type of B if it differs from A's."""

    def rule(body: BodyEmitter, op: Op) -> None:
        is_float8 = element in ("e4m3", "e5m2")
        body.require(op, (8, 4) if is_float8 else (7, 0), 89 if is_float8 else 80)
        registers = [body.register(operand) for operand in op.operands]
        a, b, c = (_vector(registers[part]) for part in (slice(4), slice(4, 6), slice(6, 10)))
        name = f"mma.sync.aligned.{shape}.row.col.{sums}.{element}.{element_b or element}.{sums}"
        body.line(f"{name} {_results(body, op)}, {a}, {b}, {c};")

    return rule


def _results(body: BodyEmitter, op: Op) -> str:
    """Allocate the registers of an op's results."""
    for result in op.results:
        body.names[result] = body.new(register_kind(result.type))
    return _vector([body.names[result] for result in op.results])


def _vector(registers: list[str]) -> str:
    return f"{{{', '.join(registers)}}}"


RULES: dict[str, Rule] = {
    "load_matrices": _load(""),
    "load_matrices_transposed": _load(".trans"),
    "store_matrices": _store,
    "mma_f16": _multiply("m16n8k16", "f16"),
    "mma_bf16": _multiply("m16n8k16", "bf16"),
    "mma_tf32": _multiply("m16n8k8", "tf32"),
    "mma_i8": _multiply("m16n8k32", "s8", "s32"),
    "mma_e4m3": _multiply("m16n8k32", "e4m3"),
    "mma_e5m2": _multiply("m16n8k32", "e5m2"),
    "mma_e4m3_e5m2": _multiply("m16n8k32", "e4m3", element_b="e5m2"),
    "mma_e5m2_e4m3": _multiply("m16n8k32", "e5m2", element_b="e4m3"),
}
