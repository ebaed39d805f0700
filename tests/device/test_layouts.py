"""Every size is laid out as the device takes it: plans of random sizes, bound and not run.

`QUOD_TEST_LAYOUTS=20000` lays out so many of each kind, and `QUOD_TEST_LAYOUTS_SEED` others.
"""

from __future__ import annotations

import os
import random
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from quod.curve.group import Group
from quod.curve.groups import GROUPS
from quod.curve.named import CURVES
from quod.device.cuda.planning import GpuModel
from quod.device.runtime.timeline import Timeline
from quod.errors import DeviceError, InputError
from quod.formats import Zkey, coefficient_dtype
from quod.groth16.gpu.key import GpuKey
from quod.msm import FixedBase, MsmOptions
from quod.msm.gpu.device_limits import DeviceLimits
from quod.msm.gpu.reduce.weighted_sums import line_bytes
from quod.msm.gpu.run import resident
from quod.msm.gpu.run.device_plan import plan_gpu_msm, with_batch
from quod.msm.gpu.run.engine import GpuEngine
from quod.msm.gpu.run.resident import ResidentMsm
from quod.msm.gpu.run.workspace import Arena, MsmBuffers, Workspace, workspace_bytes
from quod.msm.scalars import SCALAR_BYTES
from quod.ntt import NttPlan
from quod.ntt.ordering import Ordering
from quod.ntt.tables import store_of
from tests.device.layouts import H200, PORTABLE, PROFILES, LayoutDevice
from tests.support.thorough import one_and_others

SEED = int(os.environ.get("QUOD_TEST_LAYOUTS_SEED", "1"))
CASES = int(os.environ.get("QUOD_TEST_LAYOUTS", "100"))
_SIZES = 8
"""The number of MSM sizes tried over the same bases."""

_ORDERINGS: tuple[Ordering, ...] = ("NN", "NR", "RN", "RR")

# What a plan may say no to before it begins: more than the memory, or options that nothing fits.
_REFUSALS = ("the budget is", "are free for them", "too many digits", "too many buckets",
             "do not fit the device", "is too large; cut it",
             "streamed have no precomputed")  # fmt: skip


def any_count(rng: random.Random, most: float) -> int:
    """A size between 1 and 2**most: log-uniform, or about a power of two."""
    if rng.random() < 0.5:
        return int(2 ** rng.uniform(0, most))
    return max(1, (1 << rng.randint(0, int(most))) + rng.randint(-1, 1))


def any_options(rng: random.Random) -> MsmOptions:
    if rng.random() < 0.5:
        return MsmOptions()
    return MsmOptions(
        window_bits=rng.choice((None, None, rng.randint(3, 20))),
        precompute_factor=rng.choice((None, 1, 2, rng.randint(1, 16))),
        scalar_bits=rng.choice((None, None, 1, rng.randint(2, 250))),
        batch_size=rng.choice((None, 1, 4)),
    )


def points_of(group: Group, count: int) -> Any:
    """Memory that nobody looks at."""
    return np.zeros((count, *group.shape), np.uint32)


def lay_out_session(rng: random.Random, device: LayoutDevice, group: Group) -> str:
    """An MSM of scalars in host memory: resident, in parts, batched or streamed."""
    count = any_count(rng, 22)
    options, batch = any_options(rng), 1
    if rng.random() < 0.3:
        count, batch = min(count, 1 << 18), rng.randint(2, 40)
    # Bases that are streamed are copied, here as well.
    if rng.random() < 0.2:
        count = min(count, 1 << 18)
        options = MsmOptions(streamed=True, window_bits=options.window_bits)
    bases = GpuEngine(device, group, points_of(group, count), options)
    length = count if rng.random() < 0.5 else rng.randint(1, count)
    vectors = bases.batch(length, batch, None)
    bases.session(length, vectors, None)
    return f"{length} of {count} x {vectors}, {options}"


def lay_out_resident(rng: random.Random, device: LayoutDevice, group: Group) -> str:
    """MSMs of several sizes over the same bases, as proofs take them."""
    count = any_count(rng, 21)
    options = any_options(rng)
    bases = ResidentMsm(device, group, points_of(group, count), options)
    sizes = {count, *(rng.randint(1, count) for _ in range(_SIZES))}
    for length in sizes:
        lay_out_over(rng, device, bases, length)
    return f"{sizes} of {count}, {options}"


def lay_out_over(rng: random.Random, device: LayoutDevice, bases: ResidentMsm, length: int) -> None:
    """An MSM that begins anywhere, perhaps of gathered scalars, perhaps with an end on the device.

    More scalars may follow than it takes.
    """
    plan = bases.plan(length, rng.choice((1, 1, rng.randint(1, 8))))
    indices = device.allocate(4 * length) if rng.random() < 0.5 else None
    skipped, behind = (SCALAR_BYTES * rng.randint(0, 9) for _ in range(2))
    taken = SCALAR_BYTES * plan.batch * length
    scalars = device.allocate(skipped + taken + behind)
    words = scalars.slice(skipped, scalars.nbytes)
    if indices is not None:
        # These are all within reach, as a witness is.
        words = words.slice(0, min(words.nbytes, device.largest_buffer - skipped % 256))
    workspace = Workspace(device, bases.workspace_bytes(plan))
    recording = device.stream("msm").record()
    if rng.random() < 0.5:
        lines = device.allocate(line_bytes(plan))
        bases.record_to_lines(
            recording, words, lines, device.allocate(16), workspace=workspace, plan=plan,
            indices=indices,
        )  # fmt: skip
    else:
        bases.record(recording, words, workspace=workspace, plan=plan, indices=indices)
    recording.finish()


def lay_out_transform(rng: random.Random, device: LayoutDevice, group: Group) -> str:
    """A batch of transforms."""
    fr = group.scalars
    most = min(22, (device.largest_buffer // fr.bytes).bit_length() - 1)
    log_size, batch = rng.randint(0, most), rng.choice((1, 2, 3, rng.randint(1, 9)))
    ordering, coset = rng.choice(_ORDERINGS), rng.choice((None, 5))
    way: Any = rng.choice(("forward", "inverse"))
    plan = NttPlan(device, fr, log_size)
    # A buffer has at most twice what a kernel reaches.
    batch = max(1, min(batch, 2 * device.largest_buffer // (fr.bytes << log_size)))
    data = device.allocate((batch << log_size) * fr.bytes)
    recording = device.stream("ntt").record()
    plan.record(
        recording, way, data, batch=batch, ordering=ordering, coset=coset,
        scaled=rng.random() < 0.8,
    )  # fmt: skip
    recording.finish()
    store_of(device).release()
    return f"2^{log_size} x {batch}, {way} {ordering} {coset}"


def lay_out_table(rng: random.Random, device: LayoutDevice, group: Group) -> str:
    """Multiples of one point, as set-up makes them."""
    count = any_count(rng, 21)
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(
            "quod.msm.fixed_base._table",
            lambda device, group, base, shape: np.zeros(
                shape.windows * shape.half * group.point_words, np.uint64
            ),
        )
        table = FixedBase(device, group, group.parameters.generator, count)
    table.multiply(np.zeros((count, SCALAR_BYTES // 4), np.uint32))
    return f"{count} multiples"


def any_key(rng: random.Random, curve: str, most: float) -> Zkey:
    """A key of a random shape: sizes are all that is right about it."""
    fields = CURVES[curve]
    g1, g2 = GROUPS[f"{curve}.g1"], GROUPS[f"{curve}.g2"]
    constraints = any_count(rng, most)
    public = rng.randint(0, min(40, constraints))
    variables = max(public + 2, int(constraints * rng.uniform(0.5, 1.5)))
    domain = 1 << (constraints + public).bit_length()
    nonzeros = constraints * rng.randint(1, 4) + public + 1
    numbers = np.random.default_rng(rng.randrange(1 << 32))
    coefficients = np.zeros(nonzeros, coefficient_dtype(fields.fr.words))
    coefficients["matrix"] = numbers.integers(0, 2, nonzeros)
    # Some rows have many entries, and are cut.
    rows = numbers.integers(0, constraints, nonzeros)
    rows[: nonzeros // 4] = rng.randrange(constraints)
    coefficients["constraint"] = rows
    coefficients["signal"] = numbers.integers(0, variables, nonzeros)

    def points(group: Group, count: int, finite: float) -> Any:
        words = np.zeros((count, *group.shape), np.uint32)
        words[numbers.random(count) < finite, 0] = 1
        return words

    b = rng.choice((0.0, 0.3, 0.95, 1.0))
    single = {"alpha_g1": g1, "beta_g1": g1, "delta_g1": g1, "beta_g2": g2, "gamma_g2": g2,
              "delta_g2": g2}  # fmt: skip
    return Zkey.from_arrays(
        "a key", curve=curve, public=public, domain_size=domain, constraints=constraints,
        coefficients=coefficients,
        ic=points(g1, public + 1, 1.0), a=points(g1, variables, rng.choice((0.5, 1.0))),
        b_g1=points(g1, variables, b), b_g2=points(g2, variables, b),
        c=points(g1, variables - public - 1, 1.0), h=points(g1, domain, 1.0),
        **{name: points(group, 1, 1.0)[0] for name, group in single.items()},
    )  # fmt: skip


def lay_out_proof(rng: random.Random, device: LayoutDevice, group: Any) -> str:
    """A proving key with all recordings of a proof."""
    curve = group.curve.name
    zkey = any_key(rng, curve, 12 if rng.random() < 0.9 else 17)
    g1, g2 = GROUPS[f"{curve}.g1"], GROUPS[f"{curve}.g2"]
    key = GpuKey(zkey, device, g1, g2, Timeline())
    for _ in range(key.slots.most):
        key.slots.acquire()
    key.close()
    store_of(device).release()
    return f"{zkey.constraints} constraints, {zkey.variables} variables"


KINDS: dict[str, tuple[Callable[..., str], float]] = {
    "session": (lay_out_session, 1.0),
    "resident": (lay_out_resident, 1.0),
    "transform": (lay_out_transform, 0.5),
    "table": (lay_out_table, 0.25),
    "proof": (lay_out_proof, 0.1),
}


@pytest.fixture(autouse=True)
def every_form(monkeypatch: pytest.MonkeyPatch) -> None:
    """Bases are found to be in the subgroup, so that those of BLS12-377 take the Edwards form;
    and results are not finished, for which kernels would be compiled."""
    monkeypatch.setattr(
        resident, "is_in_subgroup", lambda device, group, points: np.ones(len(points), bool)
    )
    monkeypatch.setattr("quod.groth16.gpu.streams.RecordedPoints", lambda recorded: recorded)


@pytest.mark.parametrize(
    ("profile", "name", "count"),
    [
        # 16-bit keys of an odd number of entries, and scalars that are more than a binding reaches.
        (H200, "bls12_381.g1", 1 << 22),
        (PORTABLE, "bn254.g1", (1 << 22) + 1),
    ],
    ids=["H200", "portable"],
)
def test_previously_rejected_sizes_are_laid_out(profile: GpuModel, name: str, count: int) -> None:
    device, group = LayoutDevice(profile), GROUPS[name]
    GpuEngine(device, group, points_of(group, count), MsmOptions()).session(count, 1, None)


@pytest.mark.crossed("kind", "profile")
@pytest.mark.parametrize("profile", PROFILES, ids=lambda profile: profile.name)
@pytest.mark.parametrize("kind", KINDS)
def test_every_size_is_laid_out(kind: str, profile: GpuModel) -> None:
    lay_out, share = KINDS[kind]
    refused, cases = 0, max(1, round(CASES * share / len(PROFILES)))
    launches = 0
    for case in range(cases):
        rng = random.Random(f"{SEED} {kind} {profile.name} {case}")
        group = GROUPS[rng.choice(list(GROUPS))]
        device = LayoutDevice(profile, downloads=rng.choice((0, 1)))
        try:
            lay_out(rng, device, group)
        except (InputError, DeviceError) as error:
            if not any(words in str(error) for words in _REFUSALS):
                raise AssertionError(f"{kind} case {case} on {group.name}: {error}") from error
            refused += 1
        launches += device.launches
    # Most are laid out: one that refuses all of them would see nothing.
    assert launches >= cases
    assert refused <= cases / 4


@pytest.mark.parametrize(
    "profile", one_and_others(PROFILES, PROFILES[3:]), ids=lambda profile: profile.name
)
def test_every_array_of_a_workspace_is_whole_words(profile: GpuModel) -> None:
    """Thousands of counts, which is quick where the digits are chosen before."""
    rng = random.Random(f"{SEED} {profile.name}")
    device: Any = LayoutDevice(profile)
    for name, log2 in (("bn254.g1", 10), ("bls12_381.g1", 14), ("bn254.g2", 16), ("bn254.g1", 20)):
        plan = plan_gpu_msm(
            GROUPS[name],
            1 << log2,
            MsmOptions(),
            limits=DeviceLimits.of(device),
            base_budget=1 << 62,
        )
        for _ in range(2 * CASES):
            block_plan = with_batch(plan.largest_block, any_count(rng, log2), 1)
            memory = Workspace(device, workspace_bytes(device, block_plan))
            arrays = MsmBuffers.of(device, block_plan, Arena(device, memory))
            every = {**vars(arrays), **vars(arrays.chunks)}
            del every["chunks"]
            odd = {field: array.nbytes for field, array in every.items() if array.nbytes % 4}
            assert not odd, f"{block_plan.count} scalars over {name}"
