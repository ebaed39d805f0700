"""The Groth16 prover (Groth, "On the size of pairing-based non-interactive arguments", 2016).

With w the witness, (a, b, c, h) the bases of the key and P = A*B - C on the odd coset:

    A  = alpha + sum of a_i*w_i + r*delta
    B  = beta + sum of b_i*w_i + s*delta                           in G2
    C  = sum of c_i*w_i + sum of h_i*P_i + s*A + r*B - r*s*delta   with B in G1

where r and s are random. The last three terms are, with A' and B' for A and B without theirs,
s*A' + r*B' + r*s*delta: all multiples are of points known at once, one a lane.
"""

from __future__ import annotations

import hashlib
import secrets
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor, as_completed
from os import PathLike
from typing import TYPE_CHECKING, Any

import numpy as np

from quod.curve.array import Point
from quod.device.cancellation import Cancellation
from quod.device.timeline import Stage, Timeline, or_null
from quod.errors import InputError, MismatchError, VerificationError
from quod.field.array import Words, words_to_integers
from quod.field.moduli import Modulus
from quod.formats import Witness
from quod.groth16.points import affine_group, multiples
from quod.groth16.proof import Proof
from quod.groth16.sparse import multiply_pointwise
from quod.msm import msm
from quod.ntt import coset_quotient

if TYPE_CHECKING:
    from quod.groth16.keys import Bases, ProvingKey

# Parts of a proof at a time: enough to fill the gaps, few enough that memory stays small.
_AT_ONCE = 2


def prove(
    key: ProvingKey,
    witness: str | PathLike[str] | Witness,
    *,
    seed: int | None = None,
    self_check: bool = True,
    timeline: Timeline | None = None,
) -> tuple[Proof, list[int]]:
    """See `ProvingKey.prove`."""
    timeline = or_null(timeline)
    key.device.check_budget(f"a proof with {key.zkey.path}", key.peak_bytes)
    with timeline.stage("witness"):
        opened = witness if isinstance(witness, Witness) else Witness.open(witness)
        values = _values(key, opened)
        public = words_to_integers(key.zkey.fr, values[1 : key.public + 1])
    r, s = blinding(key.zkey.fr, seed, values)
    with timeline.stage("sums") as stage:
        parts = _Parts(key, values, r, s, timeline, stage).compute(self_check)
    with timeline.stage("assemble"):
        proof = _assemble(key, parts, r, s)
    if self_check:
        with timeline.stage("self-check"):
            _check(key, public, proof, opened)
    return proof, public


def peak_bytes(key: ProvingKey) -> int:
    """See `ProvingKey.peak_bytes`."""
    evaluations = 3 * key.zkey.domain_size * key.zkey.fr.bytes
    h = evaluations + max(key.domain.peak_bytes(batch=3), key.h.peak_bytes())
    parts = sorted([h, *(bases.peak_bytes() for bases in (key.a, key.b_g1, key.b_g2, key.c))])
    return sum(parts[-_AT_ONCE:])


def blinding(fr: Modulus, seed: int | None, witness: Words) -> tuple[int, int]:
    """The random r and s of a proof, each from 0 to below r of the curve.

    Without a seed from the system's randomness. With one each is SHA-512, as a big-endian integer
    modulo r, of the ASCII line ``quod groth16 blinding: FIELD NAME SEED DIGEST``, NAME being r or
    s and DIGEST the BLAKE2b-512 of the witness in hexadecimal: proofs of different witnesses never
    share their blinding, which would show the difference of the two.
    """
    if seed is None:
        return secrets.randbelow(fr.value), secrets.randbelow(fr.value)
    digest = hashlib.blake2b(np.ascontiguousarray(witness).data).hexdigest()

    def draw(name: str) -> int:
        line = f"quod groth16 blinding: {fr.name} {name} {seed} {digest}"
        return int.from_bytes(hashlib.sha512(line.encode()).digest(), "big") % fr.value

    return draw("r"), draw("s")


def _values(key: ProvingKey, witness: Witness) -> Words:
    """The witness's values, once it is clear that they can be meant for this key."""
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
    return np.ascontiguousarray(witness.values)


class _Parts:
    """The sums of a proof, and what else does not wait for them, computed beside each other.

    Each part has phases that keep one core busy at most, which the others fill.
    """

    def __init__(
        self,
        key: ProvingKey,
        values: Words,
        r: int,
        s: int,
        timeline: Timeline,
        stage: Stage,
    ) -> None:
        self._key = key
        self._values = values
        self._r, self._s = r, s
        self._timeline = timeline
        self._stage = stage
        self._cancellation = Cancellation()

    def compute(self, self_check: bool) -> dict[str, Any]:
        """The parts by name: A, B1, B2, C and H, and the multiples of delta."""
        key = self._key
        tasks: dict[str, Callable[[], Any]] = {
            "H": self._h,
            "B2": lambda: self._sum("B2", key.b_g2, self._values),
            "A": lambda: self._sum("A", key.a, self._values),
            "C": lambda: self._sum("C", key.c, self._values),
            "B1": lambda: self._sum("B1", key.b_g1, self._values),
            "delta": self._multiples_of_delta,
        }
        if self_check:
            tasks["verifying key"] = self._verifying_key
        with ThreadPoolExecutor(_AT_ONCE, "quod-proof") as pool:
            futures = {name: pool.submit(self._guarded, task) for name, task in tasks.items()}
            try:
                for future in as_completed(futures.values()):
                    future.result()
            except BaseException:
                # What runs ends soon; nothing else begins.
                self._cancellation.cancel()
                raise
        return {name: future.result() for name, future in futures.items()}

    def _guarded(self, task: Callable[[], Any]) -> Any:
        self._cancellation.check("the proof")
        with self._cancellation:
            return task()

    def _h(self) -> Point:
        return self._sum("H", self._key.h, self._quotient())

    def _quotient(self) -> Words:
        """The scalars of the H bases: A*B - C on the odd coset, canonical."""
        key, timeline = self._key, self._timeline
        device, fr, n = key.device, key.zkey.fr, key.zkey.domain_size
        with timeline.stage("quotient", parent=self._stage):
            buffer = device.allocate(3 * n * fr.bytes)
            evaluations = buffer.view(np.uint32, (3 * n, fr.words))
            a, b, c = (evaluations[start : start + n] for start in range(0, 3 * n, n))
            with timeline.stage("A·w, B·w", modmuls=key.rows.nonzeros):
                key.rows.multiply(self._values, evaluations[: 2 * n])
            with timeline.stage("A·w ∘ B·w", modmuls=n):
                multiply_pointwise(device, fr, a, b, c)
            with timeline.stage("transforms", modmuls=3 * n * max(1, key.zkey.log2_domain)):
                coset_quotient(key.domain, evaluations, a)
        return a

    def _sum(self, name: str, bases: Bases, scalars: Words) -> Point:
        with self._timeline.stage(f"MSM {name}", bytes=bases.resident.nbytes, parent=self._stage):
            return msm(
                bases.resident.device,
                bases.group,
                bases.resident,
                bases.scalars(scalars),
                timeline=self._timeline,
            )

    def _multiples_of_delta(self) -> tuple[Point, Point, Point]:
        """r*delta and r*s*delta in G1, s*delta in G2."""
        key, r, s = self._key, self._r, self._s
        g1, g2 = key.groups
        with self._timeline.stage("multiples of delta", parent=self._stage):
            product = r * s % key.zkey.fr.value
            first, second = multiples(key.device, g1, [key.delta_g1] * 2, [r, product])
            (third,) = multiples(key.device, g2, [key.delta_g2], [s])
        return first, second, third

    def _verifying_key(self) -> None:
        with self._timeline.stage("verifying key", parent=self._stage):
            self._key.verifying_key.prepare()


def _assemble(key: ProvingKey, parts: dict[str, Any], r: int, s: int) -> Proof:
    law1, law2 = (affine_group(group) for group in key.groups)
    a = law1.add(key.alpha_g1, parts["A"])
    b1 = law1.add(key.beta_g1, parts["B1"])
    b2 = law2.add(key.beta_g2, parts["B2"])
    r_delta, rs_delta, s_delta = parts["delta"]
    s_a, r_b = multiples(key.device, key.groups[0], [a, b1], [s, r])
    c = law1.add(parts["C"], parts["H"])
    for term in (s_a, r_b, rs_delta):
        c = law1.add(c, term)
    return Proof(key.curve, law1.add(a, r_delta), law2.add(b2, s_delta), c)


def _check(key: ProvingKey, public: list[int], proof: Proof, witness: Witness) -> None:
    """The verifier's answer to a proof before anyone sees it."""
    verifying_key = key.verifying_key
    try:
        valid = verifying_key.verify(public, proof)
    except InputError as error:
        raise VerificationError(
            f"{key.zkey.path}: the key gives a proof with a bad point ({error}); the key is "
            "damaged or forged: get it again from its source"
        ) from error
    if not valid:
        raise VerificationError(
            f"{witness.path}: the proof does not verify, so it is not given out. Most likely the "
            "witness does not satisfy the circuit: compute it again with the program (.wasm or "
            "C++) of the same compilation as the key; if that is right, the key "
            f"({key.zkey.path}) is damaged"
        )
