"""Groth16's quotient on a GPU, as launches in a recording."""

from __future__ import annotations

from quod.device.buffer import Buffer
from quod.device.protocol import AnyDevice
from quod.device.stream import RecordingStream
from quod.field.cost import product_cost
from quod.field.moduli import Modulus
from quod.field.strategy import prime_field
from quod.kernel import U64, Builder, Pointer, kernel, types


@kernel
def product_less(
    k: Builder,
    a: Pointer[U64],
    b: Pointer[U64],
    c: Pointer[U64],
    out: Pointer[U64],
    count: U64,
    *,
    modulus: Modulus,
) -> None:
    """out[i] = a[i] * b[i] - c[i], of elements in Montgomery form to integers below p."""
    f = prime_field(k, modulus)
    i = k.global_id().cast(types.u64)
    plain = f.constant(pow(modulus.montgomery_radix, -1, modulus.value))
    with k.if_(i < count):
        difference = f.load(a, i) * f.load(b, i) - f.load(c, i)
        f.store(out, i, difference * plain)


def record_product_less(
    recording: RecordingStream, device: AnyDevice, modulus: Modulus, evaluations: Buffer,
    out: Buffer,
) -> None:  # fmt: skip
    """Adds the step from a, b and c, one after another, to a*b - c out of Montgomery form."""
    each = evaluations.nbytes // 3
    count = each // modulus.bytes
    a, b, c = (evaluations.slice(i * each, (i + 1) * each) for i in range(3))
    recording.launch(
        device.compile(product_less, modulus=modulus), -(-count // device.lanes),
        a, b, c, out, count,
        label="quotient", bytes=4 * each, modmuls=2 * count,
        multiply_adds=2 * count * product_cost(modulus),
    )  # fmt: skip
