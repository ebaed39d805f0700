"""Benchmarks of product sumchecks with their transcripts, from tables to the last message."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

import numpy as np

from quod.bench.measure.harness import Case, Parameter
from quod.bench.peers.provers import IN_PROCESS
from quod.bench.peers.zorch import Zorch, why_not
from quod.device.discovery import open_device
from quod.device.memory.buffer import Buffer
from quod.device.protocol import AnyDevice, in_host_memory
from quod.device.runtime.timeline import Timeline
from quod.errors import InputError, QuodError
from quod.field.array import Words, random_elements
from quod.field.element_bytes import Plain
from quod.field.moduli import NAMED, Modulus
from quod.field.named_extensions import EXTENSIONS
from quod.field.plain_element import PlainElement, coefficients_of
from quod.field.spec import FieldSpec
from quod.sumcheck.plan import Inputs, SumcheckPlan
from quod.sumcheck.polynomial import SumOfProducts
from quod.sumcheck.run import elements_to_words, words_to_elements
from quod.sumcheck.shape import Shape
from quod.sumcheck.verifier import evaluate, read_rounds
from quod.transcript.messages import ProofReader
from quod.transcript.transcript import START, Transcript

_BLOCK = 1 << 18
"""The entries that the host draws; larger tables repeat them."""


def field_of(name: str) -> FieldSpec:
    """Return a field by name; raises InputError for an unknown one."""
    field = NAMED.get(name) or EXTENSIONS.get(name)
    if field is None:
        raise InputError(
            f"{name!r} is not a field; choose one of {', '.join((*NAMED, *EXTENSIONS))}"
        )
    return field


def cases(
    device: str, field: FieldSpec, sizes: Sequence[int], *, factors: int, batch: int,
    in_base: int, weighted: bool,
) -> Iterator[Case]:  # fmt: skip
    """Yield batches of `batch` products of `factors` tables, for each size 2**k.

    in_base: the number of tables in the prime field; they come first.
    weighted: whether the sums are weighted by eq(point, x).
    """
    opened = open_device(device)
    if in_base and isinstance(field, Modulus):
        raise InputError(f"{field.name} is a prime field itself; leave out --in-base")
    if in_base > factors:
        raise InputError(f"--in-base {in_base} exceeds the {factors} tables of the product")
    for log2_size in sizes:
        shape = Shape(field, SumOfProducts.product(factors), in_base=in_base, has_point=weighted)
        plan = SumcheckPlan(opened, shape, log2_size, batch=batch)
        parameters: dict[str, Parameter] = {
            "field": field.name, "log2": log2_size, "factors": factors, "batch": batch,
        }  # fmt: skip
        if in_base:
            parameters["in base"] = in_base
        if weighted:
            parameters["eq"] = True
        run = prepared(opened, plan)
        peer_problem = why_not(field, factors, batch, weighted=weighted)
        if peer_problem is not None or not in_host_memory(opened):
            absent = {"pyzorch": peer_problem or "it is compared on the CPU only"}
            yield Case(parameters, run, "ms", absent=absent, traced=run)
            continue
        peer = Zorch(field, log2_size)
        try:
            yield Case(
                parameters, run, "ms", peers={"pyzorch": peer}, peer_note=IN_PROCESS, traced=run
            )  # fmt: skip
        finally:
            peer.close()


def prepared(device: AnyDevice, plan: SumcheckPlan) -> Callable[..., None]:
    """Return a function that proves a plan over random tables; checks the first proof."""
    field, shape, batch, n = plan.field, plan.shape, plan.batch, plan.log2_size
    base_tables = _filled(device, field.modulus, shape.in_base * batch << n)
    extended_tables = _filled(device, field, (shape.tables - shape.in_base) * batch << n)
    inputs = Inputs(base_tables, extended_tables)
    equality, partial, folded = (
        device.allocate(size)
        for size in (plan.equality_bytes, plan.partial_bytes, plan.folded_bytes)
    )
    recording = device.stream("sum").record()
    point = None
    if shape.has_point:
        drawn = random_elements(field, batch * n, seed=n)
        point, points = words_to_elements(field, drawn[:n]), device.upload(drawn)
        plan.record_point(recording, points, equality)
    plan.record_sum(recording, inputs, equality, partial)
    recording.finish().run()
    words = np.empty((batch, plan.sum_groups, field.words), np.uint32)
    device.download(partial.slice(0, words.nbytes), words)
    claims = [
        sum(
            PlainElement.from_coefficients(field, words_to_elements(field, partial_sums)),
            PlainElement.zero(field),
        )
        for partial_sums in words
    ]
    stored = elements_to_words(field, coefficients_of(claims)).reshape(-1)
    start = np.zeros(plan.progress_bytes // 4, np.uint32)
    start[: stored.size] = stored
    initial_progress, progress = device.upload(start), device.upload(np.zeros_like(start))
    proof = device.allocate(plan.proof_bytes)
    sent_words = np.zeros(plan.proof_bytes // 4, np.uint32)
    recording = device.stream("sumcheck").record()
    recording.copy(initial_progress, progress)
    if shape.has_point:
        plan.record_point(recording, points, equality)
    plan.record(
        recording, inputs, equality=equality, progress=progress, proof=proof, folded=folded,
        partial=partial,
    )  # fmt: skip
    recording.download(proof, sent_words)
    recorded = recording.finish().recording

    def run(timeline: Timeline | None = None) -> None:
        device.stream("sumcheck").replay(recorded).run(timeline)

    run()
    _check(plan, claims[0], point, sent_words)
    return run


def _filled(device: AnyDevice, field: FieldSpec, entries: int) -> Buffer | None:
    """Allocate random elements in device memory, repeating one block."""
    if not entries:
        return None
    block = random_elements(field, min(entries, _BLOCK), seed=entries)
    data = device.allocate(entries * 4 * field.words, zero=False)
    for offset in range(0, data.nbytes, block.nbytes):
        device.upload(block, into=data.slice(offset, offset + block.nbytes))
    return data


def _check(
    plan: SumcheckPlan, claim: PlainElement, point: list[Plain] | None, sent: Words
) -> None:  # fmt: skip
    """Verify the first proof of a batch."""
    field, shape, n = plan.field, plan.shape, plan.log2_size
    proof_words = n * shape.degree * field.words
    reader = ProofReader(sent[:proof_words].astype("<u4").tobytes(), Transcript(START))
    remaining_claim, _ = read_rounds(
        reader, field, degree=shape.degree, variables=n, claim=claim, point=point
    )  # fmt: skip
    values = words_to_elements(field, sent[plan.batch * proof_words :])[:: plan.batch]
    if (
        evaluate(field, shape.polynomial, PlainElement.from_coefficients(field, values))
        != remaining_claim
    ):
        raise QuodError("a sumcheck does not verify; please report it")
