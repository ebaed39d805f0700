"""Sumchecks on every device, against a model on plain integers, message by message."""

from __future__ import annotations

import functools
from collections.abc import Iterator
from typing import Any
from unittest.mock import Mock, patch

import numpy as np
import pytest

from quod import sumcheck
from quod.device.discovery import open_device
from quod.device.emulated.device import EmulatedDevice
from quod.device.protocol import AnyDevice
from quod.errors import DeviceError, InputError, VerificationError
from quod.field import EXTENSIONS, NAMED, Extension, FieldSpec, Modulus
from quod.field.any_field import field_arithmetic
from quod.field.array import Words, from_integers, random_elements, to_integers
from quod.field.element_bytes import Plain, encode
from quod.field.plain_extension import product
from quod.kernel import U32, Builder, Pointer, kernel, u32
from quod.sumcheck import Statement, SumcheckPlan, SumOfProducts
from quod.sumcheck.finish import added_parts, parts_at_once
from quod.sumcheck.plan import Inputs
from quod.sumcheck.shape import Shape
from quod.sumcheck.workgroup_sums import WorkgroupSums
from quod.transcript import Hash, Label, ProofWriter, Transcript
from tests.reference import sumcheck as reference
from tests.support.bound_transcripts import behind_commitments, bound
from tests.support.elements import drawn
from tests.support.idle_device import Idle
from tests.support.thorough import one_and_others

prove, verify = behind_commitments(sumcheck.prove), behind_commitments(sumcheck.verify)

TOY = Modulus("toy.17", 17)
FIELDS: dict[str, FieldSpec] = {
    **{name: NAMED[name] for name in ("bn254.fr", "goldilocks")},
    **{name: EXTENSIONS[name] for name in ("m31.4", "m31.3", "goldilocks.2", "koala_bear.4")},
    "toy.17": TOY,
    "toy.31.2": Extension("toy.31.2", Modulus("toy.31", 31), (-3, 0, 1)),
}
"""Those of the issue, and two so small that every challenge occurs."""

FORMS = {
    "product": SumOfProducts.product(2),
    "one": SumOfProducts.product(1),
    "six": SumOfProducts.product(6),
    "mixed": SumOfProducts(((1, (0, 1)), (-3, (2,)), (5, (2, 2, 0)), (7, ()))),
}


def words(field: FieldSpec, elements: list[Plain]) -> Words:
    if isinstance(field, Modulus):
        return from_integers(field, [c for (c,) in elements])
    return from_integers(field, elements)


def tables_of(
    field: FieldSpec, polynomial: SumOfProducts, log2_size: int, *, mixed: bool
) -> tuple[list[Words], list[list[Plain]]]:
    """Tables as they are given and as the model takes them; every other one in the prime field."""
    arrays, plain = [], []
    for table in range(polynomial.tables):
        table_field: FieldSpec = field.modulus if mixed and table % 2 else field
        elements = drawn(table_field, 1 << log2_size, 10 * log2_size + table)
        arrays.append(words(table_field, elements))
        plain.append([(*e, *([0] * (field.degree - len(e)))) for e in elements])
    return arrays, plain


def expected(
    statement: Statement, tables: list[list[Plain]], hash: Hash = Hash.SHA3_256
) -> tuple[bytes, tuple[Plain, ...], tuple[Plain, ...]]:
    """The model's proof, its point and its values."""
    field = statement.field
    transcript = bound(hash=hash)
    statement.absorb(transcript)

    def challenge(message: list[Plain]) -> Plain:
        transcript.absorb_elements(Label.ROUND, field, message)
        return transcript.challenge(field)

    messages, point, values = reference.prove(
        field, statement.polynomial.terms, tables, statement.point, challenge
    )
    data = b"".join(encode(field, message) for message in [*messages, values])
    return data, tuple(point), tuple(values)


CASES = [
    *one_and_others(
        [(name, "product", 6, True, True) for name in FIELDS],
        always=[("m31.4", "product", 6, True, True)],
    ),
    *one_and_others(
        [(name, "mixed", 5, False, True) for name in ("m31.4", "bn254.fr", "goldilocks.2")]
    ),
    ("m31.4", "product", 1, False, False),
    pytest.param("m31.4", "six", 3, True, True, marks=pytest.mark.thorough),
    ("bn254.fr", "one", 3, True, False), ("bn254.fr", "mixed", 4, True, False),
]  # fmt: skip


@pytest.mark.crossed("device", "name")
@pytest.mark.parametrize(("name", "form", "log2_size", "weighted", "mixed"), CASES)
def test_agrees_with_the_model(
    device: AnyDevice, name: str, form: str, log2_size: int, weighted: bool, mixed: bool
) -> None:
    field, polynomial = FIELDS[name], FORMS[form]
    arrays, plain = tables_of(field, polynomial, log2_size, mixed=mixed)
    point = drawn(field, log2_size, 5) if weighted else None
    proof = prove(device, field, polynomial, arrays, point=point)
    claim = reference.whole_sum(field, polynomial.terms, plain, point)
    assert proof.statement.claim == claim
    data, challenges, values = expected(proof.statement, plain)
    assert proof.data == data
    assert proof.reduced.point == challenges
    assert proof.reduced.values == values
    assert values == tuple(reference.multilinear(field, table, challenges) for table in plain)
    assert verify(proof.statement, proof.data) == proof.reduced


@pytest.mark.parametrize("name", one_and_others(["m31.4", "goldilocks.2", "toy.17"]))
def test_gpu_code_agrees_with_the_model(gpu_device: AnyDevice, name: str) -> None:
    """Also on an interpreter."""
    test_agrees_with_the_model(gpu_device, name, "product", 3, True, True)


@pytest.mark.crossed("device", "name")
@pytest.mark.parametrize(
    ("log2_size", "log_capacity", "weighted", "name"),
    one_and_others(
        [(7, 3, True, "bn254.fr"), (7, 1, False, "goldilocks"),
         *((size, capacity, weighted, "m31.4")
           for size, capacity in ((7, 1), (7, 3), (3, 1), (4, 3)) for weighted in (False, True))],
        always=[(4, 3, False, "m31.4")],
    ),
)  # fmt: skip
def test_rounds_on_large_tables_match_the_final_kernel(
    device: AnyDevice, log2_size: int, log_capacity: int, weighted: bool, name: str
) -> None:
    """Every kernel path gives the bytes of the final kernel alone."""
    field, batch = FIELDS[name], 3
    in_base = 1 if field.degree > 1 else 0
    shape = Shape(field, SumOfProducts(((1, (0, 1)), (2, (2,)))), in_base, weighted)
    base = random_elements(field.modulus, max(1, in_base * batch << log2_size), seed=1)
    extended = random_elements(field, (3 - in_base) * batch << log2_size, seed=2)
    points = random_elements(field, batch * log2_size, seed=4)
    points[1] = 0
    claims = _claims(shape, batch, base, extended, points)
    run = functools.partial(_batch, device, shape, log2_size, batch, base, extended, points, claims)
    wanted = run(log2_size, 1)
    for depth in (1, 2):
        assert np.array_equal(run(log_capacity, depth), wanted)
    assert np.array_equal(run(log_capacity, 1, in_place=True), wanted)


def test_fused_two_round_pass_needs_enough_memory() -> None:
    """Within portable WebGPU nine values of all instances are more memory than a workgroup has."""
    shape = Shape(FIELDS["m31.4"], FORMS["product"], 1, True)
    for executor, depth in (("ir", 2), ("wgsl", 1)):
        plan = SumcheckPlan(EmulatedDevice(executor=executor), shape, 7, log_capacity=3)
        assert plan.passes[0].depth == depth
        memory = Mock()
        plan.record(
            Mock(), Inputs(memory, memory), equality=memory, progress=memory, proof=memory,
            folded=memory, partial=memory,
        )  # fmt: skip


def test_batched_sumchecks_share_multiprocessors() -> None:
    """Three workgroups of them fit the memory of each, and a single one has all of it."""
    device = EmulatedDevice(multiprocessors=4)
    for field in (EXTENSIONS["m31.3"], NAMED["bn254.fr"]):
        shape = Shape(field, SumOfProducts.product(2), 0, False)

        def kept(batch: int, shape: Shape = shape) -> tuple[int, int]:
            """Entries that the last rounds begin with, and bytes that they keep of them."""
            plan, statics, memory = SumcheckPlan(device, shape, 16, batch=batch), [], Mock()
            with patch.object(plan, "_compiled", lambda kernel, lanes=0, **static: statics.append(
                static
            )):  # fmt: skip
                plan.record(
                    Mock(), Inputs(memory, memory), equality=memory, progress=memory, proof=memory,
                    folded=memory, partial=memory,
                )  # fmt: skip
            entries = 1 << statics[-1]["form"].log_capacity
            assert statics[-1]["form"].in_place == (batch >= device.multiprocessors)
            table_entries = 1 << (16 - plan.rounds_before)
            return table_entries, 2 * entries * 4 * shape.field.words

        limit = device.machine(128).shared_bytes_limit
        alone, many = kept(3), kept(4)
        assert alone[0] >= many[0]
        assert limit // 4 < alone[1] <= limit
        assert many[1] <= limit // 3


@kernel
def two_totals(
    k: Builder, groups: U32, partial: Pointer[U32], out: Pointer[U32], *, field: FieldSpec,
    at_once: int,
) -> None:  # fmt: skip
    """The totals of two values of `groups` parts each."""
    f = field_arithmetic(k, field)
    sums = WorkgroupSums(k, f, 2)
    totals = sums.totals(added_parts(f, partial, k.constant(0, u32), 2, groups, at_once))
    with k.if_(k.local_id() == 0):
        for place, total in enumerate(totals):
            f.store(out, place, total)


@pytest.mark.parametrize("groups", [1, 7, 32, 77])
def test_round_end_sums_any_number_of_partial_sums(device: AnyDevice, groups: int) -> None:
    modulus, lanes = NAMED["m31"], 8
    parts = random_elements(modulus, 2 * groups, seed=groups)
    out = device.allocate(8)
    at_once = parts_at_once(groups, lanes)
    compiled = device.compile(two_totals, lanes=lanes, field=modulus, at_once=at_once)
    device.launch(compiled, 1, groups, device.upload(parts), out)
    totals = np.zeros((2, 1), np.uint32)
    device.download(out, totals)
    wanted = np.array(to_integers(modulus, parts)).reshape(2, groups).sum(axis=1)
    assert to_integers(modulus, totals) == (wanted % modulus.value).tolist()


@pytest.mark.parametrize("weighted", [False, True])
def test_larger_tables_compile_no_further_kernels(weighted: bool) -> None:
    """A round's end had a statement for each part: at 2^26 it took minutes to compile."""
    device, shape = open_device("cpu"), Shape(FIELDS["m31.4"], FORMS["product"], 1, weighted)

    def compiled(log2_size: int) -> set[Any]:
        plan, kernels, memory = SumcheckPlan(device, shape, log2_size), set(), Mock()
        with patch.object(plan, "_compiled", lambda kernel, lanes=0, **static: kernels.add(
            (kernel.name, lanes, *sorted(static.items()))
        )):  # fmt: skip
            plan.record(
                Mock(), Inputs(memory, memory), equality=memory, progress=memory, proof=memory,
                folded=memory, partial=memory,
            )  # fmt: skip
        return kernels

    small = compiled(20)
    assert {"finish_rounds", "fold_and_evaluate"} < {name for name, *_ in small}
    assert compiled(26) == small


def _claims(shape: Shape, batch: int, base: Words, extended: Words, points: Words) -> Words:
    """The sums of a batch, by the model."""
    field, in_base = shape.field, shape.in_base
    of_base = plain(field.modulus, base) if in_base else []
    entries = [(*e, *([0] * (field.degree - 1))) for e in of_base] + plain(field, extended)
    size = len(entries) // (3 * batch)
    each = len(points) // batch
    coordinates, sums = plain(field, points), []
    for number in range(batch):
        tables = [entries[at * size :][:size] for at in range(number, 3 * batch, batch)]
        point = coordinates[number * each :][:each] if shape.has_point else None
        sums.append(reference.whole_sum(field, shape.polynomial.terms, tables, point))
    return words(field, sums)


def plain(field: FieldSpec, array: Words) -> list[Plain]:
    integers: Any = to_integers(field, array)
    return [e if isinstance(e, tuple) else (e,) for e in integers]


def _batch(
    device: AnyDevice, shape: Shape, log2_size: int, batch: int, base: Words, extended: Words,
    points: Words, claims: Words, log_capacity: int, depth: int, in_place: bool = False,
) -> Words:  # fmt: skip
    """Return the messages of a batch, each sumcheck with a transcript and a claim of its own."""
    plan = SumcheckPlan(
        device, shape, log2_size, batch=batch, log_capacity=log_capacity, depth=depth,
        in_place=in_place,
    )  # fmt: skip
    before = max(0, log2_size - log_capacity - (in_place and not device.host_memory))
    # A core folds the inputs where they are if it has all rounds.
    is_alone = before == 1 and device.host_memory and not shape.has_point
    assert plan.rounds_before == (0 if is_alone else before)
    field = shape.field
    progress = np.zeros(plan.progress_bytes // 4, np.uint32)
    progress[: batch * field.words] = claims.reshape(-1)
    progress[-8 * batch :] = np.arange(8 * batch)
    proof = device.allocate(plan.proof_bytes)
    equality, partial = (
        device.allocate(size) for size in (plan.equality_bytes, plan.partial_bytes)
    )
    recording = device.stream().record()
    if shape.has_point:
        plan.record_point(recording, device.upload(points), equality)
    plan.record(
        recording, Inputs(device.upload(base), device.upload(extended)), equality=equality,
        progress=device.upload(progress), proof=proof,
        folded=device.allocate(plan.folded_bytes), partial=partial,
    )  # fmt: skip
    recording.finish().submit().wait()
    sent = np.empty(plan.proof_bytes // 4, np.uint32)
    device.download(proof, sent)
    return sent


@pytest.mark.crossed("device", "name")
@pytest.mark.parametrize(
    ("name", "mixed", "weighted", "log_capacity", "depth"),
    one_and_others(
        [
            ("bn254.fr", False, True, 1, 1),
            ("m31.4", True, True, 4, 1),
            ("m31.4", True, False, 1, 2),
        ],
    ),
)
def test_scales_multiply_their_terms(
    device: AnyDevice, name: str, mixed: bool, weighted: bool, log_capacity: int, depth: int
) -> None:
    """A scale equals a table that is the scale times another."""
    field, log2_size, batch = FIELDS[name], 4, 2
    scales = drawn(field, 2 * batch, 3)
    polynomial = SumOfProducts(((1, (1, 2)), (-2, (0,)), (1, (0, 1)), (1, (2, 2))))
    shape = Shape(field, polynomial, 1 if mixed else 0, weighted, (0, 1, None, 0))
    plan = SumcheckPlan(
        device, shape, log2_size, batch=batch, log_capacity=log_capacity, depth=depth
    )
    table_fields = [field.modulus if mixed and table == 0 else field for table in range(3)]
    tables = [drawn(each, batch << log2_size, table) for table, each in enumerate(table_fields)]
    arrays = [words(each, table) for each, table in zip(table_fields, tables, strict=True)]
    points = drawn(field, batch * log2_size, 4)
    terms = [(1, (3, 2)), (-2, (4,)), (1, (0, 1)), (1, (5, 2))]
    cases: list[tuple[list[list[Plain]], list[Plain] | None]] = []
    for number in range(batch):
        mine = [
            [(*e, *([0] * (field.degree - len(e)))) for e in table[number << log2_size :][:16]]
            for table in tables
        ]
        for table, scale in ((1, 2 * number), (0, 2 * number + 1), (2, 2 * number)):
            mine.append([product(field, scales[scale], e) for e in mine[table]])
        point = points[number * log2_size :][:log2_size] if weighted else None
        cases.append((mine, point))
    claims = [reference.whole_sum(field, terms, mine, point) for mine, point in cases]
    equality = np.zeros((plan.equality_bytes // 4 // field.words, field.words), np.uint32)
    equality[plan.first_scale :] = words(field, scales)
    progress = np.zeros(plan.progress_bytes // 4, np.uint32)
    progress[: batch * field.words] = words(field, claims).reshape(-1)
    memory, sent = device.upload(equality), device.allocate(plan.proof_bytes)
    recording = device.stream().record()
    if weighted:
        plan.record_point(recording, device.upload(words(field, points)), memory)
    inputs = Inputs(
        device.upload(arrays[0]) if mixed else None,
        device.upload(np.concatenate(arrays[1 if mixed else 0 :])),
    )
    partial = device.allocate(plan.partial_bytes)
    plan.record_sum(recording, inputs, memory, partial)
    sums = np.empty((batch, plan.sum_groups, field.words), np.uint32)
    recording.download(partial.slice(0, sums.nbytes), sums)
    plan.record(
        recording, inputs, equality=memory, progress=device.upload(progress), proof=sent,
        folded=device.allocate(plan.folded_bytes), partial=partial,
    )  # fmt: skip
    recording.finish().submit().wait()
    proof = np.empty(plan.proof_bytes, np.uint8)
    device.download(sent, proof)
    of_rounds = proof[: batch * log2_size * shape.degree * 4 * field.words].tobytes()
    for number, (mine, point) in enumerate(cases):
        assert claims[number] == reference.add(field, *plain(field, sums[number]))
        transcript = Transcript(bytes(32))
        answer = functools.partial(_answered, transcript, field)
        messages, _, _ = reference.prove(field, terms, mine, point, answer)
        each = len(of_rounds) // batch
        sent_by_model = b"".join(encode(field, message) for message in messages)
        assert sent_by_model == of_rounds[number * each :][:each]


def _answered(transcript: Transcript, field: FieldSpec, message: list[Plain]) -> Plain:
    transcript.absorb_elements(Label.ROUND, field, message)
    return transcript.challenge(field)


def proof_of(field: FieldSpec) -> tuple[Statement, bytes]:
    arrays, _ = tables_of(field, FORMS["mixed"], 3, mixed=True)
    device = open_device("cpu")
    proof = prove(device, field, FORMS["mixed"], arrays, point=drawn(field, 3, 5))
    return proof.statement, proof.data


@pytest.mark.parametrize(
    "name", one_and_others(["bn254.fr", "m31.4", "goldilocks.2"], always=["bn254.fr", "m31.4"])
)
def test_mutated_proofs_are_refused(name: str) -> None:
    """Each byte, each end, and another encoding of the same elements."""
    field = FIELDS[name]
    statement, data = proof_of(field)
    for place in range(len(data)):
        changed = bytearray(data)
        changed[place] ^= 1 << place % 8
        with pytest.raises((VerificationError, InputError)):
            verify(statement, bytes(changed))
    for wrong in (data[:-1], data + b"\0", b"", data[4:], data * 2):
        with pytest.raises(InputError):
            verify(statement, wrong)
    size = field.modulus.bytes
    for place in range(0, len(data), size):
        again = int.from_bytes(data[place : place + size], "little") + field.modulus.value
        if again < 1 << 8 * size:
            other = data[:place] + again.to_bytes(size, "little") + data[place + size :]
            with pytest.raises(InputError, match="not below the modulus"):
                verify(statement, other)


def test_every_part_of_a_statement_changes_the_first_challenge() -> None:
    field = EXTENSIONS["m31.4"]
    claim, other, point = (1, 2, 3, 4), (1, 2, 3, 5), ((1, 1, 1, 1), (2, 0, 0, 0))
    product = SumOfProducts.product(2)
    statements = [
        Statement(field, product, 2, claim), Statement(field, product, 2, other),
        Statement(field, product, 2, claim, point),
        Statement(field, product, 2, claim, point[::-1]),
        Statement(field, product, 3, claim), Statement(field, SumOfProducts.product(3), 2, claim),
        Statement(field, SumOfProducts(((2, (0, 1)),)), 2, claim),
        Statement(EXTENSIONS["koala_bear.4"], product, 2, claim),
    ]  # fmt: skip
    challenges = set()
    for statement in statements:
        transcript = Transcript()
        statement.absorb(transcript)
        challenges.add(transcript.challenge(field))
    assert len(challenges) == len(statements)


def test_other_statements_are_rejected() -> None:
    field = FIELDS["m31.4"]
    statement, data = proof_of(field)
    assert statement.point is not None
    for wrong in (
        Statement(field, statement.polynomial, 3, (1, 2, 3, 4), statement.point),
        Statement(field, statement.polynomial, 3, statement.claim, statement.point[::-1]),
        Statement(field, statement.polynomial, 3, statement.claim),
        Statement(field, SumOfProducts(((1, (0, 1)), (-3, (2,)), (5, (2, 2, 0)))), 3,
                  statement.claim, statement.point),
    ):  # fmt: skip
        with pytest.raises(VerificationError):
            verify(wrong, data)
    with pytest.raises(VerificationError):
        before = Transcript()
        before.absorb(Label.COMMITMENT, b"other")
        verify(statement, data, transcript=before)


def test_false_claims_pass_on_toy_fields_at_the_bounded_rate() -> None:
    """A false claim survives a round unless its challenge is 0, where the prover's error vanishes:
    each round 1/p."""
    log2_size, batch = 2, 3000
    shape = Shape(TOY, SumOfProducts.product(2), 0, False)
    device = open_device("cpu")
    plan = SumcheckPlan(device, shape, log2_size, batch=batch)
    tables = random_elements(TOY, 2 * batch << log2_size, seed=1)
    parts = tables.reshape(2, batch, 1 << log2_size)
    integers = parts.astype(np.uint64) * pow(TOY.montgomery_radix, -1, 17) % 17
    sums = (integers[0] * integers[1]).sum(axis=1) % 17
    claims = [int(total + 1) % 17 for total in sums]
    progress = np.zeros(plan.progress_bytes // 4, np.uint32)
    progress[:batch] = from_integers(TOY, claims).reshape(-1)
    progress[-8 * batch :: 8] = np.arange(batch)
    sent = device.allocate(plan.proof_bytes)
    recording = device.stream().record()
    plan.record(
        recording, Inputs(None, device.upload(tables)),
        equality=device.allocate(plan.equality_bytes), progress=device.upload(progress),
        proof=sent, folded=device.allocate(plan.folded_bytes),
        partial=device.allocate(plan.partial_bytes),
    )  # fmt: skip
    recording.finish().submit().wait()
    proof = np.empty(plan.proof_bytes // 4, np.uint32)
    device.download(sent, proof)
    messages = proof[: batch * 2 * log2_size].reshape(batch, log2_size, 2).tolist()
    values = proof[batch * 2 * log2_size :].reshape(2, batch)
    plain = values.astype(np.uint64) * pow(TOY.montgomery_radix, -1, 17) % 17
    accepted = 0
    for number in range(batch):
        transcript, claim = Transcript(number.to_bytes(4, "little") + bytes(28)), claims[number]
        for first, second in messages[number]:
            transcript.absorb_elements(Label.ROUND, TOY, [(first,), (second,)])
            (r,) = transcript.challenge(TOY)
            zero = (claim - first - second) * 9 % 17
            claim = (zero + first * r + second * r * r) % 17
        accepted += claim == int(plain[0, number] * plain[1, number]) % 17
    rate = 1 - (1 - 1 / 17) ** log2_size
    assert abs(accepted / batch - rate) < 5 * (rate / batch) ** 0.5


def test_idle_device_is_detected() -> None:
    device: Any = Idle(open_device("cpu"))
    tables = [random_elements(TOY, 4, seed=1)]
    with pytest.raises(DeviceError, match="without computing"):
        prove(device, TOY, SumOfProducts.product(1), tables)


def test_statement_copies_its_arguments() -> None:
    class Turning(list[Plain]):
        """Another point each time it is looked at."""

        def __iter__(self) -> Iterator[Plain]:
            self[0] = (self[0][0] + 1 if type(self[0][0]) is int else 0,)
            yield self[0]
            self[0] = ("no element",)  # type: ignore[assignment]

    field, product = FIELDS["bn254.fr"], SumOfProducts.product(1)
    point: Any = Turning([(1,)])
    statement = Statement(field, product, 1, (0,), point)
    assert statement.point == ((2,),)
    writer = ProofWriter(Transcript())
    writer.elements(Label.ROUND, field, Turning([(1,)]))
    assert writer.getvalue() == (2).to_bytes(32, "little")


def test_wrong_arguments_are_refused() -> None:
    device, field = open_device("cpu"), EXTENSIONS["m31.4"]
    good = [random_elements(field, 4, seed=1), random_elements(field.modulus, 4, seed=2)]
    product: Any = SumOfProducts.product(2)
    wrong: Any
    for wrong in (
        good[:1], [good[0], good[1][:2]], [good[0], good[1][:3]], [good[0], None], "text", None,
        [good[0], good[1].astype(np.int64)], [good[0][:1], good[1][:1]],
        [good[0], np.full((4, 1), 0xFFFFFFFF, np.uint32)], [good[0], good[1].reshape(-1)],
    ):  # fmt: skip
        with pytest.raises(InputError):
            prove(device, field, product, wrong)
    for wrong in ([(0, 0, 0, 0)], "ab", [(0,), (1,)], [(0, 0, 0, 1 << 31)] * 2, [1, 2]):
        with pytest.raises(InputError):
            prove(device, field, product, good, point=wrong)
    five = Modulus("toy.5", 5)
    with pytest.raises(InputError, match="too few elements"):
        prove(device, five, SumOfProducts.product(6), [random_elements(five, 4, seed=1)] * 6)
    for wrong in (
        (), ((1, (0, 2)),), ((1.5, (0,)),), ((1, (0,) * 7),), ((1, ("0",)),), "text", ((1,),),
        ((1, (-1,)),), ((1, ()),), ((True, (0,)),), ((1, (0,)),) * 65,
        # As a decimal number it would be longer than Python writes; or take minutes to look at.
        ((1 << 1024, (0,)),), ((-(10**5000), (0,)),), ((1, range(1 << 62)),), ((1, b"\0"),),
    ):  # fmt: skip
        with pytest.raises(InputError):
            SumOfProducts(wrong)
    for wrong in (0, 7, 2.0, None, True):
        with pytest.raises(InputError):
            SumOfProducts.product(wrong)
