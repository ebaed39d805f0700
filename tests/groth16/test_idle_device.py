"""A device that does nothing, or skips a launch, and reports success is detected."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import pytest

from quod.curve.array import from_points
from quod.curve.groups import GROUPS
from quod.curve.named import CURVES
from quod.curve.pairing.products import miller_values, pairing_product, product_is
from quod.curve.weierstrass import operations
from quod.device.cpu.device import CpuDevice
from quod.device.emulated.device import EmulatedDevice, EmulatedSubmission
from quod.device.runtime.recording import Recording
from quod.device.runtime.sentinel import check_written, unwritten
from quod.errors import DeviceError, QuodError
from quod.field.array import from_integers, random_elements, to_integers
from quod.field.moduli import BN254_FR
from quod.frozen import replace
from quod.groth16 import Proof, ProvingKey, VerifyingKey
from quod.msm import MsmBases, MsmOptions, msm
from quod.msm.fixed_base import FixedBase
from quod.ntt import NttPlan, Ordering, coset_quotient, ntt
from quod.ntt.quotient import quotient_coefficients
from tests.groth16.conftest import Made
from tests.support.thorough import one_and_others

Make = Callable[[str], Made]
Leaves = Callable[[int], bool]


class Idle(CpuDevice):
    """A processor that leaves out launches by their number since `leave_out`."""

    def __init__(self) -> None:
        super().__init__()
        self.leave_out(lambda number: False)

    def leave_out(self, leaves: Leaves) -> None:
        self._leaves, self.launched = leaves, 0

    def execute(self, kernel: Any, groups: int, *arguments: Any) -> None:
        self.launched += 1
        if self._leaves(self.launched - 1):
            self.left = kernel.name
        else:
            super().execute(kernel, groups, *arguments)


class Half(CpuDevice):
    """A processor that runs half of the workgroups of one kernel."""

    kernel = ""

    def execute(self, kernel: Any, groups: int, *arguments: Any) -> None:
        super().execute(kernel, groups // 2 if kernel.name == self.kernel else groups, *arguments)


class IdleGpu(EmulatedDevice):
    """An interpreter that runs nothing, once it is told to."""

    idle = False

    def execute(self, kernel: Any, groups: int, *arguments: Any) -> None:
        if not self.idle:
            super().execute(kernel, groups, *arguments)


class StandingGpu(EmulatedDevice):
    """An interpreter whose recordings do nothing at all, copies included, once it is told to."""

    standing = False

    def submit(self, recording: Recording, name: str, **options: Any) -> EmulatedSubmission:
        submitted = Recording(self.name, (), self.space) if self.standing else recording
        return super().submit(submitted, name, **options)


def each_left_out(device: Idle, work: Callable[[], Any]) -> list[Leaves]:
    """Each launch of some work alone, all from each on, and all."""
    device.leave_out(lambda number: False)
    work()
    count = device.launched
    assert count > 1
    single = [lambda number, index=index: number == index for index in range(count)]
    suffixes = [lambda number, index=index: number >= index for index in range(count)]
    return [*single, *suffixes]  # type: ignore[list-item]


@pytest.fixture(params=["bn254", pytest.param("bls12_381", marks=pytest.mark.thorough)])
def curve(request: pytest.FixtureRequest) -> str:
    curve_name: str = request.param
    return curve_name


def opened(circuit_files: Make, curve: str, device: Idle, spare: int = 0) -> Any:
    """A key with so many more inputs that count for nothing, public inputs and a proof."""
    files = circuit_files(curve)
    key = ProvingKey.from_zkey(files.zkey, allow_insecure=True)
    proof, public = key.prove(files.wtns, seed=3)
    plain = key.verifying_key
    names = ("alpha_g1", "beta_g2", "gamma_g2", "delta_g2")
    points = {name: getattr(plain, name) for name in names}
    ic = [*plain.ic, *[plain.ic[0]] * spare]

    def build() -> VerifyingKey:
        return VerifyingKey(curve, **points, ic=ic, device=device, allow_insecure=True)

    return build, [*public, *[0] * spare], proof


@pytest.mark.parametrize("spare", [0, 30], ids=["multiples", "an MSM"])
def test_idle_verification_is_detected(circuit_files: Make, curve: str, spare: int) -> None:
    device = Idle()
    build, public, proof = opened(circuit_files, curve, device, spare)
    key = build()
    assert key.verify(public, proof)
    wrong = [public[0] ^ 1, *public[1:]]
    for leaves in each_left_out(device, lambda: key.verify(public, proof)):
        # What is left in memory is that of a proof that holds.
        device.leave_out(lambda number: False)
        assert key.verify(public, proof)
        for inputs in (public, wrong):
            device.leave_out(leaves)
            with pytest.raises(DeviceError, match="reported success without computing"):
                key.verify(inputs, proof)


def test_idle_key_generation_is_detected(circuit_files: Make, curve: str) -> None:
    device = Idle()
    build, public, _ = opened(circuit_files, curve, device)
    for leaves in each_left_out(device, lambda: build().prepare()):
        device.leave_out(leaves)
        with pytest.raises(DeviceError, match="without computing"):
            build().prepare()
    # A key whose own half of the equation was never computed, and a proof whose was not either.
    device.leave_out(lambda number: False)
    key = build()
    device.leave_out(lambda number: True)
    bad = Proof(curve, key.alpha_g1, key.beta_g2, key.alpha_g1)
    with pytest.raises(DeviceError, match="without computing"):
        key.verify(public, bad)


def test_checks_of_a_proving_key(circuit_files: Make, curve: str) -> None:
    device = Idle()
    key = ProvingKey.from_zkey(circuit_files(curve).zkey, device=device)
    for leaves in each_left_out(device, key.check):
        device.leave_out(leaves)
        with pytest.raises(DeviceError, match="without computing which points are in the group"):
            key.check()


def test_idle_proofs_are_detected(circuit_files: Make) -> None:
    files, device = circuit_files("bn254"), Idle()
    key = ProvingKey.from_zkey(files.zkey, device=device)
    key.prove(files.wtns)
    for every in (1, 2, 3, 7, 20):
        device.leave_out(lambda number, every=every: number % every == every - 1)  # type: ignore[misc]
        with pytest.raises(QuodError):
            key.prove(files.wtns)
    device.leave_out(lambda number: True)
    with pytest.raises(DeviceError, match="without computing"):
        key.prove(files.wtns, self_check=False)


def test_idle_msm_is_detected() -> None:
    group, device = GROUPS["bn254.g1"], Idle()
    points = from_points(group, [group.parameters.generator] * 40)
    scalars, others = (random_elements(group.scalars, 40, seed=seed) for seed in (1, 2))
    bases = MsmBases(device, group, points)
    right = msm(device, group, bases, scalars)
    for leaves in each_left_out(device, lambda: msm(device, group, bases, others)):
        # What is left in memory is that of the other scalars.
        device.leave_out(leaves)
        with pytest.raises(DeviceError, match="without computing"):
            msm(device, group, bases, scalars)
    device.leave_out(lambda number: False)
    assert msm(device, group, bases, scalars) == right


def test_idle_msm_digits_are_detected() -> None:
    """Missing bucket sizes would drop points from the sum."""
    group, device = GROUPS["bn254.g1"], Half()
    points = from_points(group, [group.parameters.generator] * 40)
    scalars = random_elements(group.scalars, 40, seed=1)
    bases = MsmBases(device, group, points)
    right = msm(device, group, bases, scalars)
    device.kernel = "count_digits"
    with pytest.raises(DeviceError, match="without computing the sizes of buckets"):
        msm(device, group, bases, scalars)
    device.kernel = ""
    assert msm(device, group, bases, scalars) == right


@pytest.mark.thorough
def test_idle_curve_operations_are_detected(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(operations, "_FEW_POINTS", 0)
    group, device = GROUPS["bls12_381.g1"], Idle()
    generator = group.parameters.generator
    points = from_points(group, [generator, None, generator])
    scalars = np.ones((3, 8), np.uint32)
    table = FixedBase(device, group, generator, 40)
    small = random_elements(group.scalars, 40, seed=1)
    pair = generator, CURVES["bls12_381"].g2.generator
    works: list[Callable[[], Any]] = [
        lambda: operations.add(device, group, points, points),
        lambda: operations.double(device, group, points),
        lambda: operations.multiply(device, group, points, scalars),
        lambda: operations.sum_points(device, group, points),
        lambda: [operations.negate(device, group, points) for _ in range(2)],
        lambda: [operations.is_finite(device, group, points) for _ in range(2)],
        lambda: table.multiply(small),
        lambda: FixedBase(device, group, generator, 40),
        lambda: pairing_product(device, CURVES["bls12_381"], [pair]),
    ]
    for work in works:
        for leaves in each_left_out(device, work):
            device.leave_out(leaves)
            with pytest.raises(DeviceError, match="without computing"):
                work()


@pytest.mark.parametrize(
    ("ordering", "inverse"),
    one_and_others([("NR", True), ("NN", False), ("RN", False), ("RR", True)]),
)
def test_idle_transforms_are_detected(ordering: Ordering, inverse: bool) -> None:
    device = Idle()
    values = random_elements(BN254_FR, 48, seed=1)

    def work() -> Any:
        return [
            ntt(values[:count], inverse=inverse, ordering=ordering, coset=coset, batch=batch,
                device=device)
            for count, batch, coset in ((32, 1, None), (32, 2, 5), (48, 3, None), (1, 1, 7))
        ]  # fmt: skip

    # The tables are made once.
    work()
    for leaves in each_left_out(device, work):
        device.leave_out(leaves)
        with pytest.raises(DeviceError, match="without computing a transform"):
            work()
    assert not ntt(np.zeros_like(values[:32]), device=Idle()).any()


@pytest.mark.parametrize(
    ("ordering", "coset", "log2_size"),
    [("NN", None, 2), ("NN", 5, 7), ("NR", 5, 13), ("NR", None, 7), ("RN", 5, 2),
     ("RN", None, 13), ("RR", None, 2), ("RR", 5, 7)],
)  # fmt: skip
def test_idle_in_place_transforms_are_detected(
    ordering: Ordering, coset: int | None, log2_size: int
) -> None:
    """In-place transforms, also of zeros, whose transform is zero."""
    device = Idle()
    plan = NttPlan(device, BN254_FR, log2_size)
    values = random_elements(BN254_FR, 2 * plan.size, seed=1)
    for data in (values, np.zeros_like(values)):
        for transform in (plan.forward, plan.inverse):
            array = data.copy()

            def work(array: Any = array, transform: Any = transform) -> None:
                transform(array, batch=2, ordering=ordering, coset=coset)

            # The tables are made once.
            work()
            kept = array.copy()
            device.leave_out(lambda number: False)
            work()
            for left_out in range(device.launched):
                array[:] = kept
                device.leave_out(lambda number, left_out=left_out: number == left_out)  # type: ignore[misc]
                with pytest.raises(DeviceError, match="without computing a transform"):
                    work()


def test_partly_idle_in_place_transform_is_detected() -> None:
    device = Half()
    plan = NttPlan(device, BN254_FR, 12)
    values = random_elements(BN254_FR, plan.size, seed=1)
    plan.forward(values)
    device.kernel = "transform_pass"
    with pytest.raises(DeviceError, match="without computing a transform"):
        plan.forward(values)


@pytest.mark.parametrize("quotient", [coset_quotient, quotient_coefficients])
def test_idle_in_place_quotient_is_detected(quotient: Callable[..., None]) -> None:
    device = Idle()
    plan = NttPlan(device, BN254_FR, 6)
    values = random_elements(BN254_FR, 3 * plan.size, seed=1)
    outs = (values[: plan.size], np.empty_like(values[: plan.size]))
    # The tables are made once.
    quotient(plan, values, outs[0])
    for out in outs:
        for leaves in each_left_out(device, partial(quotient, plan, values, out)):
            device.leave_out(leaves)
            with pytest.raises(DeviceError, match="without computing"):
                quotient(plan, values, out)


@pytest.mark.parametrize("inverse", [False, True], ids=["forward", "inverse"])
def test_idle_gpu_array_transforms_are_detected(inverse: bool) -> None:
    """All launches are left out, and then the copies as well."""
    values = random_elements(BN254_FR, 16, seed=1)
    devices: list[Any] = [IdleGpu(), StandingGpu()]
    for device in devices:
        plan = NttPlan(device, BN254_FR, 3)
        transform = plan.inverse if inverse else plan.forward
        for coset in (None, 5):
            sparse = np.zeros_like(values)
            transform(sparse, batch=2, coset=coset)
            assert not sparse.any()
            transform(values.copy(), batch=2, coset=coset)
            device.idle = device.standing = True
            array = values.copy()
            with pytest.raises(DeviceError, match="without computing a transform"):
                transform(array, batch=2, coset=coset)
            transform(sparse, batch=2, coset=coset)
            device.idle = device.standing = False
        device.close()


def test_transform_missing_its_last_element_is_detected() -> None:
    """X[7] = a + b*w^7 is x[7] = 0 here."""
    device = IdleGpu()
    plan = NttPlan(device, BN254_FR, 3)
    p = BN254_FR.value
    values = from_integers(BN254_FR, [p - pow(plan.generator, 7, p), 1, 0, 0, 0, 0, 0, 0])
    array = values.copy()
    plan.forward(array)
    assert (array != values).any()
    assert not array[7].any()
    plan.inverse(array, scaled=False)
    assert to_integers(BN254_FR, array)[:3] == [8 * (p - pow(plan.generator, 7, p)) % p, 8, 0]
    device.idle = True
    with pytest.raises(DeviceError, match="without computing a transform"):
        plan.forward(values)
    device.close()


def test_unwritten_marker_is_not_a_valid_point(monkeypatch: pytest.MonkeyPatch) -> None:
    """The answer for a finite point may have any value but zero, the one before it as well."""
    monkeypatch.setattr(operations, "_FEW_POINTS", 0)
    group = GROUPS["bn254.g1"]
    points = np.zeros((3, *group.shape), np.uint32)
    points[0, 0, 0] = points[2, 1, 3] = 1
    assert operations.is_finite(CpuDevice(), group, points).tolist() == [True, False, True]


def test_idle_gpu_is_detected() -> None:
    group, device = GROUPS["bn254.g1"], IdleGpu()
    points = from_points(group, [group.parameters.generator, None])
    scalars = random_elements(group.scalars, 2, seed=1)
    options = MsmOptions(window_bits=3, precompute_factor=1, scalar_bits=8)
    scalars[:, 0] &= 0xFF
    scalars[:, 1:] = 0
    device.idle = True
    with pytest.raises(DeviceError, match="without computing which bases are infinite"):
        MsmBases(device, group, points, options)
    device.idle = False
    bases = MsmBases(device, group, points, options)
    assert msm(device, group, bases, scalars) is not None
    device.idle = True
    with pytest.raises(DeviceError, match="without computing the sums of an MSM"):
        msm(device, group, bases, scalars)
    device.close()


def test_stale_sums_are_detected() -> None:
    """An idle GPU leaves the sums of the previous proof on the host."""
    group, device = GROUPS["bn254.g1"], StandingGpu()
    points = from_points(group, [group.parameters.generator] * 2)
    options = MsmOptions(window_bits=3, precompute_factor=1, scalar_bits=8)
    scalars = np.zeros((2, 8), np.uint32)
    for streamed in (False, True):
        bases = MsmBases(device, group, points, replace(options, streamed=streamed))
        for standing in (True, False, True, True):
            scalars[:, 0] += 1
            device.standing = standing
            if standing:
                with pytest.raises(DeviceError, match="without computing the sums of an MSM"):
                    msm(device, group, bases, scalars)
            else:
                msm(device, group, bases, scalars)
        device.standing = False
    device.close()


@pytest.mark.parametrize("wrong", [0, 1, 2], ids=["zeros", "another number", "a constant"])
def test_a_pairing_outside_the_target_group(wrong: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Numbers that are canonical and no power (q^12 - 1)/r: a kernel was wrong, or not run."""
    parameters, device = CURVES["bn254"], CpuDevice()
    pair = parameters.g1.generator, parameters.g2.generator
    values = miller_values(device, parameters, [pair])
    expected = pairing_product(device, parameters, [pair])

    def computed(device: Any, kernel: Any, groups: int, slots: Any, arguments: Any) -> None:
        execute(device, kernel, groups, slots, arguments)
        if kernel.name.startswith("pairing_final"):
            if wrong != 1:
                arguments[-1][:] = 0
            arguments[-1][0, 0] ^= wrong

    execute = CpuDevice.execute
    monkeypatch.setattr(CpuDevice, "execute", computed)
    with pytest.raises(DeviceError, match="without computing a pairing"):
        pairing_product(device, parameters, [pair])
    # No wrong proof, but no answer.
    with pytest.raises(DeviceError, match="without computing a pairing"):
        product_is(device, parameters, values, expected)


def test_unwritten_markers_are_detected() -> None:
    device = CpuDevice()
    for dtype in (np.uint16, np.uint32, np.uint64):
        array = np.zeros((3, 4), dtype)
        check_written(device, "nothing", array)
        array[1, 3] = np.iinfo(dtype).max
        with pytest.raises(DeviceError, match=r"^cpu.* without computing it: .* --device cpu$"):
            check_written(device, "it", array)
    with pytest.raises(DeviceError):
        check_written(device, "it", unwritten(2, 3))
