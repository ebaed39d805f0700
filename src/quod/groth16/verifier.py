"""Verifying keys and the verifier, which accepts only canonical, well-formed input.

e(A, B) = e(alpha, beta) * e(IC_0 + sum of x_i * IC_i, gamma) * e(C, delta)  (Groth, EUROCRYPT 2016)

Before any pairing is computed, the verifier rejects

- a number of public inputs that differs from the key's;
- an input that is negative or not below r, so that x + r is never accepted in place of x;
- coordinates that are not below q, and points off the curve or outside the subgroup of prime order;
- infinity for A, B or C. An honest proof contains it with a probability of about 2**-250. The
  equation does not require this for C; with it, every accepted proof has a unique encoding.

In a key, alpha, beta, gamma and delta may not be infinity, as anyone could then forge proofs. A
point of IC may be infinity: its public input then has no effect. Keys with which anyone can forge
proofs are rejected as well (see `quod.groth16.soundness`).

Arguments are copied before they are checked, so that another thread cannot change them in between.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence, Sized
from functools import cached_property
from itertools import islice
from os import PathLike, fspath
from typing import Any

import numpy as np

from quod.curve.affine_law import AffineGroup, plain_point
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
    """The verification of a proof whose points become available one after another.

    `VerifyingKey.begin` returns one. Call `start` with A and B and `start_last` with C, in any
    order or concurrently, then `finish`. They check points as `VerifyingKey.verify` does, and raise
    the same errors.

    inputs: the point IC_0 + sum of x_i * IC_i, whose Miller loop the constructor computes.
    """

    def __init__(self, key: VerifyingKey, inputs: G1Point) -> None:
        self._key = key
        self._inputs_value = self._miller_value(key._pair_of_inputs(inputs))
        self._first_value: Words | None = None
        self._last_value: Words | None = None

    def start(self, a: G1Point, b: G2Point) -> None:
        """Compute the Miller loop of A and B."""
        a, b = self._key._validate_proof_points(pi_a=a, pi_b=b)
        self._first_value = self._miller_value((a, b))

    def start_last(self, c: G1Point) -> None:
        """Compute the Miller loop of C."""
        (c,) = self._key._validate_proof_points(pi_c=c)
        self._last_value = self._miller_value(self._key._pair_of_c(c))

    def finish(self) -> bool:
        """Return whether the proof is valid; raise InputError before A, B and C are known."""
        if self._first_value is None or self._last_value is None:
            raise InputError("a verification needs A, B and C")
        values = (self._first_value, self._inputs_value, self._last_value)
        return self._key._equation_holds(np.concatenate(values))

    def _miller_value(self, pair: Pair) -> Words:
        return miller_values(self._key.device, CURVES[self._key.curve], [pair])


@frozen(eq=False)
class VerifyingKey:
    """A checked verifying key: its points are on the curve and in their subgroups.

    Points are affine coordinates as ints, None for infinity; `ic` has one point more than there are
    public inputs. Points are copied, and the attributes cannot be set. e(alpha, beta) is computed
    once, when first needed.

    path: the key's file, for error messages.
    Raises `InputError` for a malformed key, `InsecureKeyError` for a key with which anyone can
    forge proofs unless `allow_insecure`, and DeviceError for a WebGPU device, as these compute no
    pairings.
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
        resolved_device = resolve_device(device)
        try:
            self.__dict__.update(
                curve=curve,
                alpha_g1=plain_point(alpha_g1, 1, "vk_alpha_1"),
                beta_g2=plain_point(beta_g2, 2, "vk_beta_2"),
                gamma_g2=plain_point(gamma_g2, 2, "vk_gamma_2"),
                delta_g2=plain_point(delta_g2, 2, "vk_delta_2"),
                ic=tuple(plain_point(point, 1, f"IC[{i}]") for i, point in enumerate(ic)),
                device=resolved_device,
            )
        except InputError as error:
            raise InputError(str(error), path=path) from None
        if not self.ic:
            raise InputError("IC must have at least one point", path=path)
        check_pairing_device(self.device)
        self._check_key(path)
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

        Its vk_alphabeta_12 is ignored. Raises `InputError` and `InsecureKeyError`.
        """
        return cls._of(read_verification_key(path), device, fspath(path), allow_insecure)

    @classmethod
    def from_json_text(
        cls, text: str | bytes, *, device: DeviceChoice = "cpu", allow_insecure: bool = False
    ) -> VerifyingKey:
        """Read and check the text of a verification_key.json; see `from_json`."""
        return cls._of(parse_verification_key(text), device, None, allow_insecure)

    @classmethod
    def _of(
        cls, fields: VerifyingKeyJson, device: DeviceChoice, path: str | None, allow_insecure: bool
    ) -> VerifyingKey:
        return cls(
            fields.curve, fields.alpha_g1, fields.beta_g2, fields.gamma_g2, fields.delta_g2,
            fields.ic, device=device, path=path, allow_insecure=allow_insecure,
        )  # fmt: skip

    @classmethod
    def from_zkey(
        cls,
        zkey: str | PathLike[str] | Zkey,
        *,
        device: DeviceChoice = "cpu",
        allow_insecure: bool = False,
    ) -> VerifyingKey:
        """Return a zkey's verifying key, checked. Raises `InputError` and `InsecureKeyError`."""
        allow_insecure = flag("allow_insecure", allow_insecure)
        key_file = zkey if isinstance(zkey, Zkey) else Zkey.open(zkey)
        if not isinstance(zkey, Zkey):
            key_file.check_points()
        key = cls(
            key_file.curve,
            **key_points(key_file),
            ic=to_points(GROUPS[f"{key_file.curve}.g1"], key_file.ic),
            device=device,
            path=key_file.path,
            allow_insecure=allow_insecure,
        )
        # The zkey's circuit hash may mark it as a test key although its points do not.
        if not allow_insecure and (insecurity := weakness_of(key_file)) is not None:
            raise insecurity.error(key_file.path)
        return key

    @property
    def public(self) -> int:
        """The number of public inputs."""
        return len(self.ic) - 1

    def to_json(self) -> str:
        """Return the text of a verification_key.json as snarkjs writes it, with vk_alphabeta_12."""
        return verification_key_to_json(
            VerifyingKeyJson(
                self.curve, self.alpha_g1, self.beta_g2, self.gamma_g2, self.delta_g2, self.ic,
                alphabeta=self._alphabeta_of_snarkjs(),
            )
        ).decode()  # fmt: skip

    def prepare(self) -> None:
        """Compute e(alpha, beta) now; otherwise the first verification computes it."""
        _ = self._alphabeta

    def verify(self, public: Iterable[int | str], proof: Proof | Mapping[str, Any]) -> bool:
        """Return whether the proof is valid for the public inputs.

        public: the inputs in the order of the circuit; each is an int or, as in public.json, a
            decimal string without sign, spaces or leading zeros.
        proof: a `Proof`, or the document that `json.load` returns for a proof.json.
        Raises `InputError` for malformed input (see the module's docstring), and `MismatchError`
        if the number of inputs or the curve differs from the key's.
        """
        inputs, proof = self._validate_statement(public, proof)
        a, b, c = self._validate_points(proof)
        pairs = [self._pair_of_inputs(self._point_of_inputs(inputs)), (a, b), self._pair_of_c(c)]
        return self._equation_holds(miller_values(self.device, self._parameters, pairs))

    def begin(self, public: Iterable[int | str]) -> Verification:
        """Begin to verify a proof before its points are known; raises as `verify` does."""
        return Verification(self, self._point_of_inputs(self._validate_inputs(public)))

    def _point_of_inputs(self, inputs: Sequence[int]) -> G1Point:
        """Return IC_0 + sum of x_i * IC_i."""
        group, (constant, *points) = self._group(1), self.ic
        return self._law.add(constant, sum_of_multiples(self.device, group, points, inputs))

    def _pair_of_inputs(self, inputs: G1Point) -> Pair:
        """Return the pair that depends on the public inputs alone."""
        return self._law.negate(inputs), self.gamma_g2

    def _pair_of_c(self, c: G1Point) -> Pair:
        """Return the pair that depends on C."""
        return self._law.negate(c), self.delta_g2

    def _equation_holds(self, values: Words) -> bool:
        """Return whether the pairing product of these Miller loop values is e(alpha, beta)."""
        return product_is(self.device, self._parameters, values, self._alphabeta)

    # --- checks

    def _validate_statement(self, public: object, proof: object) -> tuple[list[int], Proof]:
        """Return the public inputs as ints and the proof; its points are not checked."""
        if isinstance(proof, Mapping):
            proof = Proof.from_dict(proof, curve=self.curve)
        if not isinstance(proof, Proof):
            raise InputError(
                f"the proof must be a Proof, not {type(proof).__name__}; "
                "Proof.from_json_text reads JSON text"
            )
        inputs = self._validate_inputs(public)
        if proof.curve != self.curve:
            raise MismatchError(
                f"the proof is over {proof.curve} and the verifying key over {self.curve}; "
                "use the key of the circuit that was proved"
            )
        return inputs, proof

    def _validate_points(self, proof: Proof) -> list[Point]:
        """Return copies of A, B and C; raise InputError for a malformed one."""
        return self._validate_proof_points(pi_a=proof.a, pi_b=proof.b, pi_c=proof.c)

    def _validate_inputs(self, public: object) -> list[int]:
        """Return the public inputs as ints; raises InputError or MismatchError."""
        # Reads at most one value too many, as an iterator may be endless.
        values = tuple(islice(in_order("the public inputs", public), self.public + 1))
        if len(values) != self.public:
            count = len(public) if isinstance(public, Sized) else len(values)
            or_more = " or more" if not isinstance(public, Sized) and count > self.public else ""
            raise MismatchError(
                f"the key has {self.public} public inputs and {count}{or_more} were given; "
                "use the key and the public inputs of one circuit"
            )
        return [self._validate_input(index, value) for index, value in enumerate(values)]

    def _validate_input(self, index: int, value: int | str) -> int:
        r = self._parameters.fr.value
        if type(value) is str:
            if not (value.isascii() and value.isdecimal()) or value[:-1].startswith("0"):
                raise InputError(
                    f"public input {index} must be an int or a decimal string without sign, "
                    "spaces or leading zeros"
                )
            # A longer string is not below r; int() would take long.
            value = int(value) if len(value) <= len(str(r)) else r
        if type(value) is not int:
            raise InputError(
                f"public input {index} must be an int or a decimal string, "
                f"not {type(value).__name__}"
            )
        if not 0 <= value < r:
            raise InputError(
                f"public input {index} is negative or not below the order r of {self.curve}; "
                "reduce it modulo r"
            )
        return value

    def _validate_proof_points(self, **points: Point) -> list[Point]:
        """Return copies of a proof's points, given by name; raise InputError for a bad one."""
        points = {
            name: plain_point(point, 2 if name == "pi_b" else 1, name)
            for name, point in points.items()
        }
        for degree in (1, 2):
            names = [name for name in points if (name == "pi_b") == (degree == 2)]
            group_points = [points[name] for name in names]
            if names:
                advice = "the proof is damaged or forged"
                self._check_points(degree, names, group_points, advice, None)
        for name, point in points.items():
            if point is None:
                raise InputError(f"{name} is the point at infinity; no honest proof has it")
        return list(points.values())

    def _check_key(self, path: str | None) -> None:
        """Raise InputError for a point of the key that is malformed, or infinity outside IC."""
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
        """Raise InputError for a coordinate not below q, and a point outside the group.

        names: the name of each point in messages; advice: their end.
        """
        group = self._group(degree)
        law, q = affine_group(group), group.coordinates.value
        for name, point in zip(names, points, strict=True):
            if any(not 0 <= value < q for value in coordinates_of(point, degree)):
                raise InputError(f"a coordinate of {name} is not below q; {advice}", path=path)
            if not law.contains(point):
                raise InputError(f"{name} is not on the curve; {advice}", path=path)
        if group.parameters.cofactor == 1:
            return
        # Infinity is allowed here: where it is forbidden, the callers reject it.
        bad_point = first_bad_point(
            self.device, group, from_points(group, points), subgroup=True, infinity=True
        )
        if bad_point is not None:
            raise InputError(f"{names[bad_point[0]]} {bad_point[1]}; {advice}", path=path)

    # --- values that verifications share

    @property
    def _parameters(self) -> PairingCurve:
        return CURVES[self.curve]

    @property
    def _law(self) -> AffineGroup[int]:
        return g1_group(self._parameters)

    def _group(self, degree: int) -> Group:
        return GROUPS[f"{self.curve}.g{degree}"]

    @cached_property
    def _alphabeta(self) -> Fq12Integers:
        """e(alpha, beta)."""
        return pairing(self.device, self._parameters, self.alpha_g1, self.beta_g2)

    def _alphabeta_of_snarkjs(self) -> Fq12Integers:
        """Return e(alpha, beta) with the final exponent of snarkjs, a multiple of (q^12 - 1)/r.

        The hard part of that exponent is from Fuentes-Castañeda, Knapp and Rodríguez-Henríquez
        (SAC 2011) for BN curves, and from Ghammam and Fouotsa (eprint 2016/130) for BLS12.
        """
        parameters, law = self._parameters, affine_group(self._group(1))
        x = parameters.x
        factor = by_family(parameters.family, bn=2 * x * (6 * x * x + 3 * x + 1), bls12=3)
        alpha = law.multiply(factor % law.order, self.alpha_g1)
        return pairing(self.device, parameters, alpha, self.beta_g2)


def coordinates_of(point: Point, degree: int) -> Iterable[int]:
    """Return the coordinates of a point of G1 (degree 1) or G2 (degree 2); none for infinity."""
    if point is None:
        return ()
    return point if degree == 1 else (*point[0], *point[1])
