"""A proving key of a `DeviceCircuit`, made in a device's memory and kept there."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator
from typing import Self

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
from quod.groth16.device_key.bases import KeyPoints, group_of, make_points
from quod.groth16.device_key.circuit import DeviceCircuit
from quod.groth16.device_key.memory import CHUNK, KeyMemory
from quod.groth16.device_key.streamed import StreamedKey
from quod.groth16.device_key.sums import ResidentSums
from quod.groth16.proof import Proof
from quod.groth16.resident import ResidentKey
from quod.groth16.soundness import weakness
from quod.groth16.verifier import VerifyingKey


@frozen
class _Source:
    """A `quod.groth16.prover.KeySource` without a file."""

    path: str
    public: int
    fr: Modulus

    def check_unchanged(self) -> None:
        """Do nothing: there is no file that could change."""


def memory_for(
    circuit: DeviceCircuit, device: DeviceChoice, *, share: float | None = None, chunk: int = CHUNK
) -> KeyMemory:
    """Return the memory of a key and its proofs on a device.

    share: the share of the bases that stays on the device. Default: as much as fits.
    chunk: bases in a chunk that is streamed.
    Raises InputError for a device that computes in host memory, and DeviceError with the parts if
    there is too little memory.
    """
    target = resolve_device(device)
    if target.host_memory:
        raise InputError(
            f"{target.name} computes in host memory: create the key with make_key instead"
        )
    if share is None:
        return KeyMemory.fitting(target, circuit, chunk)
    memory = KeyMemory.of_share(target, circuit, share, chunk)
    memory.check()
    return memory


class DeviceKey:
    """A proving key in a device's memory, of a circuit that the device holds; see `ProvingKey`."""

    def __init__(self, memory: KeyMemory, points: KeyPoints, path: str, timeline: Timeline) -> None:
        """Prepare proofs with points that are in the device's memory; `path` names the key."""
        device, circuit = memory.device, memory.circuit
        self.device, self.circuit, self.curve = device, circuit, circuit.curve
        self.memory = memory
        self.zkey = _Source(path, circuit.public, circuit.fr)
        self.variables, self.public = circuit.wires, circuit.public
        self.groups = group_of(circuit, 1), group_of(circuit, 2)
        self.single = points.single
        self.alpha_g1, self.beta_g1, self.delta_g1 = self._points("alpha_g1", "beta_g1", "delta_g1")
        self.beta_g2, self.delta_g2 = self._points("beta_g2", "delta_g2")
        self.digest = self._digest(points.ic)
        self.host: AnyDevice = resolve_device("cpu")
        self.self_check_key = VerifyingKey(
            self.curve, alpha_g1=self.alpha_g1, beta_g2=self.beta_g2,
            gamma_g2=points.single["gamma_g2"], delta_g2=self.delta_g2, ic=points.ic,
            device=self.host, path=path, allow_insecure=True,
        )  # fmt: skip
        self.checks = Background("quod-check", 1)
        self.resident: ResidentKey
        if memory.staying is None:
            self.resident = ResidentSums(device, circuit, points.bases, memory, timeline)
        else:
            self.resident = StreamedKey(device, circuit, points.bases, memory, timeline)

    @classmethod
    def make(
        cls, circuit: DeviceCircuit, device: DeviceChoice, seed: int = 1,
        timeline: Timeline | None = None, *, share: float | None = None,
        chunk: int = CHUNK,
    ) -> Self:  # fmt: skip
        """Make an INSECURE key: anyone who knows `seed` can forge proofs for it.

        share, chunk: see `memory_for`. The device must first hold all bases.
        It equals the key that `quod.groth16.setup.make_key` makes of the circuit and seed, but
        never exists on the host. Raises the errors of `memory_for`.
        """
        timeline, memory = or_null(timeline), memory_for(circuit, device, share=share, chunk=chunk)
        check_seed(seed)
        with timeline.stage("bases"):
            points = make_points(memory.device, circuit, seed, timeline)
        return cls(memory, points, f"the test key of {circuit.path}", timeline)

    @property
    def insecure(self) -> bool:
        """True if anyone can forge proofs for the key; see `ProvingKey.insecure`."""
        key = self.self_check_key
        points = key.alpha_g1, key.beta_g2, key.gamma_g2, key.delta_g2
        return weakness(self.curve, *points) is not None

    @property
    def peak_bytes(self) -> int:
        """0, as the key already holds the memory of its proofs."""
        return 0

    def _points(self, *names: str) -> tuple[Point, ...]:
        return tuple(self.single[name] for name in names)

    def _digest(self, ic: list[Point]) -> bytes:
        """Compute the digest as `ProvingKey.digest` does."""
        hasher = hashlib.blake2b(self.curve.encode())
        for name in ("alpha_g1", "beta_g1", "beta_g2", "gamma_g2", "delta_g1", "delta_g2"):
            group = self.groups[name.endswith("g2")]
            hasher.update(from_points(group, [self.single[name]]).data)
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
