"""The Groth16 prover (Groth, "On the size of pairing-based non-interactive arguments", 2016).

With w the witness, a, b, c and h the bases of the key, and P_i the values of the quotient's
numerator (the product of the first two R1CS polynomials minus the third) on the odd coset (the odd
powers of a root of unity of twice the domain's order):

    A  = alpha + sum of a_i*w_i + r*delta
    B  = beta + sum of b_i*w_i + s*delta                           in G2
    C  = sum of c_i*w_i + sum of h_i*P_i + s*A + r*B - r*s*delta   with B in G1

where r and s are random. With A' and B' for the sums over a and b in G1, the last three terms of C
are s*A' + r*B' + (s*alpha + r*beta + r*s*delta). The sum in parentheses does not depend on the
witness: the host computes it, alpha + r*delta and beta + s*delta while the MSMs run.
"""

from __future__ import annotations

import functools
import hashlib
import os
from collections.abc import Callable, Mapping
from contextlib import ExitStack, closing
from os import PathLike
from typing import Any, Protocol, TypeGuard

import numpy as np

from quod.curve.array import Point
from quod.curve.group import Group
from quod.curve.weierstrass.affine import affine_group
from quod.device.memory.buffer import Buffer
from quod.device.protocol import AnyDevice, in_host_memory
from quod.device.runtime.background import Background
from quod.device.runtime.busy_time import BusyMeter
from quod.device.runtime.timeline import Timeline, or_null
from quod.errors import InputError, MismatchError
from quod.field.array import Words, check_seed, words_to_integers
from quod.field.moduli import Modulus
from quod.formats import Witness
from quod.formats.wtns import WitnessHeader
from quod.frozen import frozen
from quod.groth16.context import ProofContext, Tasks, self_check
from quod.groth16.points import multiples
from quod.groth16.proof import Proof
from quod.groth16.resident import ResidentKey, WitnessInMemory
from quod.groth16.verifier import Verification, VerifyingKey
from quod.groth16.warm_up import compile_checks


class KeySource(Protocol):
    """The source of a key, such as a zkey file; these are the attributes that a proof uses."""

    @property
    def path(self) -> str: ...
    @property
    def public(self) -> int: ...
    @property
    def fr(self) -> Modulus: ...

    def check_unchanged(self) -> None:
        """Raise InputError if the source has changed since it was opened."""


class KeyInUse(Protocol):
    """The attributes of a `quod.groth16.keys.ProvingKey` that a proof uses."""

    device: AnyDevice
    host: AnyDevice
    resident: ResidentKey
    checks: Background
    curve: str
    groups: tuple[Group, Group]
    public: int
    variables: int
    digest: bytes
    alpha_g1: Point
    beta_g1: Point
    beta_g2: Point
    delta_g1: Point
    delta_g2: Point

    @property
    def zkey(self) -> KeySource: ...
    @property
    def peak_bytes(self) -> int: ...
    @property
    def self_check_key(self) -> VerifyingKey: ...


def prove(
    key: KeyInUse,
    witness: str | PathLike[str] | Witness,
    *,
    seed: int | None = None,
    self_check: bool = True,
    timeline: Timeline | None = None,
) -> tuple[Proof, list[int]]:
    """See `ProvingKey.prove`."""
    return begin(key, witness, seed=seed, self_check=self_check, timeline=timeline).finish()


def begin(
    key: KeyInUse,
    witness: str | PathLike[str] | Witness,
    *,
    seed: int | None = None,
    self_check: bool = True,
    timeline: Timeline | None = None,
    meter: BusyMeter | None = None,
    pinned: bool = False,
) -> PendingProof:
    """See `ProvingKey.begin`."""
    return PendingProof(key, witness, seed, self_check, or_null(timeline), meter, pinned)


def check_request(key: KeyInUse, seed: int | None) -> None:
    """Raise as `ProvingKey.prove` does for a bad seed, a changed key file or too little memory."""
    if seed is not None:
        check_seed(seed)
    key.zkey.check_unchanged()
    key.device.check_budget(f"a proof with {key.zkey.path}", key.peak_bytes)


@frozen(eq=False)
class ProofInput:
    """The input of one proof: a witness, its public inputs and the blinding scalars.

    witness: the witness.
    values: the witness's values, in the memory from which the key reads them.
    public: the public inputs.
    r, s: the scalars that blind the proof.
    """

    witness: Witness
    values: Words | Buffer
    public: list[int]
    r: int
    s: int

    @classmethod
    def of(
        cls, key: KeyInUse, witness: str | PathLike[str] | Witness, seed: int | None,
        timeline: Timeline | None = None,
    ) -> ProofInput:  # fmt: skip
        """Return a witness's proof input, or a witness file's; raises as `ProvingKey.prove`."""
        fr = key.zkey.fr
        with or_null(timeline).stage("witness"):
            check = functools.partial(_check_fits, key)
            source = witness if isinstance(witness, Witness) else Witness.open(witness, check=check)
            values, first_values = _values(key, source)
            public = words_to_integers(fr, first_values[1:])
        seed_input = first_values if seed is None else source.values
        return cls(source, values, public, *blinding(fr, seed, key.digest, seed_input))


class PendingProof:
    """A proof in progress; the constructor begins it while other proofs are finished.

    Call either `finish`, or `compute` and then `check` with its result, each once and possibly in
    different threads. `close` ends a proof that is no longer needed.
    """

    def __init__(
        self,
        key: KeyInUse,
        witness: str | PathLike[str] | Witness,
        seed: int | None,
        self_check: bool,
        timeline: Timeline,
        meter: BusyMeter | None,
        pinned: bool = False,
    ) -> None:
        self._key, self._timeline = key, timeline
        check_request(key, seed)
        self._self_check = self_check
        self._proof_input = ProofInput.of(key, witness, seed, timeline)
        if self._self_check and in_host_memory(key.device):
            compile_checks(key.device, key.curve, key.groups)
        with ExitStack() as resources:
            self._context = ProofContext(
                timeline, resources.enter_context(timeline.stage("sums")), meter,
                pinned=pinned,
            )  # fmt: skip
            self._sums = resources.enter_context(
                closing(
                    key.resident.start(
                        self._proof_input.values, self._independent_tasks(), self._context
                    )
                )
            )
            self._resources = resources.pop_all()

    @property
    def public(self) -> list[int]:
        """The public inputs, from the witness."""
        return self._proof_input.public

    @property
    def spans(self) -> Mapping[str, tuple[int, int]]:
        """The times of the witness's upload and of the sums; see `ProofContext`."""
        return self._context.spans

    def finish(self) -> tuple[Proof, list[int]]:
        """Wait for the sums, check the proof, and return it with its public inputs."""
        proof = self.compute()
        self.check(proof)
        return proof, self.public

    def cancel(self) -> None:
        """Make `compute` end soon with a DeviceError, if the device can stop its work."""
        self._context.cancellation.cancel()

    def close(self) -> None:
        """Release the key's buffers that this proof uses; nothing can be computed afterwards."""
        self._resources.close()

    def compute(self) -> Proof:
        """Wait for the sums, and return the proof before its self-check."""
        key, timeline = self._key, self._timeline
        with self._resources:
            a, b, blinding_term = self._blind(self._sums.early())
            last_sums = self._sums.last()
        with timeline.stage("assemble"):
            law = affine_group(key.groups[0])
            c = functools.reduce(law.add, (last_sums["C"], last_sums["H"], blinding_term))
            return Proof(key.curve, a, b, c)

    # --- work that does not need the sums over c and h

    def _independent_tasks(self) -> Tasks:
        """Return the tasks that do not depend on the sums, by name."""
        tasks: dict[str, Callable[[], Any]] = {"fixed_terms": self._fixed_terms}
        if self._self_check:
            begin, key = self._begin_verification, self._key
            # While a GPU works, the host has cores for this; on a CPU the sums take them first.
            tasks["verification"] = (
                begin if in_host_memory(key.device) else key.checks.begin(begin).result
            )
        return tasks

    def _fixed_terms(self) -> tuple[Point, Point, Point]:
        """Return the terms of A, B and C that do not depend on the witness."""
        key, r, s = self._key, self._proof_input.r, self._proof_input.s
        g1, g2 = key.groups
        law1, law2 = (affine_group(group) for group in key.groups)
        with self._context.stage("fixed terms"):
            rs = r * s % key.zkey.fr.value
            r_delta, *terms_of_c = multiples(
                key.host, g1, [key.delta_g1, key.delta_g1, key.alpha_g1, key.beta_g1], [r, rs, s, r]
            )
            (s_delta,) = multiples(key.host, g2, [key.delta_g2], [s])
            return (
                law1.add(key.alpha_g1, r_delta), law2.add(key.beta_g2, s_delta),
                functools.reduce(law1.add, terms_of_c),
            )  # fmt: skip

    def _begin_verification(self) -> Verification:
        with self._context.stage("verifying key"):
            self._key.self_check_key.prepare()
            return self._key.self_check_key.begin(self.public)

    def _blind(self, sums: dict[str, Any]) -> tuple[Point, Point, Point]:
        """Return A, B, and the terms of C other than the sums over c and h."""
        key = self._key
        law1, law2 = (affine_group(group) for group in key.groups)
        fixed_a, fixed_b, fixed_c = sums["fixed_terms"]
        with self._context.stage("blind"):
            a, b = law1.add(fixed_a, sums["A"]), law2.add(fixed_b, sums["B2"])
            if self._self_check:
                self._verification: Verification = sums["verification"]
                self._first_check = key.checks.begin(lambda: self._check_a_and_b(a, b))
            factors = [self._proof_input.s, self._proof_input.r]
            s_a, r_b = multiples(key.host, key.groups[0], [sums["A"], sums["B1"]], factors)
            blinding_term = functools.reduce(law1.add, (s_a, r_b, fixed_c))
        return a, b, blinding_term

    def _check_a_and_b(self, a: Point, b: Point) -> None:
        """Compute the pairing of A and B while C is still being computed."""
        with self._context.stage("check A and B"):
            self._verification.start(a, b)

    # --- self-check

    def check(self, proof: Proof) -> None:
        """Verify a proof if a self-check was requested; VerificationError if it fails."""
        if self._self_check:
            check_answer(
                self._key, self._proof_input, self._timeline, lambda: self._verify(proof.c)
            )

    def _verify(self, c: Point) -> bool:
        try:
            self._verification.start_last(c)
        finally:
            # Errors of A and B come before those of C.
            self._first_check.result()
        return self._verification.finish()


def check_answer(
    key: KeyInUse, proof_input: ProofInput, timeline: Timeline, verify: Callable[[], bool]
) -> None:
    """Raise VerificationError unless `verify` accepts a proof with these inputs."""
    path = key.zkey.path
    self_check(
        timeline,
        verify,
        wrong=f"{proof_input.witness.path}: the proof does not verify and is discarded. "
        "Most likely the witness does not satisfy the circuit: compute it again "
        "with the program (.wasm or C++) from the key's compilation; if the "
        f"witness is right, the key ({path}) is damaged",
        malformed=lambda error: (
            f"{path}: the key gives a proof with a bad point ({error}); the "
            "key is damaged or forged: get it again from its source"
        ),
    )


def blinding(fr: Modulus, seed: int | None, key: bytes, witness: Words) -> tuple[int, int]:
    """Return the blinding scalars r and s of a proof, each in [0, order of the curve).

    Without a seed, they come from the system's randomness. With a seed, each is a SHA-512 hash, as
    a big-endian integer modulo the order, of the ASCII line
    ``quod groth16 blinding 2: FIELD NAME SEED KEY WITNESS``. NAME is r or s, KEY the key's digest
    (`ProvingKey.digest`) and WITNESS the BLAKE2b-512 of the witness, both in hexadecimal; the 2 is
    the version of this derivation. Proofs of different witnesses never share blinding scalars, as
    that would reveal the difference of the witnesses. Nor do proofs of one witness with two keys,
    as the difference of these proofs would confirm a guess of the witness.
    """
    if seed is None:
        return _random(fr), _random(fr)
    digest = hashlib.blake2b(np.ascontiguousarray(witness).data).hexdigest()

    def draw(name: str) -> int:
        line = f"quod groth16 blinding 2: {fr.name} {name} {seed} {key.hex()} {digest}"
        return int.from_bytes(hashlib.sha512(line.encode()).digest(), "big") % fr.value

    return draw("r"), draw("s")


def _random(fr: Modulus) -> int:
    """Return a random integer below the order; 128 extra random bits make its bias negligible."""
    return int.from_bytes(os.urandom(fr.bytes + 16), "little") % fr.value


def _values(key: KeyInUse, witness: Witness) -> tuple[Words | Buffer, Words]:
    """Return the values in the memory that the key reads, and a host copy of the first ones.

    The first values are the constant 1 and the public inputs. Raises MismatchError for a witness of
    another curve or number of values, and InputError for values of another dtype or shape.
    """
    fr, count = key.zkey.fr, key.public + 1
    values: Any = witness
    if _is_on_device(values, key):
        _check_fits(key, witness)
        return values.memory, values.first(count)
    # Kernels read the values without checks, so their dtype and shape must be those of a file.
    values = witness.values
    if not isinstance(values, np.ndarray) or (
        values.dtype != np.uint32 or values.shape[1:] != (fr.words,)
    ):
        raise InputError(
            f"the values of a witness must be uint32 words of shape (n, {fr.words})",
            path=witness.path,
        )
    _check_fits(key, witness)
    return values, values[:count]


def _check_fits(key: KeyInUse, witness: Witness | WitnessHeader) -> None:
    """Raise MismatchError for a witness of another curve or number of values than the key's."""
    if witness.curve != key.curve:
        raise MismatchError(
            f"the witness is over {witness.curve} and the key ({key.zkey.path}) over {key.curve}; "
            "use the witness and the key of one circuit",
            path=witness.path,
        )
    if len(witness) != key.variables:
        raise MismatchError(
            f"the witness has {len(witness)} values and the key ({key.zkey.path}) is for "
            f"{key.variables}; use the witness and the key of one circuit",
            path=witness.path,
        )


def _is_on_device(witness: object, key: KeyInUse) -> TypeGuard[WitnessInMemory]:
    """True if a witness is in the memory of the device from which the key reads witnesses."""
    device = key.resident.witness_device
    return device is not None and isinstance(witness, WitnessInMemory) and witness.device is device
