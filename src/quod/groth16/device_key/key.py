"""A proving key of a `DeviceCircuit`, made in a device's memory and kept there."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator

from quod.curve.array import Point, from_points
from quod.device.discovery import DeviceChoice, resolve_device
from quod.device.protocol import AnyDevice
from quod.device.runtime.background import Background
from quod.device.runtime.timeline import Timeline, or_null
from quod.errors import InputError
from quod.field.array import check_seed
from quod.field.moduli import Modulus
from quod.formats import Witness
from quod.frozen import frozen
from quod.groth16 import proof_stream as many
from quod.groth16 import prover
from quod.groth16.device_key.bases import group_of, make_points
from quod.groth16.device_key.circuit import DeviceCircuit
from quod.groth16.device_key.memory import KeyMemory
from quod.groth16.device_key.streamed import BLOCK, Mode, StreamedKey, room_for_blocks
from quod.groth16.device_key.sums import ResidentSums
from quod.groth16.proof import Proof
from quod.groth16.resident import ResidentKey
from quod.groth16.verifier import VerifyingKey


@frozen
class _Source:
    """A `quod.groth16.prover.KeySource` without a file."""

    path: str
    public: int
    fr: Modulus

    def check_unchanged(self) -> None:
        """Do nothing: there is no file that could change."""


class DeviceKey:
    """An INSECURE key for measurements: with `seed` anyone can forge proofs for it.

    It equals the key that `quod.groth16.setup.make_key` makes of the circuit and seed, but never
    exists on the host. Proofs are made as by `ProvingKey`, and verified before they are returned.
    pinned: witnesses are in page-locked memory (`device.pinned`); otherwise they are copied there.
    share: the share of the bases' bytes that stays on the device; blocks of the others are streamed
        as `mode` says (see `StreamedKey`).
    Raises DeviceError with the parts if the device has too little memory, InputError for a device
    that computes in host memory.
    """

    def __init__(
        self,
        circuit: DeviceCircuit,
        device: DeviceChoice,
        seed: int = 1,
        timeline: Timeline | None = None,
        *,
        pinned: bool = False,
        share: float | None = None,
        mode: Mode = "deferred",
        block: int = BLOCK,
    ) -> None:
        timeline = or_null(timeline)
        check_seed(seed)
        self.device = resolve_device(device)
        if self.device.host_memory:
            raise InputError(
                f"{self.device.name} computes in host memory: create the key with make_key instead"
            )
        self.memory = KeyMemory(self.device, circuit)
        self.memory.check()
        if share is not None:
            room_for_blocks(circuit, share, block)
        self.circuit, self.curve = circuit, circuit.curve
        self.zkey = _Source(f"the test key of {circuit.path}", circuit.public, circuit.fr)
        self.variables, self.public = circuit.wires, circuit.public
        self.groups = group_of(circuit, 1), group_of(circuit, 2)
        with timeline.stage("bases"):
            points = make_points(self.device, circuit, seed, timeline)
        self._single = points.single
        self.alpha_g1, self.beta_g1, self.delta_g1 = self._points("alpha_g1", "beta_g1", "delta_g1")
        self.beta_g2, self.delta_g2 = self._points("beta_g2", "delta_g2")
        self.digest = self._digest(points.ic)
        self.host: AnyDevice = resolve_device("cpu")
        self.self_check_key = VerifyingKey(
            self.curve, alpha_g1=self.alpha_g1, beta_g2=self.beta_g2,
            gamma_g2=points.single["gamma_g2"], delta_g2=self.delta_g2, ic=points.ic,
            device=self.host, path=self.zkey.path, allow_insecure=True,
        )  # fmt: skip
        self.checks = Background("quod-check", 1)
        self.resident: ResidentKey
        if share is None:
            self.resident = ResidentSums(
                self.device,
                circuit,
                points.bases,
                self.memory,
                timeline,
                pinned=pinned,
            )
        else:
            self.resident = StreamedKey(
                self.device, circuit, points.bases, timeline, share=share, mode=mode, block=block
            )

    @property
    def peak_bytes(self) -> int:
        """0, as the key already holds the memory of its proofs."""
        return 0

    def _points(self, *names: str) -> tuple[Point, ...]:
        return tuple(self._single[name] for name in names)

    def _digest(self, ic: list[Point]) -> bytes:
        """Compute the digest as `ProvingKey.digest` does."""
        hasher = hashlib.blake2b(self.curve.encode())
        for name in ("alpha_g1", "beta_g1", "beta_g2", "gamma_g2", "delta_g1", "delta_g2"):
            group = self.groups[name.endswith("g2")]
            hasher.update(from_points(group, [self._single[name]]).data)
        hasher.update(from_points(self.groups[0], ic).data)
        return hasher.digest()

    def prove(
        self,
        witness: Witness,
        *,
        seed: int | None = None,
        self_check: bool = True,
        timeline: Timeline | None = None,
    ) -> tuple[Proof, list[int]]:
        """See `ProvingKey.prove`."""
        return prover.prove(self, witness, seed=seed, self_check=self_check, timeline=timeline)

    def prove_many(
        self, witnesses: Iterable[Witness], *, seed: int | None = None, self_check: bool = True
    ) -> Iterator[tuple[Proof, list[int]]]:
        """See `ProvingKey.prove_many`."""
        return many.prove_many(self, witnesses, seed=seed, self_check=self_check)

    def close(self) -> None:
        """See `ProvingKey.close`."""
        self.resident.close()
        self.checks.close()
