"""Wrong operands and types: errors name the line and the correction."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from quod.errors import KernelError
from quod.field import EXTENSIONS, NAMED, extension_field, prime_field
from quod.kernel import U32, U64, Builder, Machine, Pointer, bf16, e4m3, f32, kernel, u32
from quod.kernel.errors import TraceError
from quod.kernel.machine import Capability

WRONG: Any = {**NAMED, **EXTENSIONS, "seven": 7}
MACHINE = Machine("llvm", 8, frozenset({"u64"}))


@pytest.mark.parametrize(
    ("mistake", "message"),
    [
        (lambda k, x, a: k.private(U32, 4), "write u32, for U32 and its like are annotations"),
        (lambda k, x, a: k.table(U32, [1]), "write u32, for U32 and its like are annotations"),
        (lambda k, x, a: x[0].cast(U32), "write u32, for U32 and its like are annotations"),
        (lambda k, x, a: k.uniform(a), "uniform takes kernel values, not an Element"),
        (lambda k, x, a: k.store(x, 0, a), "store takes kernel values, not an Element"),
        (lambda k, x, a: prime_field(k, WRONG["m31.2"]), "use extension_field"),
        (lambda k, x, a: prime_field(k, WRONG["seven"]), "must be of the type Modulus, not int"),
        (lambda k, x, a: extension_field(k, WRONG["m31"]), "use prime_field"),
    ],
)
def test_invalid_operands_are_rejected(mistake: Callable[..., Any], message: str) -> None:
    @kernel
    def wrong(k: Builder, x: Pointer[U64]) -> None:
        mistake(k, x, prime_field(k, NAMED["goldilocks"]).load(x, 0))

    with pytest.raises(TraceError, match=message) as caught:
        wrong.trace(MACHINE)
    assert str(caught.value).startswith(__file__)


GPU = Machine(
    "ptx", 32, frozenset(Capability) - {Capability.CHECKS, Capability.VECTOR_LANES},
    subgroup_size=32, arch="sm_90",
)  # fmt: skip
NOTHING: dict[str, Any] = {
    "None": None, "a float": 2.5, "negative": -1, "huge": 1 << 80, "text": "no", "a list": [None],
    "a mapping": {}, "an array": np.zeros(2), "a class": int, "an iterator": iter(()),
}  # fmt: skip


class Right:
    """Arguments that a method takes."""

    def __init__(self, k: Builder, x: Any) -> None:
        self.x, self.u, self.f, self.b = x, x[0], x[0].cast(f32), x[0] < 5
        self.room = k.shared(u32, 256)


METHODS: dict[str, Callable[[Right], dict[str, Any]]] = {
    "load": lambda r: {"pointer": r.x, "index": 0, "count": 2},
    "store": lambda r: {"pointer": r.x, "index": 0},
    "atomic_add": lambda r: {"pointer": r.x, "index": 0, "value": r.u},
    "atomic_compare_exchange": lambda r: {
        "pointer": r.x, "index": 0, "expected": r.u, "value": r.u,
    },
    "pointer_add": lambda r: {"pointer": r.x, "index": 0},
    "prefetch": lambda r: {"pointer": r.x, "index": 0, "count": 1},
    "copy_async": lambda r: {
        "shared": r.room, "to": 0, "source": r.x, "start": 0, "count": 4, "where": r.b,
    },
    "copy_async_wait": lambda r: {"pending": 0},
    "load_matrices": lambda r: {"pointer": r.room, "index": 0, "transposed": False},
    "store_matrices": lambda r: {
        "pointer": r.room, "index": 0, "words": [r.u] * 2, "transposed": False,
    },
    "mma": lambda r: {"element": bf16, "a": [r.u] * 4, "b": [r.u] * 2, "c": [r.f] * 4},
    "shared": lambda r: {"element": u32, "count": 4},
    "private": lambda r: {"element": u32, "count": 4},
    "table": lambda r: {"element": u32, "numbers": [1, 2]},
    "constant": lambda r: {"number": 3, "type_": u32},
    "operand": lambda r: {"item": 3, "type_": u32},
    "cast": lambda r: {"value": r.u, "target": f32},
    "bitcast": lambda r: {"value": r.u, "target": f32},
    "select": lambda r: {"condition": r.b, "a": r.u, "b": r.u},
    "minimum": lambda r: {"a": r.u, "b": r.u},
    "maximum": lambda r: {"a": r.u, "b": r.u},
    "fma": lambda r: {"a": r.f, "b": r.f, "c": r.f},
    "dot4": lambda r: {"a": r.u, "b": r.u, "c": 3},
    "dot2": lambda r: {"a": r.u, "b": r.u, "c": 3},
    "dot2_low_bytes": lambda r: {"a": r.u, "b": r.u, "c": 3},
    "dot2_high_bytes": lambda r: {"a": r.u, "b": r.u, "c": 3},
    "exp": lambda r: {"value": r.f},
    "pack_f16": lambda r: {"low": r.f, "high": r.f},
    "unpack_f16": lambda r: {"word": r.u},
    "unpack_bf16": lambda r: {"word": r.u},
    "unpack_float8": lambda r: {"element": e4m3, "word": r.u},
    "shuffle": lambda r: {"value": r.u, "lane": 0},
    "ballot": lambda r: {"condition": r.b},
    "subgroup_sum": lambda r: {"value": r.u},
    "uniform": lambda r: {"value": r.u},
    "assert_": lambda r: {"condition": r.b, "message": "less"},
    "emit": lambda r: {"name": "add", "operands": (r.u, r.u)},
    "if_": lambda r: {"condition": r.b},
    "range": lambda r: {"start": 0, "stop": r.u, "step": 1},
}  # fmt: skip
FINE = {("assert_", "message", "text"), ("copy_async", "where", "None")}


@pytest.mark.parametrize("method", METHODS)
def test_wrong_arguments_name_the_line(method: str) -> None:
    """No exception comes from Quod's internals, and nothing is misinterpreted."""
    arguments: list[str] = []

    @kernel
    def right(k: Builder, x: Pointer[U32]) -> None:
        arguments.extend(METHODS[method](Right(k, x)))

    right.trace(GPU)
    for argument in arguments:
        for kind, value in NOTHING.items():
            if (method, argument, kind) in FINE:
                continue

            @kernel
            def wrong(
                k: Builder, x: Pointer[U32], *, at: str = argument, operand: Any = value
            ) -> None:
                getattr(k, method)(**METHODS[method](Right(k, x)) | {at: operand})

            with pytest.raises(KernelError) as caught:
                wrong.trace(GPU)
            assert str(caught.value).startswith(__file__), (argument, kind)
