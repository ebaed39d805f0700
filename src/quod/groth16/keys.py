"""Proving keys: a zkey, mapped or read into memory, with the data that all its proofs share."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import cached_property
from os import PathLike
from typing import TYPE_CHECKING

import numpy as np

from quod.curve.array import to_points
from quod.curve.group import Group
from quod.curve.groups import GROUPS
from quod.device.cache.compilations import compilations
from quod.device.discovery import DeviceChoice, open_ahead, resolve_device
from quod.device.protocol import AnyDevice, in_host_memory
from quod.device.runtime.background import Background
from quod.device.runtime.busy_time import BusyMeter
from quod.device.runtime.timeline import Timeline, or_null
from quod.errors import InputError
from quod.field.array import Words
from quod.formats import Witness, Zkey
from quod.formats.zkey.infinity import MAY_BE_INFINITE
from quod.groth16 import prover
from quod.groth16.host.key import HostKey
from quod.groth16.proof import Proof
from quod.groth16.resident import MAX_BATCH, ResidentKey
from quod.groth16.soundness import Weakness, key_points, weakness_of
from quod.groth16.verifier import VerifyingKey
from quod.validation import flag, whole_number, whole_number_or_none

MAX_LANES = 16
"""The largest number of proofs that one GPU computes concurrently."""

if TYPE_CHECKING:
    from quod.groth16.batch_prover import PendingOrError
    from quod.groth16.setup import Constraints


class ProvingKey:
    """A Groth16 proving key in the memory of a device: open it once, prove many times.

    `curve`, `variables`, `public` and `constraints` describe the circuit; `digest` is the BLAKE2b
    of the curve, alpha, beta, gamma, delta and IC, independent of the rest of the file. Threads may
    share a key: without `lanes`, their proofs are computed one after another, each with the whole
    device.
    """

    def __init__(
        self,
        zkey: Zkey,
        device: DeviceChoice = "cpu",
        timeline: Timeline | None = None,
        *,
        allow_insecure: bool = False,
        memory_budget: int | None = None,
        lanes: int = 1,
        max_batch: int | None = None,
        devices: Sequence[DeviceChoice] | None = None,
    ) -> None:
        """Open a zkey whose coordinates are below the modulus; see `from_zkey`.

        memory_budget: bytes of each device's memory; default: the device's budget.
        lanes: number of proofs that a GPU computes concurrently, for small circuits; CPUs and
            WebGPU compute one at a time.
        max_batch: the largest batch of witnesses, used if one proof does not fill the device: at
            most 32, rounded down to a power of two. Default: the size that fills the device. 1
            turns batches off and saves their memory.
        devices: GPUs that share each proof instead of one `device`; each holds a share of the
            bases.
        """
        timeline = or_null(timeline)
        self.zkey = zkey
        self._allow_insecure = flag("allow_insecure", allow_insecure)
        memory_budget = whole_number_or_none("memory_budget", memory_budget, 1)
        lanes = whole_number("lanes", lanes, 1, MAX_LANES)
        max_batch = whole_number_or_none("max_batch", max_batch, 1, MAX_BATCH)
        gpus = [] if devices is None else [resolve_device(choice) for choice in devices]
        if devices is not None:
            from quod.groth16.gpu.multi_gpu import MultiGpuKey, check_devices

            check_devices(gpus)
        opening = open_ahead(gpus[0] if gpus else device)
        self.curve = zkey.curve
        self.variables = zkey.variables
        self.public = zkey.public
        self.constraints = zkey.constraints
        self.groups = g1, g2 = self._group(1), self._group(2)
        (self.alpha_g1, self.beta_g1, self.delta_g1), (self.beta_g2, self.delta_g2) = (
            to_points(group, np.stack(points))
            for group, points in (
                (g1, (zkey.alpha_g1, zkey.beta_g1, zkey.delta_g1)),
                (g2, (zkey.beta_g2, zkey.delta_g2)),
            )
        )
        for name, point in (
            ("alpha_g1", self.alpha_g1), ("beta_g1", self.beta_g1), ("delta_g1", self.delta_g1),
            *key_points(zkey).items(),
        ):  # fmt: skip
            if point is None:
                raise InputError(
                    f"{name} is the point at infinity, with which anyone can forge "
                    "proofs; get the key again from its source",
                    path=zkey.path,
                )
        self.digest = _digest(zkey)
        # Self-checks begin while the last sums are computed. Their thread starts on demand: after a
        # fork, an executor would wait for threads that do not exist in the child process.
        self.checks = Background("quod-check", 1)
        self.device: AnyDevice
        self.host: AnyDevice
        self._warm_up: Background | None = None
        self.resident: ResidentKey
        if opening.done() and in_host_memory(host := opening.result()):
            self.device = self.host = host
            self.resident = HostKey(zkey, host, g1, g2, timeline)
            return
        from quod.groth16.gpu.key import GpuKey
        from quod.groth16.gpu.upload import LINGER_SECONDS
        from quod.groth16.gpu.warm_up import prepare_host

        self.checks = Background("quod-check", 1, linger=LINGER_SECONDS)
        self.host = resolve_device("cpu")
        # The host's kernels are compiled while the context of the GPU is created and the kernels of
        # the GPU are traced.
        with compilations.helpers_first():
            self._warm_up = prepare_host(self)
            try:
                self.device = opening.result()
                if gpus:
                    self.resident = MultiGpuKey(zkey, gpus, g1, g2, timeline, memory_budget)
                else:
                    self.resident = GpuKey(
                        zkey, self.device, g1, g2, timeline, memory_budget, lanes, max_batch
                    )
            except BaseException:
                self._warm_up.close()
                raise

    @classmethod
    def from_zkey(
        cls,
        path: str | PathLike[str],
        device: DeviceChoice = "cpu",
        timeline: Timeline | None = None,
        *,
        owned: bool = False,
        allow_insecure: bool = False,
        memory_budget: int | None = None,
        devices: Sequence[DeviceChoice] | None = None,
    ) -> ProvingKey:
        """Open a Groth16 zkey of snarkjs and prepare it for `device`.

        Checks everything except that points are on the curve; for a key of unknown origin call
        `check` as well. (A wrong point gives a wrong proof, which the self-check of `prove`
        rejects.) An insecure key proves too (see `weakness`), but its `verifying_key` requires
        `allow_insecure`. Raises `InputError`.

        The file stays mapped and must not be written to while the key is in use: truncation ends
        the process (SIGBUS). Each proof first checks that the file is unchanged, as do `check` and
        `verifying_key`; to replace a key, rename a complete file over it. With `owned`, for
        services, the whole file is read into memory instead, and later changes to it have no
        effect.
        """
        timeline = or_null(timeline)
        opening = open_ahead(device)
        with timeline.stage("read" if owned else "map"):
            zkey = Zkey.open(path, owned=owned)
        if opening.done():
            # Without the GPU there is nothing to check the file for.
            opening.result()
        stage = timeline.current

        def check_points() -> None:
            with timeline.stage("check coordinates", bytes=zkey.size, parent=stage):
                zkey.check_points()

        # It takes as long as the rest of opening a key for the CPU.
        checking = Background("quod-points", 1).begin(check_points)
        try:
            key = cls(
                zkey, device, timeline, allow_insecure=allow_insecure,
                memory_budget=memory_budget, devices=devices,
            )  # fmt: skip
        except BaseException:
            # An error of the key comes before what follows from it.
            checking.result()
            raise
        try:
            checking.result()
        except BaseException:
            key.close()
            raise
        return key

    @classmethod
    def from_bellman(
        cls,
        path: str | PathLike[str],
        r1cs: str | PathLike[str] | Constraints,
        device: DeviceChoice = "cpu",
        timeline: Timeline | None = None,
        *,
        checked: bool = True,
        allow_insecure: bool = False,
    ) -> ProvingKey:
        """Open parameters of bellman, with the constraint system of their circuit.

        r1cs: a .r1cs file, an open one, or a `quod.r1cs.Circuit`.
        Its wires, and the values of witnesses, are in bellman's order: the constant 1,
        the public inputs, the other variables (`quod.groth16.encodings.bellman_key`). With
        `checked`, every point must be on the curve and of prime order, as in bellman; points that
        the user's cache records as checked are skipped. The file is read into memory. Other
        arguments are those of `from_zkey`. Raises `InputError`, and `MismatchError` for the
        constraint system of another circuit.
        """
        from quod.groth16.encodings.bellman_key import zkey_of

        timeline = or_null(timeline)
        checked, target_device = flag("checked", checked), resolve_device(device)
        zkey = zkey_of(path, r1cs, target_device, timeline, checked=checked)
        return cls(zkey, target_device, timeline, allow_insecure=allow_insecure)

    @cached_property
    def weakness(self) -> Weakness | None:
        """The reason why anyone can forge proofs for the key, if the key shows one."""
        self.zkey.check_unchanged()
        return weakness_of(self.zkey)

    @property
    def insecure(self) -> bool:
        """True if the key shows that anyone can forge proofs for it, as a test key does."""
        return self.weakness is not None

    @property
    def verifying_key(self) -> VerifyingKey:
        """The checked verifying key.

        Raises `InputError` if it is malformed, and `InsecureKeyError` if anyone can forge proofs
        for it and this key was opened without `allow_insecure`.
        """
        if self.weakness is not None and not self._allow_insecure:
            raise self.weakness.error(self.zkey.path)
        return self.self_check_key

    @cached_property
    def self_check_key(self) -> VerifyingKey:
        """The verifying key of the self-check of proofs, which may be insecure."""
        self.zkey.check_unchanged()
        return VerifyingKey.from_zkey(self.zkey, device=self.host, allow_insecure=True)

    @cached_property
    def peak_bytes(self) -> int:
        """An upper bound on the bytes that a proof takes in addition to key and witness.

        On a GPU this is 0, as the key has allocated all memory of its proofs.
        """
        return self.resident.peak_bytes

    def check(self, *, subgroup: bool = True, timeline: Timeline | None = None) -> None:
        """Check that every point is on the curve and, with `subgroup`, of prime order.

        Raises `InputError` for the first malformed point. Takes about as long as a proof.
        """
        # Imported here because processes that prove do not need it.
        from quod.msm.subgroup import first_bad_point

        self.zkey.check_unchanged()
        timeline, subgroup = or_null(timeline), flag("subgroup", subgroup)
        for name, degree in (
            ("alpha_g1", 1), ("beta_g1", 1), ("beta_g2", 2), ("gamma_g2", 2), ("delta_g1", 1),
            ("delta_g2", 2), ("ic", 1), ("a", 1), ("b_g1", 1), ("b_g2", 2), ("c", 1), ("h", 1),
        ):  # fmt: skip
            group = self._group(degree)
            points: Words = self.zkey.quotient_points if name == "h" else getattr(self.zkey, name)
            with timeline.stage(f"check {name}", bytes=points.nbytes):
                rows = points.reshape(-1, *group.shape)
                infinity = name in MAY_BE_INFINITE
                first_bad = first_bad_point(
                    self.device, group, rows, subgroup=subgroup, infinity=infinity
                )
            if first_bad is not None:
                index, reason = first_bad
                label = name if points.ndim == len(group.shape) else f"point {index} of {name}"
                raise InputError(
                    f"{label} {reason}; the key is damaged or forged, get it again from its source",
                    path=self.zkey.path,
                )

    def prove(
        self,
        witness: str | PathLike[str] | Witness,
        *,
        seed: int | None = None,
        self_check: bool = True,
        timeline: Timeline | None = None,
    ) -> tuple[Proof, list[int]]:
        """Prove that a witness satisfies the circuit; return the proof and the public inputs.

        witness: the path of a .wtns file, or a `Witness`.
        seed: makes the proof deterministic, but not zero-knowledge towards anyone who knows the
            seed (see `quod.groth16.prover.blinding`); default: random blinding.
        self_check: whether the proof is verified before it is returned.

        Raises `InputError` for a damaged witness, a seed that is not an int of at least 0 or a
        changed key file, `MismatchError` for the witness of another circuit or curve,
        `VerificationError` if the proof does not verify (the witness does not satisfy the circuit,
        or the key is damaged) and `DeviceError` if `peak_bytes` exceeds the device's memory budget.
        """
        return prover.prove(self, witness, seed=seed, self_check=self_check, timeline=timeline)

    def begin(
        self,
        witness: str | PathLike[str] | Witness,
        *,
        seed: int | None = None,
        self_check: bool = True,
        timeline: Timeline | None = None,
        meter: BusyMeter | None = None,
        pinned: bool = False,
    ) -> prover.PendingProof:
        """Begin a proof that the caller finishes; other proofs may begin meanwhile. See `prove`.

        On a GPU this returns after the upload of the witness; if `in_progress` proofs have begun,
        it waits until one ends. `meter` counts the time in which the device computes. `pinned`
        says that the witness's values are in page-locked memory (`device.pinned`).
        """
        return prover.begin(
            self, witness, seed=seed, self_check=self_check, timeline=timeline, meter=meter,
            pinned=pinned,
        )  # fmt: skip

    @property
    def in_progress(self) -> int:
        """The number of proofs in progress at once that keeps the device busy."""
        return self.resident.in_progress

    def begin_batch(
        self, witnesses: Sequence[Witness], *, meter: BusyMeter | None = None
    ) -> list[PendingOrError]:
        """Begin a batch of proofs, as `begin` does; return each proof, or its error.

        A batch has at most `max_batch` witnesses. The first proof that is asked for a result
        computes the batch; cancelling or closing one does not affect the others.
        """
        from quod.groth16.batch_prover import begin_batch

        return begin_batch(self, witnesses, meter)

    @property
    def max_batch(self) -> int:
        """The largest batch of witnesses; 1 if one witness fills the device.

        The first access allocates the memory of batches, if there is enough.
        """
        batches = self.resident.batches
        return 1 if batches is None else batches.most

    def wait_for_turn(self, waiting: Callable[[], int]) -> None:
        """Wait until `begin_batch` can begin at once; only for the thread that begins proofs.

        waiting: returns the number of witnesses to prove. With batches, fewer than `max_batch`
        witnesses also wait until the device is idle, as a batch takes hardly longer than one proof.
        Without batches this returns at once.
        """
        if (batches := self.resident.batches) is not None:
            batches.wait(waiting)

    def prepare(self, *, with_batches: bool = False) -> None:
        """Allocate memory now, such as page-locked memory, that the first proofs would allocate.

        With `with_batches`, also allocate and record the batches of each size.
        """
        self.resident.prepare()
        self.self_check_key.prepare()
        if with_batches and (batches := self.resident.batches) is not None:
            batches.prepare()

    def prove_many(
        self,
        witnesses: Iterable[str | PathLike[str] | Witness],
        *,
        seed: int | None = None,
        self_check: bool = True,
    ) -> Iterator[tuple[Proof, list[int]]]:
        """Prove many witnesses in order, as `prove` does; a generator of proofs and public inputs.

        Proofs are pipelined: on a GPU one witness is uploaded and another proof is finished and
        checked while a third is computed. If one proof does not fill the GPU, up to 32 witnesses
        that arrive within 5 ms are proved as a batch; the first call takes the memory for batches
        from the rest of the key's budget. A witness in memory must not change before its proof is
        returned. An error of `prove`, or of the iterable of witnesses, is raised after the proofs
        of all earlier witnesses.
        """
        # Imported here because processes that prove once do not need it.
        from quod.groth16.proof_stream import prove_many

        return prove_many(self, witnesses, seed=seed, self_check=self_check)

    def close(self) -> None:
        """Stop the threads that wait for the next proof; the key cannot prove afterwards."""
        if self._warm_up is not None:
            self._warm_up.close()
        self.resident.close()
        self.checks.close()

    def _group(self, degree: int) -> Group:
        return GROUPS[f"{self.curve}.g{degree}"]


def _digest(zkey: Zkey) -> bytes:
    """Return `ProvingKey.digest`: the hash of the points in the encoding of zkeys."""
    hasher = hashlib.blake2b(zkey.curve.encode())
    for name in ("alpha_g1", "beta_g1", "beta_g2", "gamma_g2", "delta_g1", "delta_g2", "ic"):
        hasher.update(np.ascontiguousarray(getattr(zkey, name)).data)
    return hasher.digest()
