"""The verifier: each rule broken once, with the message and the line that it names."""

from __future__ import annotations

from pathlib import Path

import pytest

from quod.kernel import (
    U32,
    U64,
    Builder,
    Machine,
    Pointer,
    Value,
    VerificationFailure,
    function,
    kernel,
    u32,
)
from quod.kernel.errors import Location
from quod.kernel.ir.parse import parse
from quod.kernel.verifier.verify import verify
from tests.kernel.machines import EIGHT
from tests.kernel.refusals import line_of, refuses

# --- rules that a traced kernel can break


def test_value_of_a_closed_region() -> None:
    def escaped(k: Builder, n: U32, y: Pointer[U32]) -> None:
        with k.if_(n < 3):
            inner = n * 7  # made
            y[1] = inner
        y[0] = inner  # here

    line = line_of(escaped, "# made")
    refuses(
        escaped,
        VerificationFailure,
        f"store uses a value from another region or function (made on line {line}); carry it, "
        "give it, or pass it as an argument",
    )


def test_value_of_another_side() -> None:
    def crossed(k: Builder, n: U32, y: Pointer[U32]) -> None:
        with k.if_(n < 3) as branch:
            kept = y[0]  # made
            branch.yield_(kept)
        with branch.otherwise():
            branch.yield_(kept)  # here
        y[1] = branch.results

    line = line_of(crossed, "# made")
    refuses(
        crossed,
        VerificationFailure,
        f"yield uses a value from another region or function (made on line {line}); carry it, "
        "give it, or pass it as an argument",
    )


def test_value_captured_by_a_function() -> None:
    def capturing(k: Builder, n: U32, y: Pointer[U32]) -> None:
        def body(k: Builder, a: Value) -> Value:
            return a + n  # here

        y[0] = k.call("body", body, y[0])

    refuses(
        capturing,
        VerificationFailure,
        "add uses a value from another region or function; carry it, give it, or pass it as an "
        "argument",
    )


def test_loop_value_used_after_the_loop() -> None:
    def after(k: Builder, n: U32, y: Pointer[U32]) -> None:
        with k.range(0, n) as loop:
            pass
        y[0] = loop.index  # here

    refuses(
        after,
        VerificationFailure,
        "store uses a value from another region or function; carry it, give it, or pass it as an "
        "argument",
    )


CARRY = (
    "{} uses a carry that is not the last one made; a carry is used once, in its own region, "
    "before any other carry, call or barrier"
)


def test_carry_used_twice() -> None:
    def twice(k: Builder, a: U32, y: Pointer[U32]) -> None:
        total, carry = k.emit_many("add_cc", (a, a))
        y[0] = k.emit("addc", (total, a, carry))
        y[1] = k.emit("addc", (a, a, carry))  # here

    refuses(twice, VerificationFailure, CARRY.format("addc"))


def test_carry_after_another() -> None:
    def interleaved(k: Builder, a: U32, y: Pointer[U32]) -> None:
        low, carry = k.emit_many("add_cc", (a, a))
        other, _ = k.emit_many("sub_cc", (a, low))
        y[0], last = k.emit_many("addc_cc", (a, other, carry))  # here
        y[1] = k.emit("subc", (a, a, last))

    refuses(interleaved, VerificationFailure, CARRY.format("addc_cc"))


def test_carry_over_a_call_a_barrier_and_a_region() -> None:
    @function
    def same(k: Builder, a: Value, y: Value) -> Value:
        y[0] = a
        return a

    def over_a_call(k: Builder, a: U32, y: Pointer[U32]) -> None:
        _, carry = k.emit_many("add_cc", (a, a))
        same(k, a, y)
        y[0] = k.emit("addc", (a, a, carry))  # here

    def over_a_barrier(k: Builder, a: U32, y: Pointer[U32]) -> None:
        _, carry = k.emit_many("add_cc", (a, a))
        k.barrier()
        y[0] = k.emit("addc", (a, a, carry))  # here

    def over_a_region(k: Builder, a: U32, y: Pointer[U32]) -> None:
        _, carry = k.emit_many("add_cc", (a, a))
        with k.if_(a < 5):
            y[1] = a
        y[0] = k.emit("addc", (a, a, carry))  # here

    def into_a_region(k: Builder, a: U32, y: Pointer[U32]) -> None:
        _, carry = k.emit_many("add_cc", (a, a))
        with k.if_(a < 5):
            y[0] = k.emit("addc", (a, a, carry))  # here

    for body in (over_a_call, over_a_barrier, over_a_region, into_a_region):
        refuses(body, VerificationFailure, CARRY.format("addc"))


def test_carry_out_of_a_region() -> None:
    def given(k: Builder, a: U32, y: Pointer[U32]) -> None:
        with k.if_(a < 5) as branch:
            branch.yield_(k.emit_many("add_cc", (a, a))[1])  # here
        with branch.otherwise():
            branch.yield_(k.emit_many("add_cc", (a, a))[1])
        y[0] = k.emit("addc", (a, a, branch.results))

    message = "yield cannot take a carry; use addc to turn it into a number"
    refuses(given, VerificationFailure, message)


def test_carry_chain_is_accepted() -> None:
    @kernel
    def chain(k: Builder, a: U64, y: Pointer[U64]) -> None:
        low, carry = k.emit_many("mad_lo_cc", (a, a, a))
        shifted = low >> 3
        high = k.emit("madc_hi", (a, shifted, a, carry))
        k.store(y, 0, low, high)

    verify(chain.trace(EIGHT))


DIVERGENT = (
    "a barrier that not every instance reaches: it stands under the {} of line {}, whose condition "
    "differs between instances"
)


def test_divergent_barriers() -> None:
    def under_if(k: Builder) -> None:
        with k.if_(k.local_id() < 3):  # under
            k.barrier()  # here

    def under_otherwise(k: Builder, y: Pointer[U32]) -> None:
        with k.if_(k.global_id() < 3) as branch:  # under
            y[0] = 1
        with branch.otherwise():
            k.barrier()  # here

    def under_range(k: Builder, n: U32) -> None:
        with k.range(k.local_id(), n):  # under
            k.barrier()  # here

    def under_loaded_bound(k: Builder, x: Pointer[U32]) -> None:
        with k.range(0, x[0]):  # under
            with k.if_(x[1] == x[1] + k.workgroup_id()):
                pass
            k.barrier()  # here

    def in_head_of_while(k: Builder) -> None:
        with k.while_(k.local_id()) as loop:  # under
            k.barrier()  # here
            loop.check(loop.carried < 3)
            loop.next(loop.carried + 1)

    def deep(k: Builder, n: U32) -> None:
        with k.if_(k.local_id() < 3), k.range(0, n):  # under
            n + 1
            with k.if_(n < 3):
                k.barrier()  # here

    cases = {
        under_if: "if", under_otherwise: "if", under_range: "for", under_loaded_bound: "for",
        in_head_of_while: "while", deep: "if",
    }  # fmt: skip
    for body, name in cases.items():
        message = DIVERGENT.format(name, line_of(body, "# under"))
        refuses(body, VerificationFailure, message)


def test_barrier_in_a_while_with_late_divergence() -> None:
    def settles_late(k: Builder, n: U32) -> None:
        with k.while_((n, n)) as loop:  # under
            first, second = loop.carried
            loop.check(first < 100)
            k.barrier()  # here
            # What is carried first differs between instances from the third round on.
            loop.next((first + second, k.local_id()))

    refuses(
        settles_late,
        VerificationFailure,
        DIVERGENT.format("while", line_of(settles_late, "# under")),
    )


def test_barrier_in_a_function_called_in_divergent_code() -> None:
    @function
    def wait(k: Builder) -> None:
        k.barrier()

    @function
    def outer(k: Builder) -> None:
        wait(k)

    @function
    def wait_if(k: Builder, a: Value) -> None:
        with k.if_(a < 3):
            k.barrier()

    @kernel
    def calls(k: Builder) -> None:
        outer(k)
        with k.if_(k.local_id() < 3):  # under
            outer(k)

    @kernel
    def varying_argument(k: Builder, n: U32) -> None:
        wait_if(k, n)
        wait_if(k, k.local_id())

    with pytest.raises(VerificationFailure) as caught:
        calls.trace(EIGHT)
    place = f"{__file__}:{line_of(wait.__wrapped__, 'k.barrier')}"  # type: ignore[attr-defined]
    under = line_of(calls.function, "# under")
    assert str(caught.value) == f"{place}: {DIVERGENT.format('if', under)}"

    with pytest.raises(VerificationFailure) as caught:
        varying_argument.trace(EIGHT)
    body = wait_if.__wrapped__  # type: ignore[attr-defined]
    place = f"{__file__}:{line_of(body, 'k.barrier')}"
    assert str(caught.value) == f"{place}: {DIVERGENT.format('if', line_of(body, 'k.if_'))}"


def test_uniform_barriers_are_accepted() -> None:
    @function
    def wait(k: Builder, times: Value) -> Value:
        with k.range(0, times):
            k.barrier()
        return times + 1

    @kernel
    def uniform(k: Builder, n: U32, y: Pointer[U32]) -> None:
        with k.if_(k.workgroup_id() < n) as branch:
            branch.yield_(wait(k, n))
        with branch.otherwise():
            branch.yield_(n * 2)
        with k.while_(branch.results) as loop:
            loop.check(loop.carried < k.num_workgroups())
            wait(k, loop.carried)
            loop.next(loop.carried + 1)
        y[k.local_id()] = loop.results

    uniform.trace(EIGHT)


def test_shared_memory_budget() -> None:
    def too_much(k: Builder, y: Pointer[U32]) -> None:
        k.shared(u32, 12_000)
        k.shared(u32, 300)  # here

    message = "the kernel needs 49200 bytes of shared memory, and the machine has 49152"
    refuses(too_much, VerificationFailure, message)
    large = Machine("llvm", 8, frozenset(), shared_bytes_limit=49200)
    assert kernel(too_much).trace(large).shared_bytes == 49200
    small = Machine("llvm", 8, frozenset(), shared_bytes_limit=49199)
    message = "the kernel needs 49200 bytes of shared memory, and the machine has 49199"
    refuses(too_much, VerificationFailure, message, machine=small)


@pytest.mark.parametrize("size", [0, 1025])
def test_workgroup_size(size: int) -> None:
    @kernel
    def any_size(k: Builder, y: Pointer[U32]) -> None:
        y[0] = 1

    with pytest.raises(VerificationFailure) as caught:
        any_size.trace(Machine("llvm", size, frozenset()))
    assert str(caught.value).endswith(f": a workgroup has 1 to 1024 instances, not {size}")


# --- rules that only a kernel written as text can break


@pytest.mark.parametrize(
    ("body", "line", "message"),
    [
        ("%0: u32 = const 4294967296", 1, "4294967296 is no constant of type u32"),
        ("%0: i32 = const -2147483649", 1, "-2147483649 is no constant of type i32"),
        ("%0: u32 = const true", 1, "True is no constant of type u32"),
        ("%0: bool = const 1", 1, "1 is no constant of type bool"),
        ("%0: u32 = const 1.0", 1, "1.0 is no constant of type u32"),
        ("%0: u16 = const 1", 1, "1 is no constant of type u16"),
        ('%0: f32 = const "1"', 1, "'1' is no constant of type f32"),
        ("%0: ptr<u32, global> = const 0", 1, "0 is no constant of type ptr<u32, global>"),
        ("%0: u32 = add %n", 1, "add takes 2 operands, not 1"),
        ("%0: u64 = add %n, %n", 1, "add gives (u32), not (u64)"),
        ("%0: u32 = add_cc %n, %n", 1, "add_cc gives (u32, cc), not (u32)"),
        ("%0: u32 = add %n, %w", 1, "operands of add must have one type, not u32 and u64"),
        ("%0: u32 = add %n, %n {\n yield\n}", 1, "add has no regions"),
        ("%0: u8 = convert %n", 1, "cannot convert u32 to u8"),
        ("%0: u32 = convert %x", 1, "cannot convert ptr<u32, global> to u32"),
        ("%0: u32 = convert", 1, "convert has 1 operands, not 0"),
        ("%0: f64 = bitcast %n", 1, "cannot take the bits of u32 as f64"),
        ("%0: u32 = pointer_cast %x", 1, "cannot cast ptr<u32, global> to u32"),
        (
            "%0: ptr<u64, shared> = pointer_cast %x",
            1,
            "cannot cast ptr<u32, global> to ptr<u64, shared>",
        ),
        ("%0: ptr<u64, global> = pointer_cast %n", 1, "pointer_cast needs a pointer, not u32"),
        (
            "%0: ptr<u64, global> = pointer_add %x, %n",
            1,
            "pointer_add gives ptr<u32, global>, not ptr<u64, global>",
        ),
        ("%0: u32 = load %n, %n", 1, "load needs a pointer, not u32"),
        ("%0: u32 = load", 1, "load needs a pointer, not nothing"),
        ("%0: u32 = load %x", 1, "the index of load must be u32 or u64, not nothing"),
        ("%0: u32 = load %x, %f", 1, "the index of load must be u32 or u64, not f32"),
        ("%0: u64 = load %x, %n", 1, "load through ptr<u32, global> gives u32, not (u64)"),
        ("%0: u32 = load %x, %n, %n", 1, "load has 2 operands, not 3"),
        ("load %x, %n", 1, "load has 1 results, not 0"),
        ("store %x, %n", 1, "store has 3 operands, not 2"),
        ("store %x, %n, %w", 1, "store through ptr<u32, global> takes u32, not (u64)"),
        ("%0: u32 = store %x, %n, %n", 1, "store has 0 results, not 1"),
        ("%0: f32 = atomic_add %p, %n, %f", 1, "atomic_add works on u32 and u64, not on f32"),
        (
            "%0: u32 = atomic_add %x, %n, %w",
            1,
            "atomic_add through ptr<u32, global> works on u32, not u64",
        ),
        ("prefetch %x, %n, %n", 1, "prefetch has 2 operands, not 3"),
        (
            "%0: ptr<u32, global> = shared 4",
            1,
            "shared gives a pointer to shared memory, not ptr<u32, global>",
        ),
        (
            "%0: ptr<u32, shared> = shared -4",
            1,
            "shared memory holds at least one element, not -4",
        ),
        ("if %n {\n yield\n} else {\n yield\n}", 1, "the condition of if must be bool, not u32"),
        ("if %b {\n yield\n}", 1, "if has 2 regions, not 1"),
        (
            "if %b {\n yield\n} else {\n yield %n\n}",
            4,
            "a region of if must yield (), not (u32)",
        ),
        ("if %b {\n} else {\n yield\n}", 1, "a region of if ends without a yield"),
        (
            "if %b (%0: u32) {\n yield\n} else {\n yield\n}",
            1,
            "the region arguments of if must be (), not (u32)",
        ),
        ("for %n, %n {\n yield\n}", 1, "for has 3 operands, not 2"),
        (
            "for %n, %n, %w (%0: u32) {\n yield\n}",
            1,
            "the bounds of for must be of one integer type, not (u32, u32, u64)",
        ),
        (
            "for %n, %n, %n {\n yield\n}",
            1,
            "the region arguments of for must be (u32), not ()",
        ),
        (
            "%1: f32 = for %n, %n, %n, %w (%0: u32, %2: u64) {\n yield %2\n}",
            1,
            "the results of for must be (u64), not (f32)",
        ),
        (
            "%1: u64 = for %n, %n, %n, %w (%0: u32, %2: u64) {\n yield %0\n}",
            2,
            "a region of for must yield (u64), not (u32)",
        ),
        (
            "%1: u32 = while %n (%0: u32) {\n yield %0\n} do {\n yield %0\n}",
            2,
            "a region of while must yield (bool), not (u32)",
        ),
        (
            "%1: u32 = while %n (%0: u32) {\n yield %b\n} do {\n yield %w\n}",
            4,
            "a region of while must yield (u32), not (u64)",
        ),
        (
            "while (%0: u32) {\n yield %b\n} do {\n yield\n}",
            1,
            "the arguments of the first region of while must be (), not (u32)",
        ),
        ("yield", 1, "a yield stands before the end of its region"),
        (
            "if %b {\n %0: ptr<u32, shared> = shared 4\n yield\n} else {\n yield\n}",
            2,
            "shared memory is declared at the top of a kernel",
        ),
        (
            "%0: u32 = call @half %w",
            1,
            "half takes (u32), not (u64)",
        ),
        (
            "%0: u64 = call @half %n",
            1,
            "half gives (u32), not (u64)",
        ),
        (
            "%0: u32 = for %n, %n, %n, %n (%1: u32, %2: u32) {\n yield %1\n}\nstore %x, %n, %2",
            4,
            "store uses a value from another region or function; carry it, give it, or pass it "
            "as an argument",
        ),
    ],
)  # fmt: skip
def test_invalid_text_is_rejected(body: str, line: int, message: str) -> None:
    head = """function @half(%0: u32) -> (u32) {
  %1: u32 = const 1
  %2: u32 = shr %0, %1
  yield %2
}
kernel @broken(%n: u32, %w: u64, %f: f32, %b: bool, %x: ptr<u32, global>, %p: ptr<f32, global>) \
workgroup 8 shared 0 {
"""
    broken = parse(head + body + "\nyield\n}\n", "broken.ir")
    with pytest.raises(VerificationFailure) as caught:
        verify(broken)
    start = head.count("\n")
    assert str(caught.value) == f"broken.ir:{start + line}: {message}"


def test_valid_text_without_the_mistake_is_accepted() -> None:
    """Otherwise the cases above could fail for a common other reason."""
    verify(parse("kernel @k(%n: u32) workgroup 8 shared 0 {\nyield\n}"))


@pytest.mark.parametrize(
    ("text", "line", "message"),
    [
        ("kernel @k() workgroup 8 shared 0 {\n}", 1, "a region ends without a yield"),
        ("kernel @k(%n: u32) workgroup 8 shared 0 {\nyield %n\n}", 2, "a kernel gives no values"),
        (
            "kernel @k() workgroup 8 shared 4 {\nyield\n}",
            1,
            "the kernel says that it needs 4 bytes of shared memory, but declares 0",
        ),
        (
            "function @f() -> () {\nbarrier\n}\nkernel @k() workgroup 8 shared 0 {\nyield\n}",
            1,
            "a region ends without a yield",
        ),
    ],
)
def test_complete_invalid_texts_are_rejected(text: str, line: int, message: str) -> None:
    with pytest.raises(VerificationFailure) as caught:
        verify(parse(text, "broken.ir"))
    assert str(caught.value) == f"broken.ir:{line}: {message}"


def test_recursion_and_strange_functions() -> None:
    text = """function @first() -> () {
  yield
}
function @second() -> () {
  call @first
  yield
}
kernel @k() workgroup 8 shared 0 {
  call @second
  yield
}
"""
    recursive = parse(text)
    first, second = recursive.functions
    first.block.ops.insert(0, second.block.ops[0])
    with pytest.raises(VerificationFailure, match=r"the function first calls itself$"):
        verify(recursive)

    mutual = parse(text)
    first, second = mutual.functions
    call = second.block.ops[0]
    back = parse(text).functions[1].block.ops[0]
    back.attributes["function"] = second
    first.block.ops.insert(0, back)
    assert call.attributes["function"] is first
    with pytest.raises(VerificationFailure, match=r"the function (first|second) calls itself$"):
        verify(mutual)

    foreign = parse(text)
    foreign.block.ops[0].attributes["function"] = parse(text).functions[0]
    with pytest.raises(VerificationFailure, match=r"first is no function of this kernel$"):
        verify(foreign)

    unknown = parse(text)
    unknown.block.ops[0].name = "jump"
    with pytest.raises(VerificationFailure, match=r"there is no op jump$"):
        verify(unknown)

    doubled = parse(text)
    constant = parse("kernel @k() workgroup 1 shared 0 { %0: u32 = const 1 yield }").block.ops[0]
    doubled.block.ops[:0] = [constant, constant]
    with pytest.raises(VerificationFailure, match=r"a value is defined twice$"):
        verify(doubled)


def test_messages_about_many_values_are_shortened() -> None:
    """Found by `make fuzz`: a loop that yields too many values was told with all their types."""
    text = (Path(__file__).parent / "golden" / "histogram.ir").read_text()
    longer = text.replace("    yield\n", f"    yield {', '.join(['%7'] * 20_000)}\n", 1)
    assert longer != text
    with pytest.raises(VerificationFailure, match="must yield") as refused:
        verify(parse(longer))
    assert len(str(refused.value)) == 1000


def test_long_locations_are_shortened() -> None:
    failure = VerificationFailure("x " * 50_000, Location("f" * 50_000, 1))
    assert len(str(failure)) == 1000
