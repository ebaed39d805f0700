"""Benchmarks of commitments, from a table in memory to the last message, and verification."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

from quod.bench.arithmetic.sumcheck import field_of
from quod.bench.measure.harness import Case, Parameter
from quod.commitment.ligero.checker.openings import OpeningChecker
from quod.commitment.ligero.scheme import Ligero
from quod.commitment.scheme import Claim, Scheme
from quod.commitment.scheme_names import WITH_POWERS, scheme_named
from quod.device.discovery import open_device
from quod.device.protocol import AnyDevice
from quod.device.runtime.timeline import Timeline
from quod.field.array import random_elements
from quod.field.element_bytes import Plain
from quod.field.moduli import Modulus
from quod.field.spec import FieldSpec
from quod.sumcheck.polynomial import SumOfProducts
from quod.sumcheck.run import SumcheckRun, words_to_elements
from quod.sumcheck.shape import Shape
from quod.transcript.labels import Label
from quod.transcript.messages import ProofReader, ProofWriter
from quod.transcript.transcript import Transcript

_FIELDS = {"hyrax": "bn254.fr", "hyperkzg": "bn254.fr"}
"""The default field of a scheme; of others `_FIELD`."""
_FIELD = "m31.4"
_TAU = 1 << 200


def cases(
    device: str, scheme: str, field: str | None, sizes: Sequence[int], *, claims: int
) -> Iterator[Case]:
    """Yield for each size 2**k a commitment, the opening of `claims` claims, and verification."""
    opened, commitment_scheme = open_device(device), _scheme(scheme, max(sizes, default=1))
    element_field = field_of(field or _FIELDS.get(scheme, _FIELD))
    for log2_size in sizes:
        yield from _size_cases(opened, commitment_scheme, element_field, log2_size, claims)


def _scheme(name: str, log2_size: int) -> Scheme:
    """Return a scheme; HyperKZG with powers of a known tau, which cost the same as others."""
    if name != WITH_POWERS:
        return scheme_named(name)
    from quod.commitment import HyperKzg, ReferenceString

    return HyperKzg(ReferenceString.of_tau(_TAU, log2_size, insecure=True))


def _size_cases(
    device: AnyDevice, scheme: Scheme, field: FieldSpec, log2_size: int, count: int
) -> Iterator[Case]:
    """Yield the cases of one size; `count` claims are opened."""
    table = random_elements(field.modulus, 1 << log2_size, seed=log2_size)
    resident_table = device.upload(table)
    drawn = words_to_elements(field, random_elements(field, count * log2_size, seed=count))
    points = [drawn[start : start + log2_size] for start in range(0, count * log2_size, log2_size)]
    claims = [Claim(tuple(point), _value(device, field, table, point)) for point in points]
    # Ligero's committer records its stages in a timeline.
    committer: Any = scheme.committer(device, field, log2_size, allow_bits=0)
    traces = {"timeline"} <= set(committer.commit.__annotations__)

    def commit(timeline: Timeline | None = None) -> ProofWriter:
        writer = ProofWriter(_new_transcript())
        committer.commit(resident_table, writer, *([timeline] if traces else []))
        return writer

    committed = commit()
    committed_state, commitment_bytes = committed.transcript.state, committed.getvalue()

    def open_claims(timeline: Timeline | None = None) -> bytes:
        writer = ProofWriter(Transcript(committed_state, bound=True))
        committer.open(claims, writer, *([timeline] if traces else []))
        return commitment_bytes + writer.getvalue()

    proof = open_claims()

    def verify() -> None:
        reader = ProofReader(proof, _new_transcript())
        scheme.read(reader, field, log2_size, allow_bits=0).check(claims, reader)
        reader.end()

    verify()
    parameters: dict[str, Parameter] = {
        "scheme": scheme.name, "field": field.name, "log2": log2_size, "claims": count,
    }  # fmt: skip
    steps: list[tuple[str, Callable[..., object]]] = [("commit", commit), ("open", open_claims)]
    for step, run in steps:
        step_parameters = {**parameters, "time": step}
        yield Case(step_parameters, run, "ms", traced=run if traces else None)
    yield Case({**parameters, "time": "verify", "bytes": len(proof)}, verify, "ms")
    if not isinstance(scheme, Ligero):
        return
    checker = OpeningChecker(device, scheme.shape(field, log2_size))

    def check(timeline: Timeline | None = None) -> None:
        reader = ProofReader(proof, _new_transcript())
        checker.check(scheme.read(reader, field, log2_size, allow_bits=0), claims, reader, timeline)
        reader.end()

    yield Case(
        {**parameters, "time": "verify on the device", "bytes": len(proof)}, check, "ms",
        traced=check,
    )  # fmt: skip


def _new_transcript() -> Transcript:
    transcript = Transcript()
    transcript.absorb(Label.PROTOCOL, b"quod bench commitment")
    return transcript


def _value(device: AnyDevice, field: FieldSpec, table: Any, point: Sequence[Plain]) -> Plain:
    """Evaluate a table's polynomial at a point."""
    in_base = 0 if isinstance(field, Modulus) else 1
    shape = Shape(field, SumOfProducts.product(1), in_base=in_base, has_point=True)
    run = SumcheckRun(device, shape, len(point))
    run.set_table(0, table)
    run.set_point(point)
    return run.sum()
