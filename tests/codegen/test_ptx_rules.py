"""Discovery of the target PTX, and the code of its emitter for single ops."""

from __future__ import annotations

import ctypes
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from quod.codegen.ptx import emitter as ptx
from quod.codegen.ptx.facts import Facts, power_of_two
from quod.codegen.ptx.machine import ARCHITECTURES, architecture_name, ptx_machine
from quod.codegen.ptx.module import parameter_layout
from quod.errors import InputError, KernelError
from quod.kernel import (
    U32,
    U64,
    Builder,
    KernelDefinition,
    Location,
    Machine,
    Pointer,
    Value,
    kernel,
)
from quod.kernel.ir import types
from quod.kernel.ir.types import Type, pointer
from tests.support.ptx_assembler import assemble, sass

MACHINE = ptx_machine(64)


def emitted(definition: KernelDefinition, machine: Machine = MACHINE) -> str:
    return ptx.emit(definition.trace(machine), machine)


def instructions(text: str) -> list[str]:
    """The instructions of an entry point after those that read its parameters."""
    lines = [line.strip() for line in text.partition("{")[2].splitlines()]
    return [line for line in lines if line.endswith(";") and not line.startswith((".", "ld.param"))]


# --- architectures


@pytest.mark.parametrize("arch", ARCHITECTURES)
def test_every_architecture_of_the_table_is_one_of_the_assembler(arch: str) -> None:
    """Check that the version in the table is enough for the assembler."""

    @kernel
    def copy(k: Builder, x: Pointer[U32], y: Pointer[U32]) -> None:
        y[k.global_id()] = x[k.global_id()]

    text = emitted(copy, ptx_machine(64, arch))
    row = ARCHITECTURES[arch]
    assert f".version {row.version[0]}.{row.version[1]}\n.target {row.name}\n" in text
    assert assemble(text, arch)[0]


def test_architecture_name_of_a_capability() -> None:
    assert architecture_name(9, 0) == "sm_90a"
    assert architecture_name(8, 0) == "sm_80"
    assert architecture_name(8, 8) == "sm_87"
    assert architecture_name(12, 3) == "sm_121"
    assert architecture_name(99, 0) == "sm_121"
    with pytest.raises(KernelError, match=r"compute capability 6\.1 is too old; sm_75 is the"):
        architecture_name(6, 1)


def test_machines() -> None:
    machine = ptx_machine(256, "sm_120")
    assert (machine.target, machine.workgroup_size, machine.arch) == ("ptx", 256, "sm_120")
    assert (machine.subgroup_size, machine.shared_bytes_limit) == (32, 99 * 1024)
    assert machine.has("carry32")
    assert ptx_machine(32, "sm_90", shared_bytes_limit=64 * 1024).shared_bytes_limit == 64 * 1024
    with pytest.raises(InputError, match="there is no architecture sm_91; did you mean sm_90"):
        ptx_machine(32, "sm_91")
    with pytest.raises(InputError, match="there is no architecture gfx90; take one of sm_75, "):
        ptx_machine(32, "gfx90")


def test_unsupported_instructions_name_the_line() -> None:
    @kernel
    def copies(k: Builder, x: Pointer[U32]) -> None:
        k.copy_async(k.shared(types.u32, 64), k.local_id(), x, k.local_id())
        k.copy_async_commit()
        k.copy_async_wait()

    assert "cp.async.ca.shared.global" in emitted(copies, ptx_machine(64, "sm_80"))
    message = rf"test_ptx_rules.py:{copies.location.line + 2}: copy_async needs sm_80 or newer"
    with pytest.raises(KernelError, match=message):
        emitted(copies, ptx_machine(64, "sm_75"))


def test_subgroups_are_warps() -> None:
    @kernel
    def first(k: Builder, x: Pointer[U32]) -> None:
        x[k.global_id()] = k.shuffle(x[k.global_id()], 0)

    assert "31, 0xffffffff;" in emitted(first)
    assert "31, 0xff;" in emitted(first, ptx_machine(8))
    small = Machine("ptx", 64, MACHINE.features, arch="sm_90a", subgroup_size=8)
    with pytest.raises(KernelError, match="shuffle for a subgroup of 8, where a warp has 32"):
        emitted(first, small)


# --- parameters

_C_TYPES: dict[Type, Any] = {
    types.bool_: ctypes.c_bool, types.u32: ctypes.c_uint32, types.u64: ctypes.c_uint64,
    types.i32: ctypes.c_int32, types.i64: ctypes.c_int64, types.f32: ctypes.c_float,
    types.f64: ctypes.c_double, pointer(types.u8): ctypes.c_void_p,
}  # fmt: skip


@given(st.lists(st.sampled_from(list(_C_TYPES)), max_size=12))
@settings(deadline=None, derandomize=True)
def test_parameter_layout_matches_a_c_struct(parameters: list[Type]) -> None:
    class Arguments(ctypes.Structure):
        _fields_ = [(f"p{n}", _C_TYPES[type_]) for n, type_ in enumerate(parameters)]

    expected = [getattr(Arguments, f"p{n}") for n in range(len(parameters))]
    assert [(slot.offset, slot.size) for slot in parameter_layout(parameters)] == [
        (field.offset, field.size) for field in expected
    ]


# --- memory


def access(element: Type, count: int, index: Any, space: str = "global") -> list[str]:
    """The loads and stores of a kernel that copies `count` elements at index(k, n)."""

    def body(k: Builder, n: Value, x: Value, y: Value) -> None:
        if space == "shared":
            y = k.shared(element, 4096)
        k.store(y, index(k, n), *k.load(x, index(k, n), count))

    parameters = {"n": types.u32, "x": pointer(element), "y": pointer(element)}
    code: Any = body.__code__
    definition = KernelDefinition("copy", body, parameters, Location(code.co_filename, 1))
    text = emitted(definition)
    assemble(text, "sm_90a")
    return [line.split()[0] for line in instructions(text) if line.startswith(("ld.", "st."))]


@pytest.mark.parametrize(
    ("element", "count", "index", "expected"),
    [
        (types.u64, 6, lambda k, n: n * 6, ["v2.u64"] * 3),
        (types.u64, 6, lambda k, n: n * 6 + 1, ["u64", "v2.u64", "v2.u64", "u64"]),
        (types.u64, 5, lambda k, n: n * 5, ["u64"] * 5),
        (types.u64, 4, lambda k, n: (n << 2) + 4, ["v2.u64"] * 2),
        (types.u64, 4, lambda k, n: n & 0xFFFFFFFC, ["v2.u64"] * 2),
        (types.u64, 4, lambda k, n: n.cast(types.u64) * 4, ["v2.u64"] * 2),
        (types.u64, 4, lambda k, n: k.select(n < 3, n * 4, n * 8), ["v2.u64"] * 2),
        (types.u32, 8, lambda k, n: n * 8, ["v4.u32"] * 2),
        (types.u32, 3, lambda k, n: n * 4, ["v2.u32", "u32"]),
        (types.u32, 4, lambda k, n: n * 2, ["v2.u32"] * 2),
        (types.u32, 4, lambda k, n: k.constant(5, types.u32), ["u32", "v2.u32", "u32"]),
        (types.f32, 4, lambda k, n: n * 4, ["v4.f32"]),
        (types.f64, 2, lambda k, n: n * 2, ["v2.f64"]),
        (types.u8, 6, lambda k, n: n * 2, ["v2.u8"] * 3),
        (types.u16, 8, lambda k, n: n * 8, ["v4.u16"] * 2),
        (types.bool_, 4, lambda k, n: n * 4, ["v4.u8"]),
    ],
)
def test_accesses_are_as_wide_as_their_alignment(
    element: Type, count: int, index: Any, expected: list[str]
) -> None:
    for space in ("global", "shared"):
        accesses = access(element, count, index, space)
        assert accesses[: len(expected)] == [f"ld.global.{suffix}" for suffix in expected]
        assert accesses[len(expected) :] == [f"st.{space}.{suffix}" for suffix in expected]


def test_the_index_and_the_carried_pointer_of_a_loop_keep_their_alignment() -> None:
    @kernel
    def loops(k: Builder, n: U32, x: Pointer[U64], y: Pointer[U64]) -> None:
        with k.range(4, n, 2, carry=(x, y)) as loop:
            near, odd = loop.carried
            k.store(y, loop.index, *k.load(near, 0, 2))
            k.store(y, 0, *k.load(odd, 0, 2))
            with k.range(0, n) as inner:
                k.store(near, inner.index * 2, *k.load(y, inner.index * 2, 2))
            loop.next((k.pointer_add(near, 6), k.pointer_add(odd, 1)))

    accesses = [
        line.split()[0] for line in instructions(emitted(loops)) if line[:3] in ("ld.", "st.")
    ]
    assert accesses == [
        "ld.global.v2.u64", "st.global.v2.u64", "ld.global.u64", "ld.global.u64",
        "st.global.v2.u64", "ld.global.v2.u64", "st.global.v2.u64",
    ]  # fmt: skip


def test_constants_in_an_index_become_offsets_only_where_the_sum_cannot_wrap() -> None:
    @kernel
    def offsets(k: Builder, n: U32, wide: U64, x: Pointer[U32]) -> None:
        i = k.local_id()
        total = x[i + 5] + x[wide + 7] + x[n + 3] + x[(n & 1023) + 9] + x[11]
        x[0] = total

    loads = [line for line in instructions(emitted(offsets)) if line.startswith("ld.")]
    assert [line.partition("[")[2].partition("+")[2] for line in loads] == [
        "20];", "28];", "", "36];", "44];",
    ]  # fmt: skip


def test_shared_memory_above_48_kib_is_dynamic() -> None:
    def arrays(count: int) -> KernelDefinition:
        @kernel
        def keep(k: Builder, x: Pointer[U32]) -> None:
            a, b = k.shared(types.u8, 3), k.shared(types.u32, count)
            a[0] = k.local_id()
            b[k.local_id()] = x[0]

        return keep

    for count, dynamic in ((100, 0), ((48 * 1024 - 16) // 4, 0), (12285, 16 + 4 * 12285)):
        definition = arrays(count)
        module = ptx.translate(definition.trace(MACHINE), MACHINE)
        assert module.dynamic_shared_bytes == dynamic
        size = "" if dynamic else 16 + 4 * count
        assert f".align 16 .b8 shared_memory[{size}];" in module.text
        assert (".extern .shared" in module.text) == bool(dynamic)
        assert "shared_memory+16" in module.text
        assemble(module.text, "sm_90a")


# --- facts

_EXPRESSIONS = st.recursive(
    st.one_of(
        st.integers(0, (1 << 32) - 1).map(lambda n: ("const", n)),
        st.sampled_from([1, 2, 4, 8, 12, 96, 1 << 20]).map(lambda n: ("const", n)),
        st.just(("n",)),
    ),
    lambda inner: st.tuples(
        st.sampled_from(["add", "sub", "mul", "and", "or", "xor", "shl", "shr", "rem", "div",
                         "min", "max"]),
        inner, inner,
    ),
    max_leaves=8,
)  # fmt: skip


@given(_EXPRESSIONS, st.integers(0, (1 << 32) - 1))
@settings(max_examples=300, deadline=None, derandomize=True)
def test_inferred_divisors_and_bounds_hold(expression: Any, n: int) -> None:
    """For random expressions the inferred divisor divides and the bound holds, modulo 2**32."""
    k = Builder(MACHINE)
    argument = Value(types.u32, k)
    facts = Facts(64)
    mask = (1 << 32) - 1

    def build(node: Any) -> tuple[Value, int]:
        if node[0] == "n":
            return argument, n
        if node[0] == "const":
            return k.constant(node[1], types.u32), node[1]
        (a, x), (b, y) = build(node[1]), build(node[2])
        number = {
            "add": lambda: x + y, "sub": lambda: x - y, "mul": lambda: x * y,
            "and": lambda: x & y, "or": lambda: x | y, "xor": lambda: x ^ y,
            "shl": lambda: x << (y % 32), "shr": lambda: x >> (y % 32),
            "rem": lambda: x % y if y else x, "div": lambda: x // y if y else mask,
            "min": lambda: min(x, y), "max": lambda: max(x, y),
        }[node[0]]()  # fmt: skip
        return k.emit(node[0], (a, b)), number & mask

    value, number = build(expression)
    assert number % facts.multiple(value) == 0
    assert number <= facts.maximum(value)
    assert power_of_two(number) >= facts.multiple(value)


# --- carries


def chain(first: str, last: str, *, both: bool = False) -> list[str]:
    """The instructions of a two-link chain of 32-bit words."""

    @kernel
    def linked(k: Builder, x: Pointer[U32]) -> None:
        a, b, c, d = k.load(x, 0, 4)
        low, carry = k.emit_many(first, (a, b))
        if both:
            high, _ = k.emit_many(last, (c, d, carry))
        else:
            high = k.emit(last, (c, d, carry))
        k.store(x, 0, low, high)

    return [line.split()[0] for line in instructions(emitted(linked))][1:-2]


def test_carry_and_borrow_chains_are_distinguished() -> None:
    assert chain("add_cc", "addc") == ["add.cc.u32", "addc.u32"]
    assert chain("sub_cc", "subc") == ["sub.cc.u32", "subc.u32"]
    assert chain("add_cc", "addc_cc", both=True) == ["add.cc.u32", "addc.u32"]
    assert chain("sub_cc", "addc") == ["sub.cc.u32", "subc.u32", "add.u32", "sub.u32"]
    assert chain("sub_cc", "addc_cc", both=True) == [
        "sub.cc.u32", "subc.u32", "add.cc.u32", "addc.u32",
    ]  # fmt: skip
    assert chain("add_cc", "subc") == ["add.cc.u32", "addc.u32", "sub.cc.u32", "subc.u32"]


def test_low_and_high_products_merge_into_one_instruction() -> None:
    """Three words at even places times one word, added to six words: three IMAD.WIDE."""

    @kernel
    def row(k: Builder, x: Pointer[U32]) -> None:
        *row, factor, _ = k.load(x, 0, 5)
        words = list(k.load(x, 8, 6))
        carry = None
        for place, a in enumerate(row[:3]):
            for offset, half in ((0, "lo"), (1, "hi")):
                at = 2 * place + offset
                name = f"mad_{half}_cc" if carry is None else f"madc_{half}_cc"
                operands = (a, factor, words[at], *(() if carry is None else (carry,)))
                words[at], carry = k.emit_many(name, operands)
        k.store(x, 8, *words)

    lines = sass(assemble(emitted(row), "sm_90a")[0])
    products = [line.split()[0] for line in lines if "IMAD" in line and "MOV" not in line]
    assert products == ["IMAD.WIDE.U32", "IMAD.WIDE.U32.X", "IMAD.WIDE.U32.X"]
