"""What newcomers put where a value or a type belongs: an error at their line, and what to write."""

from collections.abc import Callable
from typing import Any

import pytest

from quod.field import EXTENSIONS, NAMED, extension_field, prime_field
from quod.kernel import U32, U64, Builder, Machine, Pointer, kernel
from quod.kernel.errors import TraceError

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
        (lambda k, x, a: prime_field(k, WRONG["m31.2"]), "write extension_field"),
        (lambda k, x, a: prime_field(k, WRONG["seven"]), "must be of the type Modulus, not int"),
        (lambda k, x, a: extension_field(k, WRONG["m31"]), "write prime_field"),
    ],
)
def test_what_is_no_operand(mistake: Callable[..., Any], message: str) -> None:
    @kernel
    def wrong(k: Builder, x: Pointer[U64]) -> None:
        mistake(k, x, prime_field(k, NAMED["goldilocks"]).load(x, 0))

    with pytest.raises(TraceError, match=message) as caught:
        wrong.trace(MACHINE)
    assert str(caught.value).startswith(__file__)
