"""PTX rules of tiles: tensor copies, mbarriers and warpgroup products.

One thread of the workgroup or role issues each copy. Sources: PTX ISA 9.0, "cp.async.bulk.tensor",
"mbarrier", "wgmma"; for the matrix descriptor, CUTLASS's `mma_sm90_desc.hpp`.
"""

from __future__ import annotations

import math

from quod.codegen.ptx.body import BodyEmitter, Rule
from quod.codegen.ptx.memory import address_of
from quod.codegen.ptx.subgroups import emit_proxy_fence
from quod.codegen.ptx.types import register_kind
from quod.kernel.ir.nodes import Op
from quod.kernel.ir.value import Value
from quod.kernel.ops.tile import PATTERN

_MIN_PTX_VERSION = (8, 0)
_WINDOW = 1 << 18  # bytes of shared memory that a descriptor can address
_SWIZZLED_BY_128 = 1 << 30  # the 128-byte swizzle mode, in the descriptor's upper half


def _first_thread_guard(body: BodyEmitter, op: Op) -> str:
    """Return the guard predicate of the first thread that reaches an op."""
    thread = body.shared_result("r", "mov.u32", "%tid.x")
    instance = body.module.first_instance(op)
    return f"@{body.shared_result('p', 'setp.eq.u32', f'{thread}, {instance}')}"


def _first_of_warp_guard(body: BodyEmitter) -> str:
    """Return the guard predicate of the first thread of each warp."""
    lane = body.shared_result("r", "mov.u32", "%laneid")
    return f"@{body.shared_result('p', 'setp.eq.u32', f'{lane}, 0')}"


def _sync_warp(body: BodyEmitter) -> None:
    """Emit a warp barrier: the warp's earlier accesses precede an arrival of one thread."""
    emit_proxy_fence(body)
    body.line("bar.warp.sync 0xffffffff;")


def _cluster_rank(body: BodyEmitter, op: Op) -> None:
    body.require(op, _MIN_PTX_VERSION, 90)
    body.define(op.results[0], "mov.u32", "%cluster_ctarank")


def _cluster_barrier(body: BodyEmitter, op: Op) -> None:
    body.require(op, _MIN_PTX_VERSION, 90)
    emit_proxy_fence(body)
    if body.module.kernel.cluster == 1:
        body.line("bar.sync 0;")
        return
    # A release is a device-wide memory fence, so it is left out if not needed.
    order = "release" if op.attributes["memory"] else "relaxed"
    body.line(f"barrier.cluster.arrive.{order}.aligned;")
    body.line("barrier.cluster.wait.acquire.aligned;")


def _mbarrier_init(body: BodyEmitter, op: Op) -> None:
    body.require(op, _MIN_PTX_VERSION, 90)
    address = address_of(body, *op.operands).text()
    guard = _first_thread_guard(body, op)
    body.line(f"{guard} mbarrier.init.shared::cta.b64 {address}, {op.attributes['count']};")
    body.line(f"{guard} fence.mbarrier_init.release.cluster;")


def _mbarrier_expect(body: BodyEmitter, op: Op) -> None:
    pointer, index, count = op.operands
    address = address_of(body, pointer, index).text()
    expected = f"{address}, {body.get(count)}"
    if body.module.has_roles:
        _sync_warp(body)
    body.line(
        f"{_first_thread_guard(body, op)} mbarrier.arrive.expect_tx.shared::cta.b64 _, {expected};"
    )


def _mbarrier_arrive(body: BodyEmitter, op: Op) -> None:
    address = address_of(body, *op.operands).text()
    _sync_warp(body)
    body.line(f"{_first_of_warp_guard(body)} mbarrier.arrive.shared::cta.b64 _, {address};")


def _mbarrier_wait(body: BodyEmitter, op: Op) -> None:
    pointer, index, phase = op.operands
    address = address_of(body, pointer, index).text()
    parity = body.fresh("r", "and.b32", f"{body.register(phase)}, 1")
    wait_label, ended = body.new_label("wait"), body.new("p")
    body.start(wait_label)
    body.line(f"mbarrier.try_wait.parity.shared::cta.b64 {ended}, {address}, {parity};")
    body.line(f"@!{ended} bra {wait_label};")


def _tensor_map_acquire(body: BodyEmitter, op: Op) -> None:
    body.require(op, (8, 3), 90)
    address = body.get(op.operands[0])
    # With roles, the first thread of any warp may issue copies.
    guard = _first_of_warp_guard(body) if body.module.has_roles else _first_thread_guard(body, op)
    body.line(f"{guard} fence.proxy.tensormap::generic.acquire.sys [{address}], 128;")


def _copy_tile(body: BodyEmitter, op: Op) -> None:
    target_pointer, target_index, barrier_pointer, barrier_index, tensor_map = op.operands[:5]
    start = ", ".join(body.register(value) for value in op.operands[9:])
    multicast = op.attributes["multicast"] and body.module.kernel.cluster > 1
    modifier, mask = "", ""
    if multicast:
        modifier = ".multicast::cluster"
        workgroup_mask = body.shared_result(
            "h", "mov.b16", str((1 << body.module.kernel.cluster) - 1)
        )
        mask = f", {workgroup_mask}"
    target, barrier = (
        address_of(body, *element).text()
        for element in ((target_pointer, target_index), (barrier_pointer, barrier_index))
    )
    emit_proxy_fence(body)
    source = f"[{body.get(tensor_map)}, {{{start}}}]"
    body.line(
        f"{_first_thread_guard(body, op)} cp.async.bulk.tensor.3d.shared::cluster.global.tile"
        f".mbarrier::complete_tx::bytes{modifier} {target}, {source}, {barrier}{mask};"
    )


def _mma_begin(body: BodyEmitter, op: Op) -> None:
    body.require(op, _MIN_PTX_VERSION, 90)
    body.module.require_specific()
    body.line("wgmma.fence.sync.aligned;")


def _descriptor(body: BodyEmitter, pointer: Value, index: Value, *, along: bool, apart: int) -> str:
    """Emit a matrix's wgmma descriptor: start, leading and stride offsets in 16-byte units."""
    register, offset = address_of(body, pointer, index).parts()
    # Higher bits hold the workgroup's rank in its cluster.
    window_address = body.shared_result("r", "and.b32", f"{register}, {_WINDOW - 1}")
    start = body.shared_result("r", "shr.u32", f"{window_address}, 4")
    leading = apart * 4 if along else 0
    constant = (offset >> 4) + (leading >> 4 << 16)
    if constant:
        start = body.shared_result("r", "add.u32", f"{start}, {constant}")
    upper_word = PATTERN >> 4 | _SWIZZLED_BY_128
    return body.shared_result("rd", "mov.b64", f"{{{start}, {upper_word}}}")


def _mma_tiles(body: BodyEmitter, op: Op) -> None:
    a = _operand(body, op, 0, "a")
    transposition = f", {int(op.attributes['a_along'])}, {int(op.attributes['b_along'])}"
    _product(body, op, 4, f"{a}, {_operand(body, op, 2, 'b')}", transposition)


def _mma_rows(body: BodyEmitter, op: Op) -> None:
    words = ", ".join(body.register(value) for value in op.operands[:4])
    factors = f"{{{words}}}, {_operand(body, op, 4, 'b')}"
    _product(body, op, 6, factors, f", {int(op.attributes['b_along'])}")


def _operand(body: BodyEmitter, op: Op, first: int, name: str) -> str:
    """Emit the descriptor of a factor in shared memory."""
    along, apart = (op.attributes[f"{name}_{suffix}"] for suffix in ("along", "apart"))
    return _descriptor(body, *op.operands[first : first + 2], along=along, apart=apart)


_PRODUCTS = {
    "f16": ("k16.f32.f16.f16", True), "bf16": ("k16.f32.bf16.bf16", True),
    "f32": ("k8.f32.tf32.tf32", False), "i8": ("k32.s32.s8.s8", False),
    "e4m3": ("k32.f32.e4m3.e4m3", False), "e5m2": ("k32.f32.e5m2.e5m2", False),
    "e4m3_e5m2": ("k32.f32.e4m3.e5m2", False), "e5m2_e4m3": ("k32.f32.e5m2.e4m3", False),
}  # fmt: skip
"""By element types: K and the PTX types of sums and factors; whether factors can be transposed."""


def _product(body: BodyEmitter, op: Op, first: int, factors: str, transposition: str) -> None:
    body.require(op, _MIN_PTX_VERSION, 90)
    body.module.require_specific()
    sums = op.operands[first:]
    all_zero = all(_is_zero(value) for value in sums)
    kind = register_kind(sums[0].type)
    # Results take over the registers of the sums, which nothing else uses.
    registers = [body.new(kind) if all_zero else body.register(value) for value in sums]
    read_values = [*(() if all_zero else sums), *(op.operands[:4] if op.name == "mma_rows" else ())]
    if any(value.constant is not None for value in read_values):
        # Constants have just been moved to registers, so another fence is needed.
        body.line("wgmma.fence.sync.aligned;")
    body.names.update(zip(op.results, registers, strict=True))
    adds_sums = body.shared_result("p", "setp.ne.u32" if all_zero else "setp.eq.u32", "0, 0")
    element, columns = str(op.attributes["element"]), 2 * len(registers)
    types, can_transpose = _PRODUCTS[element]
    # Float products take the signs of the factors; integer ones do not.
    signs = "" if element == "i8" else ", 1, 1"
    body.line(
        f"wgmma.mma_async.sync.aligned.m64n{columns}{types} {{{', '.join(registers)}}}, "
        f"{factors}, {adds_sums}{signs}{transposition if can_transpose else ''};"
    )


def _is_zero(value: Value) -> bool:
    """Return whether a value is the constant +0, which the product need not add."""
    return value.constant == 0 and math.copysign(1.0, value.constant) > 0


def _mma_commit(body: BodyEmitter, op: Op) -> None:
    body.line("wgmma.commit_group.sync.aligned;")


def _mma_wait(body: BodyEmitter, op: Op) -> None:
    body.line(f"wgmma.wait_group.sync.aligned {op.attributes['pending']};")
    for operand, result in zip(op.operands, op.results, strict=True):
        body.names[result] = body.register(operand)


RULES: dict[str, Rule] = {
    "cluster_rank": _cluster_rank,
    "cluster_barrier": _cluster_barrier,
    "mbarrier_init": _mbarrier_init,
    "mbarrier_expect": _mbarrier_expect,
    "mbarrier_arrive": _mbarrier_arrive,
    "mbarrier_wait": _mbarrier_wait,
    "tensor_map_acquire": _tensor_map_acquire,
    "copy_tile": _copy_tile,
    "mma_begin": _mma_begin,
    "mma_tiles": _mma_tiles,
    "mma_rows": _mma_rows,
    "mma_commit": _mma_commit,
    "mma_wait": _mma_wait,
}
