"""The PTX interpreter against values worked out from the PTX ISA, and what it refuses."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from quod.codegen.ptx.interpreter import interpret_ptx
from quod.kernel.errors import InterpreterError

Array = np.ndarray[Any, Any]
ONES = 0xFFFF_FFFF
ALL = (1 << 64) - 1


def text(body: str, lanes: int = 4, shared: str = "", functions: str = "") -> str:
    """An entry with pointers in %rd0 and %rd1, and its instance in %r0."""
    return f"""
.version 8.0
.target sm_90
.address_size 64
{functions}
{shared}
.visible .entry test(.param .u64 x, .param .u64 y)
.maxntid {lanes}
{{
    .reg .pred %p<9>;
    .reg .b16 %h<9>;
    .reg .b32 %r<40>;
    .reg .b64 %rd<40>;
    .reg .f32 %f<9>;
    .reg .f64 %d<9>;
    ld.param.u64 %rd0, [x];
    ld.param.u64 %rd1, [y];
    mov.u32 %r0, %tid.x;
    {body}
    ret;
}}
"""


def one(body: str, *, wide: bool = False) -> int:
    """Return the value that `body` leaves in %r1, or in %rd2 if `wide`."""
    out = np.zeros(4, np.uint64 if wide else np.uint32)
    store = (
        "mad.wide.u32 %rd3, %r0, 8, %rd1; st.global.u64 [%rd3], %rd2;"
        if wide
        else "mad.wide.u32 %rd3, %r0, 4, %rd1; st.global.u32 [%rd3], %r1;"
    )
    interpret_ptx(text(body + "\n" + store), 1, [out, out])
    assert (out == out[0]).all()
    return int(out[0])


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        ("shl.b32 %r1, 1, 32;", 0),
        ("shl.b32 %r1, 1, 31;", 1 << 31),
        ("shr.u32 %r1, -1, 40;", 0),
        ("shr.s32 %r1, -8, 1;", ONES - 3),
        ("shr.s32 %r1, -1, 99;", ONES),
        ("clz.b32 %r1, 0;", 32),
        ("clz.b64 %r1, 1;", 63),
        ("popc.b64 %r1, -1;", 64),
        ("brev.b32 %r1, 1;", 1 << 31),
        ("mul.hi.u32 %r1, -1, -1;", ONES - 1),
        ("mul.hi.s32 %r1, -1, 1;", ONES),
        ("mul.lo.u32 %r1, -1, -1;", 1),
        ("rem.u32 %r1, 17, 5;", 2),
        ("div.s32 %r1, -7, 2;", ONES - 2),
        ("rem.s32 %r1, -7, 2;", ONES),
        ("neg.s32 %r1, 1;", ONES),
        ("min.s32 %r1, -1, 1;", ONES),
        ("max.u32 %r1, -1, 1;", ONES),
        ("lop3.b32 %r1, 0xF0, 0xCC, 0xAA, 0xE8;", 0xE8),
        ("prmt.b32 %r1, 0x33221100, 0x77665544, 0x7604;", 0x77660044),
        ("bfe.u32 %r1, 0xABCD, 4, 8;", 0xBC),
        ("bfe.s32 %r1, 0xABCD, 8, 8;", 0xFFFFFFAB),
        ("bfi.b32 %r1, 0xF, 0, 4, 4;", 0xF0),
        ("shf.l.wrap.b32 %r1, 0x80000000, 1, 1;", 3),
        ("shf.r.wrap.b32 %r1, 0, 1, 1;", 1 << 31),
        ("mov.b32 %r1, 0f3F800000;", 0x3F800000),
        ("mov.u32 %r1, 0x1234;", 0x1234),
        # Sums and differences with a carry.
        ("add.cc.u32 %r2, -1, 1; addc.u32 %r1, 0, 0;", 1),
        ("add.cc.u32 %r2, -1, 0; addc.u32 %r1, 0, 0;", 0),
        ("add.cc.u32 %r2, -1, 1; addc.cc.u32 %r2, -1, 0; addc.u32 %r1, 5, 0;", 6),
        ("sub.cc.u32 %r2, 0, 1; subc.u32 %r1, 0, 0;", ONES),
        ("sub.cc.u32 %r2, 1, 1; subc.u32 %r1, 0, 0;", 0),
        ("sub.cc.u32 %r2, 0, 1; subc.cc.u32 %r2, 0, -1; subc.u32 %r1, 9, 0;", 8),
        ("mad.lo.cc.u32 %r2, -1, -1, -1; addc.u32 %r1, 0, 0;", 1),
        ("mad.lo.cc.u32 %r2, -1, -1, -1; madc.hi.u32 %r1, -1, -1, 0;", ONES),
        ("mad.hi.cc.u32 %r2, -1, -1, 2; madc.lo.cc.u32 %r2, -1, 1, 0; addc.u32 %r1, 0, 0;", 1),
        # Floating point: NaN, zeros, the ends of ranges.
        ("cvt.rzi.s32.f32 %r1, 0f7FC00000;", 0),
        ("cvt.rzi.s32.f64 %r1, 0d7FF8000000000000;", 1 << 31),
        ("cvt.rzi.s32.f32 %r1, 0fCF800000;", 1 << 31),
        ("cvt.rzi.u32.f32 %r1, 0f4F800000;", ONES),
        ("cvt.rzi.u32.f32 %r1, 0fBF800000;", 0),
        ("cvt.rn.f32.u32 %f1, 16777217; mov.b32 %r1, %f1;", 0x4B800000),
        ("setp.ne.f32 %p1, 0f7FC00000, 0f00000000; selp.u32 %r1, 1, 0, %p1;", 0),
        ("setp.neu.f32 %p1, 0f7FC00000, 0f00000000; selp.u32 %r1, 1, 0, %p1;", 1),
        ("min.f32 %f1, 0f00000000, 0f80000000; mov.b32 %r1, %f1;", 1 << 31),
        ("max.f32 %f1, 0f7FC00000, 0f3F800000; mov.b32 %r1, %f1;", 0x3F800000),
        ("fma.rn.f32 %f1, 0f3F800001, 0f3F800001, 0fBF800002; mov.b32 %r1, %f1;", 0x28800000),
        ("setp.lt.and.s32 %p1|%p2, -1, 1, %p0; selp.u32 %r1, 1, 0, %p1;", 1),
        ("cvt.u16.u32 %h1, 0x12345; cvt.u32.u16 %r1, %h1;", 0x2345),
        ("cvt.s32.s8 %r1, 0x80;", 0xFFFFFF80),
    ],
)  # fmt: skip
def test_words(body: str, expected: int) -> None:
    assert one("setp.eq.u32 %p0, 0, 0;\n" + body) == expected


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        ("mul.wide.u32 %rd2, -1, -1;", (ONES) ** 2),
        ("mul.wide.s32 %rd2, -1, 2;", ALL - 1),
        ("mul.hi.u64 %rd2, -1, -1;", ALL - 1),
        ("mul.hi.s64 %rd2, -1, 5;", ALL),
        ("mad.wide.u32 %rd2, -1, 2, 7;", 2 * ONES + 7),
        ("shl.b64 %rd2, 1, 64;", 0),
        ("mov.b64 %rd2, {1, 2};", (2 << 32) + 1),
        ("mov.b64 {%r1, %r2}, 0x500000007; cvt.u64.u32 %rd2, %r2;", 5),
        ("cvt.s64.s32 %rd2, -1;", ALL),
        ("cvt.u64.u32 %rd2, -1;", ONES),
        ("add.cc.u64 %rd2, -1, 1; addc.u64 %rd2, 0, 0;", 1),
        ("mad.hi.cc.u64 %rd2, -1, -1, 2; addc.u64 %rd2, 0, 0;", 1),
        ("cvt.rzi.u64.f64 %rd2, 0d7FF8000000000000;", 1 << 63),
        ("cvt.rzi.s64.f32 %rd2, 0f7F800000;", (1 << 63) - 1),
        ("add.rn.f64 %d1, 1.0, 2.0; mov.b64 %rd2, %d1;", 0x4008000000000000),
        ("sqrt.rn.f64 %d1, 4.0; cvt.rzi.u64.f64 %rd2, %d1;", 2),
    ],
)
def test_wide_words(body: str, expected: int) -> None:
    assert one(body, wide=True) == expected


@pytest.mark.parametrize(
    ("body", "message"),
    [
        ("addc.u32 %r1, 0, 0;", "nothing has set"),
        ("sub.cc.u32 %r1, 0, 1; addc.u32 %r1, 0, 0;", "holds a borrow"),
        ("add.cc.u32 %r1, 0, 1; subc.u32 %r1, 0, 0;", "holds a carry"),
        ("add.f32 %f1, 1.0, 2.0;", "must round"),
        ("min.NaN.f64 %d1, 1.0, 2.0;", "does not exist for f64"),
        ("cvt.s32.f32 %r1, 1.0;", "must round as .rzi"),
        ("sin.approx.f32 %f1, 1.0;", "no instruction that is known"),
        ("add.u32 %rd2, %rd2, 1;", "of 64 bits as u32"),
        ("add.u32 %r99, 0, 1;", "no register"),
        ("mov.u32 %r1, %clock;", "where a u32 belongs"),
        ("bra NOWHERE;", "no label"),
        ("ld.global.u32 %r1, [%rd1+16];", "which has 4"),
        ("ld.global.u32 %r1, [%rd1+2];", "not a multiple of 4"),
        ("ld.global.v2.u32 {%r1, %r2}, [%rd1+4];", "not a multiple of 8"),
        ("ld.global.v4.u32 {%r1, %r2, %r3, %r4}, [%rd1+8];", "not a multiple of 16"),
        ("st.global.v2.u32 [%rd1+4], {%r0, %r0};", "not a multiple of 8"),
        ("mov.u64 %rd2, 64; ld.global.u32 %r1, [%rd2];", "outside any buffer"),
        ("ld.global.nc.u32 %r1, [%rd1]; st.global.u32 [%rd1], 0;", "with .nc"),
        ("ld.shared.u32 %r1, [%r0];", "before the beginning"),
        ("setp.eq.u32 %p1, %r0, 0; @%p1 bra.uni L; L:", "says that all go one way"),
        ("setp.eq.u32 %p1, %r0, 0; @%p1 ret; shfl.sync.idx.b32 %r1, %r0, 0, 31, -1;",
         "which is not there"),
        ("setp.eq.u32 %p1, %r0, 0; @%p1 bra L; bar.sync 0; bra M; L: bar.sync 0; M:",
         "does not reach the barrier"),
        ("setp.eq.u32 %p1, %r0, 0; @%p1 bra L; bar.warp.sync -1; ret; L: bar.warp.sync -1;",
         "does not come where its warp waits"),
        ("shfl.sync.idx.b32 %r1, %r0, 0, 31, 1;", "is not in its own member mask"),
        ("L: bra L;", "goes on and on"),
        ("trap;", "traps"),
    ],
)  # fmt: skip
def test_errors_name_the_line(body: str, message: str) -> None:
    x = np.zeros(4, np.uint32)
    with pytest.raises(InterpreterError, match=message) as caught:
        interpret_ptx(text(body), 1, [x, x], block_limit=1000)
    lines = text(body).split("\n")
    named = lines[caught.value.location.line - 1]
    assert named.strip() == body or ".entry" in named


def test_divergent_loops_reconverge() -> None:
    """Lane i adds i, i times; an early end of some lanes does not disturb the others."""
    body = """
    mov.u32 %r1, 0; mov.u32 %r2, 0;
    setp.eq.u32 %p2, %r0, 3;
    @%p2 ret;
LOOP:
    setp.ge.u32 %p1, %r2, %r0;
    @%p1 bra OUT;
    add.u32 %r1, %r1, %r0;
    add.u32 %r2, %r2, 1;
    bra LOOP;
OUT:
    mad.wide.u32 %rd2, %r0, 4, %rd1;
    st.global.u32 [%rd2], %r1;
    """
    out = np.zeros(40, np.uint32)
    interpret_ptx(text(body, lanes=40), 1, [out, out])
    expected = np.arange(40, dtype=np.uint32) ** 2
    expected[3] = 0
    np.testing.assert_array_equal(out, expected)


def test_barrier_waits_for_the_code_behind_it() -> None:
    """Lanes that come from text behind the barrier are let run first."""
    body = """
    setp.lt.u32 %p1, %r0, 2;
    mov.u32 %r1, 1;
    @%p1 bra FAR;
BACK:
    bar.sync 0;
    mad.wide.u32 %rd2, %r0, 4, %rd1;
    st.global.u32 [%rd2], %r1;
    ret;
FAR:
    mov.u32 %r1, 2;
    bra BACK;
    """
    out = np.zeros(4, np.uint32)
    interpret_ptx(text(body), 1, [out, out])
    assert out.tolist() == [2, 2, 1, 1]


def test_shared_memory_needs_barriers() -> None:
    shared = ".shared .align 16 .b8 room[16];"
    begin = "shl.b32 %r1, %r0, 2; mov.u32 %r2, room; add.u32 %r3, %r2, %r1;"
    turn = "xor.b32 %r4, %r1, 4; add.u32 %r4, %r4, %r2; ld.shared.u32 %r5, [%r4];"
    end = "mad.wide.u32 %rd2, %r0, 4, %rd1; st.global.u32 [%rd2], %r5;"
    out = np.zeros(4, np.uint32)
    program = f"{begin} st.shared.u32 [%r3], %r0; bar.sync 0; {turn} {end}"
    interpret_ptx(text(program, shared=shared), 1, [out, out])
    assert out.tolist() == [1, 0, 3, 2]
    for missing, message in (("bar.sync 0;", "barrier"), ("st.shared.u32 [%r3], %r0;", "not set")):
        with pytest.raises(InterpreterError, match=message):
            interpret_ptx(text(program.replace(missing, ""), shared=shared), 1, [out, out])
    with pytest.raises(InterpreterError, match="has 4 of type u32"):
        interpret_ptx(text(program.replace("[%r3]", "[%r3+16]"), shared=shared), 1, [out, out])


@pytest.mark.parametrize("at_once", [1, 3, 5])
def test_workgroups_in_step(at_once: int) -> None:
    """Each of five workgroups of 40 reverses its numbers in shared memory of its own."""
    shared = ".shared .align 16 .b8 other[8]; .shared .align 16 .b8 room[160];"
    body = """
    mov.u32 %r1, %ctaid.x;
    mad.lo.u32 %r2, %r1, 40, %r0;
    mad.lo.u32 %r3, %r0, 4, 0;
    mov.u32 %r4, room; add.u32 %r4, %r4, %r3;
    st.shared.u32 [%r4], %r2;
    setp.lt.u32 %p1, %r1, 4;
    @!%p1 bra LAST;
    bar.sync 0;
    sub.u32 %r5, 39, %r0;
    mov.u32 %r6, room; mad.lo.u32 %r6, %r5, 4, %r6;
    ld.shared.u32 %r7, [%r6];
    shfl.sync.idx.b32 %r7, %r7, %r0, 31, -1;
    mad.wide.u32 %rd2, %r2, 4, %rd1;
    st.global.u32 [%rd2], %r7;
    ret;
LAST:
    mad.wide.u32 %rd2, %r2, 4, %rd1;
    st.global.u32 [%rd2], 7;
    """
    out = np.zeros(200, np.uint32)
    # One line each, as the emitter writes declarations.
    program = text(body, lanes=40, shared=shared.replace("; ", ";\n"))
    interpret_ptx(program, 5, [out, out], groups_at_once=at_once)
    expected = np.arange(200).reshape(5, 40)[:, ::-1].copy()
    expected[4] = 7
    np.testing.assert_array_equal(out.reshape(5, 40), expected)
    partial = (
        program.replace("@!%p1 bra LAST", "setp.eq.u32 %p2, %r0, 3; @%p2 bra BACK")
        .replace("ret;\nLAST", "BACK: bar.sync 0; bra END; LAST")
        .replace("    ret;\n}", "END: ret;\n}")
    )
    with pytest.raises(InterpreterError, match="instance 3 of workgroup 0 does not reach"):
        interpret_ptx(partial, 5, [out, out], groups_at_once=at_once)


def test_dynamic_shared_memory() -> None:
    shared = ".extern .shared .align 16 .b8 room[];"
    body = "mov.u32 %r1, room; mad.lo.u32 %r1, %r0, 4, %r1; st.shared.u32 [%r1], %r0;"
    out = np.zeros(4, np.uint32)
    interpret_ptx(text(body, shared=shared), 1, [out, out], dynamic_shared=16)
    further = body.replace("room;", "room+4;")
    interpret_ptx(text(further, shared=shared), 1, [out, out], dynamic_shared=20)
    with pytest.raises(InterpreterError, match="has 4 of type u32"):
        interpret_ptx(text(further, shared=shared), 1, [out, out], dynamic_shared=16)
    with pytest.raises(InterpreterError, match="has 3 of type u32"):
        interpret_ptx(text(body, shared=shared), 1, [out, out], dynamic_shared=12)
    with pytest.raises(InterpreterError, match="needs a size"):
        interpret_ptx(text(body, shared=shared), 1, [out, out])


def test_asynchronous_copies_complete_at_the_wait() -> None:
    shared = ".shared .align 16 .b8 room[16];"
    body = """
    mad.wide.u32 %rd2, %r0, 4, %rd0;
    mov.u32 %r1, room; mad.lo.u32 %r2, %r0, 4, %r1;
    cp.async.ca.shared.global [%r2], [%rd2], 4;
    cp.async.commit_group;
    cp.async.wait_group 0;
    bar.sync 0;
    xor.b32 %r3, %r0, 3;
    mad.lo.u32 %r4, %r3, 4, %r1;
    ld.shared.u32 %r5, [%r4];
    mad.wide.u32 %rd3, %r0, 4, %rd1;
    st.global.u32 [%rd3], %r5;
    """
    x, out = np.arange(10, 14, dtype=np.uint32), np.zeros(4, np.uint32)
    interpret_ptx(text(body, shared=shared), 1, [x, out])
    assert out.tolist() == [13, 12, 11, 10]
    for missing in ("cp.async.wait_group 0;", "cp.async.commit_group;"):
        with pytest.raises(InterpreterError, match="not set"):
            interpret_ptx(text(body.replace(missing, ""), shared=shared), 1, [x, out])


def test_shuffles_and_votes() -> None:
    """Two warps, the second of eight lanes."""
    body = """
    shfl.sync.idx.b32 %r1, %r0, 2, 31, -1;
    shfl.sync.bfly.b32 %r2, %r0, 1, 31, -1;
    shfl.sync.down.b32 %r3|%p1, %r0, 1, 7, -1;
    shfl.sync.up.b32 %r4, %r0, 1, 0, -1;
    setp.gt.u32 %p2, %r0, 30;
    vote.sync.ballot.b32 %r5, %p2, -1;
    vote.sync.all.pred %p3, %p2, -1;
    vote.sync.any.pred %p4, !%p2, -1;
    selp.u32 %r6, 1, 0, %p3;
    selp.u32 %r7, 1, 0, %p4;
    mad.wide.u32 %rd2, %r0, 32, %rd1;
    st.global.v4.u32 [%rd2], {%r1, %r2, %r3, %r4};
    st.global.v2.u32 [%rd2+16], {%r5, %r6};
    st.global.u32 [%rd2+24], %r7;
    """
    out = np.zeros((40, 8), np.uint32)
    interpret_ptx(text(body, lanes=40), 1, [out, out])
    lanes = np.arange(40)
    np.testing.assert_array_equal(out[:, 0], lanes // 32 * 32 + 2)
    np.testing.assert_array_equal(out[:, 1], lanes ^ 1)
    lower = np.where(lanes % 32 + 1 <= 7, lanes + 1, lanes)
    np.testing.assert_array_equal(out[:, 2], lower)
    np.testing.assert_array_equal(out[:, 3], np.where(lanes % 32 == 0, lanes, lanes - 1))
    np.testing.assert_array_equal(out[:, 4], [1 << 31] * 32 + [0xFF] * 8)
    np.testing.assert_array_equal(out[:, 5], [0] * 32 + [1] * 8)
    np.testing.assert_array_equal(out[:, 6], [1] * 32 + [0] * 8)


def test_atomics() -> None:
    body = """
    atom.global.add.u32 %r1, [%rd0], 3;
    atom.global.cas.b32 %r2, [%rd0+4], 0, %r0;
    atom.global.exch.b32 %r3, [%rd0+8], %r0;
    red.global.max.u32 [%rd0+12], %r0;
    mad.wide.u32 %rd2, %r0, 16, %rd1;
    st.global.v2.u32 [%rd2], {%r1, %r2};
    st.global.u32 [%rd2+8], %r3;
    """
    x, out = np.zeros(4, np.uint32), np.zeros((4, 4), np.uint32)
    interpret_ptx(text(body), 2, [x, out])
    assert x.tolist() == [24, 1, 3, 3]
    assert sorted(out[:, 0].tolist()) == [12, 15, 18, 21]
    assert out[:, 2].tolist() == [3, 0, 1, 2]


def test_functions() -> None:
    functions = """
.func (.param .align 16 .b8 result[16]) triple(
    .param .b32 a
)
{
    .reg .pred %p<2>;
    .reg .b32 %r<3>;
    ld.param.b32 %r1, [a];
    setp.eq.u32 %p1, %r1, 2;
    mov.u32 %r2, 7;
    st.param.b32 [result+8], %r2;
    @%p1 ret;
    mul.lo.u32 %r2, %r1, 3;
    st.param.b32 [result+8], %r2;
    ret;
}
"""
    body = """
    setp.lt.u32 %p1, %r0, 3;
    mov.u32 %r1, 100;
    @!%p1 bra DONE;
    {
    .param .b32 p;
    st.param.b32 [p], %r0;
    .param .align 16 .b8 result[16];
    call (result), triple, (p);
    ld.param.b32 %r1, [result+8];
    }
DONE:
    mad.wide.u32 %rd2, %r0, 4, %rd1;
    st.global.u32 [%rd2], %r1;
    """
    out = np.zeros(4, np.uint32)
    interpret_ptx(text(body, functions=functions), 1, [out, out])
    assert out.tolist() == [0, 3, 7, 100]

    def refuse(changed: str, message: str) -> None:
        with pytest.raises(InterpreterError, match=message):
            interpret_ptx(text(changed, functions=functions), 1, [out, out])

    lost = body.replace("call", "add.cc.u32 %r2, -1, 1; call")
    refuse(lost.replace("DONE:", "addc.u32 %r1, 0, 0; DONE:"), "nothing has set")
    refuse(body.replace("[result+8]", "[result+16]"), "where a parameter's b32 belongs")
    refuse(body.replace("result[16]", "result[12]"), "not fit")
    refuse(body.replace("[result+8]", "[result+4]"), "the other side does not set")
    refuse(body.replace("b32 p;", "b64 p;").replace("b32 [p], %r0", "b64 [p], %rd0"), "not fit")


def test_predicated_instructions_keep_values_of_other_threads() -> None:
    body = """
    mov.u32 %r1, 5;
    setp.eq.u32 %p1, %r0, 1;
    @%p1 mov.u32 %r1, 6;
    @!%p1 add.u32 %r1, %r1, 10;
    mad.wide.u32 %rd2, %r0, 4, %rd1;
    @%p1 st.global.u32 [%rd2], %r1;
    @!%p1 st.global.u32 [%rd2], %r1;
    """
    out = np.zeros(4, np.uint32)
    interpret_ptx(text(body), 1, [out, out])
    assert out.tolist() == [15, 6, 15, 15]


def test_narrow_memory() -> None:
    body = """
    mad.wide.u32 %rd2, %r0, 1, %rd0;
    ld.global.u8 %r1, [%rd2];
    ld.global.s8 %r2, [%rd2];
    add.u32 %r1, %r1, %r2;
    mad.wide.u32 %rd3, %r0, 2, %rd1;
    st.global.u16 [%rd3], %r1;
    """
    x, out = np.array([1, 127, 128, 255], np.uint8), np.zeros(4, np.uint16)
    interpret_ptx(text(body), 1, [x, out])
    assert out.tolist() == [2, 254, 0, 254]
