"""Verifying keys and the verifier, which takes nothing but canonical, well-formed input.

e(A, B) = e(alpha, beta) * e(IC_0 + sum of x_i * IC_i, gamma) * e(C, delta)  (Groth, EUROCRYPT 2016)

Refused before any pairing is computed: a count of public inputs that is not the key's, an input
that is negative or not below r (so x + r never stands for x), coordinates that are not below q,
points off the curve or outside the subgroup of prime order, and infinity for A, B or C. An honest
proof has infinity anywhere with a chance of about 2**-250, so nothing is lost by refusing it for
C as well, where the equation alone would not mind, and every proof has one form. In a key alpha,
beta, gamma and delta may not be infinity, or anything could be proved; an IC may: its input then
counts for nothing in the circuit, which is for the maker of the circuit to know. Keys for which
anyone can forge proofs are refused as well (see `quod.groth16.soundness`).

Arguments are copied before they are checked, so that they cannot change in between.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence, Sized
from functools import cached_property
from itertools import islice
from os import PathLike, fspath
from typing import Any

import numpy as np

from quod.curve.affine_law import plain_point
from quod.curve.array import Point, from_points, to_points
from quod.curve.group import Group
from quod.curve.groups import GROUPS
from quod.curve.named import CURVES
from quod.curve.pairing.products import (
    Fq12Integers,
    Pair,
    check_pairing_device,
    miller_values,
    pairing,
    product_is,
)
from quod.curve.parameters import G1Point, G2Point, PairingCurve, by_family
from quod.curve.weierstrass.affine import affine_group, g1_group
from quod.curve.weierstrass.operations import first_bad_point
from quod.device.discovery import DeviceChoice, resolve_device
from quod.device.protocol import AnyDevice
from quod.errors import InputError, MismatchError
from quod.field.array import Words
from quod.formats import (
    VerifyingKeyJson,
    Zkey,
    read_verification_key,
    verification_key_to_json,
)
from quod.formats.curves import curve_named
from quod.formats.snarkjs_json import parse_verification_key
from quod.frozen import frozen
from quod.groth16.points import sum_of_multiples
from quod.groth16.proof import Proof
from quod.groth16.soundness import key_points, weakness, weakness_of
from quod.validation import flag, in_order


class Verification:
    """The verification of a proof in progress, which uses points as they become available.

    `VerifyingKey.begin` returns one. Call `start` with A and B, then `finish` with C; both check
    points as `VerifyingKey.verify` does, and raise the same errors.
    """

    def __init__(self, key: VerifyingKey, inputs: G1Point) -> None:
        self._key = key
        self._law = g1_group(CURVES[key.curve])
        self._inputs = inputs
        self._values: Words | None = None

    def first_pairs(self, a: G1Point, b: G2Point) -> list[Pair]:
        """The pairs that depend only on A and B."""
        return [(a, b), (self._law.negate(self._inputs), self._key.gamma_g2)]

    def last_pair(self, c: G1Point) -> Pair:
        return self._law.negate(c), self._key.delta_g2

    def start(self, a: G1Point, b: G2Point) -> None:
        """Compute the Miller values of the pairs of A and B."""
        a, b = self._key._checked_proof(pi_a=a, pi_b=b)
        self._values = self._miller_values(self.first_pairs(a, b))

    def finish(self, c: G1Point) -> bool:
        """Return whether the proof with this C holds; InputError if A and B have not been set."""
        if self._values is None:
            raise InputError("a verification needs A and B before C")
        (c,) = self._key._checked_proof(pi_c=c)
        last = self._miller_values([self.last_pair(c)])
        return self._key._holds(np.concatenate([self._values, last]))

    def _miller_values(self, pairs: Sequence[Pair]) -> Words:
        return miller_values(self._key.device, CURVES[self._key.curve], pairs)


@frozen(eq=False)
class VerifyingKey:
    """A checked verifying key: its points are on the curve and in their subgroups.

    Points are plain affine integers, None for infinity; `ic` has one more than there are public
    inputs. They are copied, and the attributes cannot be set. Raises `InputError` for a key that no
    proof may be checked with, and `InsecureKeyError` for one with which anyone can forge proofs
    unless `allow_insecure` says that it is for tests; `path` is for the messages. DeviceError for a
    device of WebGPU, which computes no pairings. What verifications share is computed once, when
    first needed.
    """

    curve: str
    alpha_g1: G1Point
    beta_g2: G2Point
    gamma_g2: G2Point
    delta_g2: G2Point
    ic: tuple[G1Point, ...]
    device: AnyDevice

    def __init__(
        self,
        curve: str,
        alpha_g1: G1Point,
        beta_g2: G2Point,
        gamma_g2: G2Point,
        delta_g2: G2Point,
        ic: Sequence[G1Point],
        *,
        device: DeviceChoice = "cpu",
        path: str | None = None,
        allow_insecure: bool = False,
    ) -> None:
        curve = curve_named(curve).name
        if not isinstance(ic, Iterable):
            raise InputError(f"IC must be a list of points, not {type(ic).__name__}", path=path)
        allow_insecure = flag("allow_insecure", allow_insecure)
        opened = resolve_device(device)
        try:
            self.__dict__.update(
                curve=curve,
                alpha_g1=plain_point(alpha_g1, 1, "vk_alpha_1"),
                beta_g2=plain_point(beta_g2, 2, "vk_beta_2"),
                gamma_g2=plain_point(gamma_g2, 2, "vk_gamma_2"),
                delta_g2=plain_point(delta_g2, 2, "vk_delta_2"),
                ic=tuple(plain_point(point, 1, f"IC[{i}]") for i, point in enumerate(ic)),
                device=opened,
            )
        except InputError as error:
            raise InputError(str(error), path=path) from None
        if not self.ic:
            raise InputError("IC must have at least one point", path=path)
        check_pairing_device(self.device)
        self._check(path)
        if not allow_insecure:
            insecurity = weakness(
                self.curve, self.alpha_g1, self.beta_g2, self.gamma_g2, self.delta_g2
            )  # fmt: skip
            if insecurity is not None:
                raise insecurity.error(path)

    def __repr__(self) -> str:
        inputs = len(self.ic) - 1
        return (
            f"VerifyingKey(curve={self.curve!r}, public inputs={inputs}, device={self.device.name})"
        )

    @classmethod
    def from_json(
        cls,
        path: str | PathLike[str],
        *,
        device: DeviceChoice = "cpu",
        allow_insecure: bool = False,
    ) -> VerifyingKey:
        """Read and check a verification_key.json of snarkjs.

        Its vk_alphabeta_12 is not relied on. Raises `InputError` and `InsecureKeyError`.
        """
        return cls._of(read_verification_key(path), device, fspath(path), allow_insecure)

    @classmethod
    def from_json_text(
        cls, text: str | bytes, *, device: DeviceChoice = "cpu", allow_insecure: bool = False
    ) -> VerifyingKey:
        """Read and check the text of a verification_key.json, as `from_json` does the file."""
        return cls._of(parse_verification_key(text), device, None, allow_insecure)

    @classmethod
    def _of(
        cls, read: VerifyingKeyJson, device: DeviceChoice, path: str | None, allow_insecure: bool
    ) -> VerifyingKey:
        return cls(
            read.curve, read.alpha_g1, read.beta_g2, read.gamma_g2, read.delta_g2, read.ic,
            device=device, path=path, allow_insecure=allow_insecure,
        )  # fmt: skip

    @classmethod
    def from_zkey(
        cls,
        zkey: str | PathLike[str] | Zkey,
        *,
        device: DeviceChoice = "cpu",
        allow_insecure: bool = False,
    ) -> VerifyingKey:
        """The verifying key in a proving key, checked. Raises `InputError`, `InsecureKeyError`."""
        allow_insecure = flag("allow_insecure", allow_insecure)
        opened = zkey if isinstance(zkey, Zkey) else Zkey.open(zkey)
        if not isinstance(zkey, Zkey):
            opened.check_points()
        key = cls(
            opened.curve,
            **key_points(opened),
            ic=to_points(GROUPS[f"{opened.curve}.g1"], opened.ic),
            device=device,
            path=opened.path,
            allow_insecure=allow_insecure,
        )
        # The key's own word, beside what its points show.
        if not allow_insecure and (insecurity := weakness_of(opened)) is not None:
            raise insecurity.error(opened.path)
        return key

    @property
    def public(self) -> int:
        """Number of public inputs."""
        return len(self.ic) - 1

    def to_json(self) -> str:
        """The text of a verification_key.json as snarkjs writes it, vk_alphabeta_12 included."""
        return verification_key_to_json(
            VerifyingKeyJson(
                self.curve, self.alpha_g1, self.beta_g2, self.gamma_g2, self.delta_g2, self.ic,
                alphabeta=self._alphabeta_of_snarkjs(),
            )
        ).decode()  # fmt: skip

    def prepare(self) -> None:
        """Compute now what verifications share; else the first one does."""
        _ = self._alphabeta

    def verify(self, public: Iterable[int | str], proof: Proof | Mapping[str, Any]) -> bool:
        """Return whether the proof holds for the public inputs.

        public: the inputs in the order of the circuit; each is an int or, as in public.json, a
            decimal string without sign, spaces or leading zeros.
        proof: a `Proof`, or the document that `json.load` returns for a proof.json.
        Raises `InputError` for malformed input (see the module), and `MismatchError` if the number
        of inputs or the curve differs from the key's.
        """
        inputs, proof = self._checked_statement(public, proof)
        a, b, c = self._checked_points(proof)
        verification = self._begin(inputs)
        pairs = [*verification.first_pairs(a, b), verification.last_pair(c)]
        return self._holds(miller_values(self.device, self._parameters, pairs))

    def begin(self, public: Iterable[int | str]) -> Verification:
        """Begin to verify a proof whose points are not there yet; raises as `verify` does."""
        return self._begin(self._checked_inputs(public))

    def _begin(self, inputs: Sequence[int]) -> Verification:
        group = self._group(1)
        return Verification(self, sum_of_multiples(self.device, group, self.ic, [1, *inputs]))

    def _holds(self, values: Words) -> bool:
        """Return whether the Miller values of a proof's pairs multiply to e(alpha, beta)."""
        return product_is(self.device, self._parameters, values, self._alphabeta)

    # --- checks

    def _checked_statement(self, public: object, proof: object) -> tuple[list[int], Proof]:
        """The public inputs as integers, and a proof that can be one for them."""
        if isinstance(proof, Mapping):
            proof = Proof.from_dict(proof, curve=self.curve)
        if not isinstance(proof, Proof):
            raise InputError(
                f"the proof must be a Proof, not {type(proof).__name__}; "
                "Proof.from_json_text reads JSON text"
            )
        inputs = self._checked_inputs(public)
        if proof.curve != self.curve:
            raise MismatchError(
                f"the proof is over {proof.curve} and the verifying key over {self.curve}; "
                "use the key of the circuit that was proved"
            )
        return inputs, proof

    def _checked_points(self, proof: Proof) -> list[Point]:
        """Copies of A, B and C; InputError for a bad one."""
        return self._checked_proof(pi_a=proof.a, pi_b=proof.b, pi_c=proof.c)

    def _checked_inputs(self, public: object) -> list[int]:
        """The public inputs as integers; InputError or MismatchError for bad ones."""
        # What has no end, or a long one, is not read.
        values = tuple(islice(in_order("the public inputs", public), self.public + 1))
        if len(values) != self.public:
            count = len(public) if isinstance(public, Sized) else len(values)
            or_more = " or more" if not isinstance(public, Sized) and count > self.public else ""
            raise MismatchError(
                f"the key has {self.public} public inputs and {count}{or_more} were given; "
                "use the key and the public inputs of one circuit"
            )
        return [self._checked_input(index, value) for index, value in enumerate(values)]

    def _checked_input(self, index: int, value: int | str) -> int:
        r = self._parameters.fr.value
        if type(value) is str:
            if not (value.isascii() and value.isdecimal()) or value[:-1].startswith("0"):
                raise InputError(
                    f"public input {index} must be an int or a decimal string without sign, "
                    "spaces or leading zeros"
                )
            # Longer ones are not below r, and take long to read.
            value = int(value) if len(value) <= len(str(r)) else r
        if type(value) is not int:
            raise InputError(
                f"public input {index} must be an int or a decimal string, "
                f"not {type(value).__name__}"
            )
        if not 0 <= value < r:
            raise InputError(
                f"public input {index} is not from 0 to below r of {self.curve}; "
                "give the reduced value"
            )
        return value

    def _checked_proof(self, **points: Point) -> list[Point]:
        """Copies of the points of a proof, by their names in it; InputError for a bad one."""
        points = {
            name: plain_point(point, 2 if name == "pi_b" else 1, name)
            for name, point in points.items()
        }
        for degree in (1, 2):
            names = [name for name in points if (name == "pi_b") == (degree == 2)]
            of_group = [points[name] for name in names]
            self._check_points(degree, names, of_group, "the proof is damaged or forged", None)
        for name, point in points.items():
            if point is None:
                raise InputError(f"{name} is the point at infinity; no honest proof has it")
        return list(points.values())

    def _check(self, path: str | None) -> None:
        for name, point in (
            ("vk_alpha_1", self.alpha_g1),
            ("vk_beta_2", self.beta_g2),
            ("vk_gamma_2", self.gamma_g2),
            ("vk_delta_2", self.delta_g2),
        ):
            if point is None:
                raise InputError(
                    f"{name} is the point at infinity, with which anyone can forge "
                    "proofs; get the key again from its source",
                    path=path,
                )
        advice = "the key is damaged or forged, get it again from its source"
        names = ["vk_alpha_1", *(f"IC[{index}]" for index in range(len(self.ic)))]
        self._check_points(1, names, [self.alpha_g1, *self.ic], advice, path)
        names = ["vk_beta_2", "vk_gamma_2", "vk_delta_2"]
        points: list[Point] = [self.beta_g2, self.gamma_g2, self.delta_g2]
        self._check_points(2, names, points, advice, path)

    def _check_points(
        self,
        degree: int,
        names: Sequence[str],
        points: Sequence[Point],
        advice: str,
        path: str | None,
    ) -> None:
        group = self._group(degree)
        law, q = affine_group(group), group.coordinates.value
        for name, point in zip(names, points, strict=True):
            if any(not 0 <= value < q for value in coordinates_of(point, degree)):
                raise InputError(f"a coordinate of {name} is not below q; {advice}", path=path)
            if not law.contains(point):
                raise InputError(f"{name} is not on the curve; {advice}", path=path)
        if group.parameters.cofactor == 1:
            return
        # The error names the point that must not be infinity.
        bad = first_bad_point(
            self.device, group, from_points(group, points), subgroup=True, infinity=True
        )
        if bad is not None:
            raise InputError(f"{names[bad[0]]} {bad[1]}; {advice}", path=path)

    # --- what verifications share

    @property
    def _parameters(self) -> PairingCurve:
        return CURVES[self.curve]

    def _group(self, degree: int) -> Group:
        return GROUPS[f"{self.curve}.g{degree}"]

    @cached_property
    def _alphabeta(self) -> Fq12Integers:
        """e(alpha, beta)."""
        return pairing(self.device, self._parameters, self.alpha_g1, self.beta_g2)

    def _alphabeta_of_snarkjs(self) -> Fq12Integers:
        """e(alpha, beta) with the final exponent of snarkjs, a multiple of (q^12 - 1)/r.

        Its hard part is that of Fuentes-Castañeda, Knapp and Rodríguez-Henríquez (SAC 2011) for BN
        curves, that of Ghammam and Fouotsa (eprint 2016/130) for BLS12.
        """
        parameters, law = self._parameters, affine_group(self._group(1))
        x = parameters.x
        factor = by_family(parameters.family, bn=2 * x * (6 * x * x + 3 * x + 1), bls12=3)
        alpha = law.multiply(factor % law.order, self.alpha_g1)
        return pairing(self.device, parameters, alpha, self.beta_g2)


def coordinates_of(point: Point, degree: int) -> Iterable[int]:
    """The integers of a point of G1 or G2 (degree 2); none for infinity."""
    if point is None:
        return ()
    return point if degree == 1 else (*point[0], *point[1])
