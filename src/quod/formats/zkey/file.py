"""Groth16 proving keys (`.zkey`) of snarkjs.

| section | holds |
|---|---|
| 1 | u32 protocol: 1 is Groth16, 2 PLONK, 10 FFLONK |
| 2 | q and r, each after its length; u32 variables, public, domain size; alpha_g1, beta_g1, beta_g2, gamma_g2, delta_g1, delta_g2 |
| 3 | ic: public + 1 points of G1 |
| 4 | u32 count, then the non-zero entries of the matrices A and B |
| 5, 6, 7 | a in G1, b in G1, b in G2: one point a variable |
| 8 | c in G1: one point a private variable |
| 9 | h in G1: one point an element of the domain, in the Lagrange basis of its odd coset |
| 10 | 64-byte circuit hash, u32 count of contributions, the contributions |

Points are affine, coordinates are in Montgomery form with R = 2**(32 * words), and the point at
infinity is all zero. The value of an entry of section 4 is stored as ``value * R**2 mod r``, which
is in Montgomery form twice: one Montgomery product with a canonical integer x, such as a witness
value, gives ``value * x * R``, the Montgomery form of the product.

Beyond the circuit's own constraints, section 4 has one row for each public variable and the
constant 1, which ties that variable to itself in A (Groth, EUROCRYPT 2016, and snarkjs's set-up).
"""  # noqa: E501

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NoReturn

import numpy as np
from numpy.typing import NDArray

from quod.curve.named import CURVES
from quod.curve.parameters import PairingCurve
from quod.errors import InputError
from quod.field.moduli import Modulus
from quod.formats.curves import curve_named, first_at_or_above
from quod.formats.iden3 import (
    Iden3File,
    SectionReader,
    Words,
)
from quod.formats.source import FileIdentity, Path
from quod.formats.zkey.header import (
    HEADER_POINTS,
    ZkeyHeader,
    check_lengths,
    lists_of_points,
    read_groth16_header,
)
from quod.formats.zkey.infinity import MAY_BE_INFINITE, SINGLE_POINTS, wrong_infinity
from quod.frozen import frozen
from quod.validation import flag, instance, plain_array, whole_number

KIND = "zkey"
VERSION = 1

POINTS = (
    "alpha_g1", "beta_g1", "beta_g2", "gamma_g2", "delta_g1", "delta_g2",
    "ic", "a", "b_g1", "b_g2", "c", "h",
)  # fmt: skip
"""The names of a key's points and arrays of points."""

Coefficients = NDArray[Any]  # structured: see coefficient_dtype

# The number of entries checked at a time: few enough that their columns stay in the cache.
_CHUNK = 1 << 15
# The maximum number of words of an element; no prime has more than 521 bits.
_MAX_WORDS = 17


def coefficient_dtype(words: int) -> np.dtype[Any]:
    """Return the type of an entry of section 4: matrix (0: A, 1: B), constraint, signal, value."""
    words = whole_number("words", words, 1, _MAX_WORDS)
    return np.dtype(
        [("matrix", "<u4"), ("constraint", "<u4"), ("signal", "<u4"), ("value", "<u4", (words,))]
    )


@frozen
class _Place:
    """The location of an array of points in the file."""

    section: str
    offset: int


@frozen(eq=False)
class Zkey:
    """An open Groth16 proving key, whose arrays are read-only.

    The arrays are views of the mapped file, which must not change while the key is in use; those of
    an `owned` key are views of memory that the file was read into, and those of `from_arrays` are
    the caller's.

    With `words` 32-bit words an Fq element, single points have shape (2, words) in G1 and
    (2, 2, words) in G2 as [x.c0, x.c1], [y.c0, y.c1]; arrays of points have one more leading
    axis. `coefficients` is structured, see `coefficient_dtype`. `constraints` counts the
    circuit's own constraints. `circuit_hash` (64 bytes) is None and `contributions` 0 if
    section 10 is absent. `size` is the length of the file in bytes.

    A `monomial` key does not come from a zkey, and cannot be written as one. Its points h are for
    the quotient's coefficients in bit-reversed order, not for its values on a coset. There is one
    point per element of the domain, which is that of the family arkworks (`quod.field.roots`).
    """

    path: str
    curve: str
    variables: int
    public: int
    domain_size: int
    constraints: int
    alpha_g1: Words
    beta_g1: Words
    beta_g2: Words
    gamma_g2: Words
    delta_g1: Words
    delta_g2: Words
    ic: Words
    a: Words
    b_g1: Words
    b_g2: Words
    c: Words
    h: Words
    coefficients: Coefficients
    circuit_hash: bytes | None
    contributions: int
    size: int
    _places: dict[str, _Place]
    _identity: FileIdentity | None = None
    _owned: bool = False
    monomial: bool = False

    @classmethod
    def from_arrays(
        cls,
        name: str,
        *,
        curve: str,
        public: int,
        domain_size: int,
        constraints: int,
        coefficients: Coefficients,
        circuit_hash: bytes | None = None,
        owned: bool = False,
        monomial: bool = False,
        **points: Words,
    ) -> Zkey:
        """Return a key of arrays; errors call it `name`.

        `points` are all points that the class lists, by name. `owned` promises that nobody writes
        to the arrays any more, so that derived data need no copy. Raises InputError for arrays that
        do not fit together; the points are not validated.
        """
        fields = curve_named(curve)
        public, domain_size = check_arrays(
            fields, public, domain_size, coefficients, points, circuit_hash
        )
        return cls(
            path=instance("name", name, str, "give a name for messages"),
            _identity=None,
            curve=curve,
            variables=len(points["a"]),
            public=public,
            domain_size=domain_size,
            constraints=whole_number("constraints", constraints, 0),
            coefficients=coefficients,
            circuit_hash=circuit_hash,
            contributions=0,
            size=0,
            _places={},
            _owned=flag("owned", owned),
            monomial=flag("monomial", monomial),
            **points,
        )

    @property
    def log2_domain(self) -> int:
        """log2 of the domain size."""
        return self.domain_size.bit_length() - 1

    @property
    def fq(self) -> Modulus:
        """The field of the coordinates."""
        return CURVES[self.curve].fq

    @property
    def fr(self) -> Modulus:
        """The field of the witness and of the coefficients."""
        return CURVES[self.curve].fr

    @classmethod
    def open(cls, path: Path, *, owned: bool = False) -> Zkey:
        """Map a proving key, or read it if `owned`, and check all of it except the points.

        Raises `InputError` for a damaged container, a protocol other than Groth16, an unknown
        curve, sections whose length does not fit the header, a domain that is not a power of two,
        too large for the field or too small for the constraints, and coefficients out of range.
        `check_points` checks the points' encoding; the prover's device checks that they are on the
        curve and in the subgroup.
        """
        return cls.of(Iden3File.open(path, KIND, VERSION, owned=owned, check=_check_lengths))

    @classmethod
    def of(cls, file: Iden3File) -> Zkey:
        """Read an open container as `open` reads a file."""
        header, section = read_groth16_header(file)
        places: dict[str, _Place] = {}
        arrays: dict[str, Words] = {}
        words = header.curve.fq.words

        def points(source: SectionReader, name: str, *count: int, group: int) -> None:
            places[name] = _Place(source.label, source.offset)
            shape = (*count, 2, words) if group == 1 else (*count, 2, 2, words)
            arrays[name] = source.words(*shape, what=name)

        for name, group in HEADER_POINTS:
            points(section, name, group=group)
        section.finish()
        for identifier, name, count, group in lists_of_points(
            header.variables, header.public, header.domain_size
        ):
            section = file.section(identifier, name)
            points(section, name, count, group=group)
            section.finish()
        coefficients, constraints = _read_coefficients(file, header)
        circuit_hash, contributions = _read_contributions(file, header.curve)
        return cls(
            path=file.path,
            curve=header.curve.name,
            variables=header.variables,
            public=header.public,
            domain_size=header.domain_size,
            constraints=constraints,
            coefficients=coefficients,
            circuit_hash=circuit_hash,
            contributions=contributions,
            size=file.size,
            _places=places,
            _identity=file.identity,
            _owned=file.identity is None,
            monomial=False,
            **arrays,
        )

    @property
    def quotient_points(self) -> Words:
        """The points of h that a quotient uses; a monomial key pads h with infinity."""
        return self.h[:-1] if self.monomial else self.h

    @property
    def owned(self) -> bool:
        """True if the arrays are memory that neither other code nor a change of a file modifies."""
        return self._owned

    def check_unchanged(self) -> None:
        """Raise InputError if the mapped file was written to or replaced since `open`.

        An owned key does not change. One check of the file's size, time and inode: it detects
        mistakes, but no later changes.
        """
        if self._identity is not None:
            self._identity.check()

    def refuse(self, name: str, number: int, why: str) -> NoReturn:
        """Raise the `InputError` about a point of an array, or about a single point."""
        points: Words = getattr(self, name)
        place = self._places.get(name)
        is_single = name in SINGLE_POINTS
        point_name = name if is_single else f"point {number} of {name}"
        size = points.nbytes // (1 if is_single else max(1, len(points)))
        raise InputError(
            f"{point_name} {why}; the key is damaged or forged, get it again from its source",
            path=self.path,
            section=None if place is None else place.section,
            offset=None if place is None else place.offset + number * size,
        )

    def check_points(self) -> None:
        """Check that coordinates are below q, and that only points that may be infinity are.

        Raises `InputError` for the first bad point, with its section and offset. Reads all points
        once, and the coefficients. It does not check that points are on the curve.
        """
        for name in POINTS:
            points: Words = getattr(self, name)
            bad = first_at_or_above(points.reshape(-1, self.fq.words), self.fq)
            if bad is not None:
                is_single = name in SINGLE_POINTS
                coordinates = (points if is_single else points[0]).size // self.fq.words
                which = name if is_single else f"point {bad // coordinates} of {name}"
                place = self._places.get(name)
                raise InputError(
                    f"a coordinate of {which} is not below the modulus of {self.curve}; "
                    "the key is damaged or forged, get it again from its source",
                    path=self.path,
                    section=None if place is None else place.section,
                    offset=None if place is None else place.offset + bad * self.fq.bytes,
                )
        wrong = wrong_infinity(
            {name: getattr(self, name) for name in POINTS} | {"h": self.quotient_points},
            self.coefficients,
            variables=self.variables, public=self.public, fr=self.fr,
        )  # fmt: skip
        if wrong is not None:
            uses = ", though the circuit uses its wire" if wrong[0] in MAY_BE_INFINITE else ""
            self.refuse(*wrong, f"is the point at infinity{uses}")


def _check_lengths(file: Iden3File) -> None:
    header, section = read_groth16_header(file)
    counts = (header.variables, header.public, header.domain_size)
    entry = coefficient_dtype(header.curve.fr.words).itemsize
    check_lengths(file, section, counts, 2 * header.curve.fq.bytes, entry)


def _read_coefficients(file: Iden3File, header: ZkeyHeader) -> tuple[Coefficients, int]:
    """Return the validated entries of section 4, and the number of the circuit's constraints."""
    section = file.section(4, "coefficients")
    count = section.u32("the count of coefficients")
    start = section.offset
    dtype = coefficient_dtype(header.curve.fr.words)
    data = section.take(count * dtype.itemsize, f"the list of {count} coefficients")
    section.finish()
    entries = np.frombuffer(data, dtype=dtype)
    rows = 0

    def refuse(bad: NDArray[np.bool_], chunk: int, what: str) -> None:
        if bad.any():
            index = chunk + int(bad.argmax())
            section.fail(
                f"coefficient {index} {what}; the file is damaged, make it again",
                start + index * dtype.itemsize,
            )

    for chunk in range(0, count, _CHUNK):
        part = entries[chunk : chunk + _CHUNK]
        refuse(part["matrix"] > 1, chunk, "is for a matrix other than A (0) and B (1)")
        refuse(
            part["constraint"] >= header.domain_size,
            chunk,
            f"is for a constraint outside the domain of {header.domain_size}",
        )
        refuse(
            part["signal"] >= header.variables,
            chunk,
            f"is for a variable beyond the circuit's {header.variables}",
        )
        bad = first_at_or_above(part["value"], header.curve.fr)
        if bad is not None:
            section.fail(
                f"coefficient {chunk + bad} is not below the prime of {header.curve.name}; "
                "the file is damaged, make it again",
                start + (chunk + bad) * dtype.itemsize + 12,
            )
        rows = max(rows, int(part["constraint"].max()) + 1)
    return entries, max(0, rows - header.public - 1)


def _read_contributions(file: Iden3File, curve: PairingCurve) -> tuple[bytes | None, int]:
    """Return the circuit hash and the count of contributions, whose contents are skipped."""
    if 10 not in file.sections:
        return None, 0
    section = file.section(10, "contributions")
    circuit_hash = bytes(section.take(64, "the circuit hash"))
    count = section.u32("the count of contributions")
    # The new delta, the points of its proof (two in G1, one in G2), the transcript's hash, the
    # type.
    fixed_bytes = (3 * 2 + 4) * curve.fq.bytes + 64 + 4
    for index in range(count):
        section.take(fixed_bytes, f"contribution {index}")
        length = section.u32(f"the length of the parameters of contribution {index}")
        section.take(length, f"the parameters of contribution {index}")
    section.finish()
    return circuit_hash, count


def check_arrays(
    curve: PairingCurve,
    public: int,
    domain_size: int,
    coefficients: Coefficients,
    points: Mapping[str, Words],
    circuit_hash: bytes | None,
) -> tuple[int, int]:
    """Return `public` and `domain_size`; raise InputError for arrays that do not fit together."""
    public = whole_number("public", public)
    domain_size = whole_number("domain_size", domain_size)
    fq, fr = curve.fq, curve.fr
    if points.keys() != set(POINTS):
        raise InputError(f"the points of a key are {', '.join(POINTS)}; give each of them")
    for name, array in (*points.items(), ("coefficients", coefficients)):
        plain_array(name, array)
    variables = len(points["a"]) if points["a"].ndim else 0
    if not 0 <= public < variables:
        raise InputError(f"{public} public variables do not fit into {variables} variables")
    if not public < domain_size <= 1 << fr.two_adicity or domain_size & (domain_size - 1):
        raise InputError(f"the domain size {domain_size} does not fit the field or the circuit")
    shapes: dict[str, tuple[int, ...]] = {
        "alpha_g1": (2, fq.words),
        "beta_g1": (2, fq.words),
        "beta_g2": (2, 2, fq.words),
        "gamma_g2": (2, 2, fq.words),
        "delta_g1": (2, fq.words),
        "delta_g2": (2, 2, fq.words),
        "ic": (public + 1, 2, fq.words),
        "a": (variables, 2, fq.words),
        "b_g1": (variables, 2, fq.words),
        "b_g2": (variables, 2, 2, fq.words),
        "c": (variables - public - 1, 2, fq.words),
        "h": (domain_size, 2, fq.words),
    }
    for name, shape in shapes.items():
        array = points[name]
        if array.dtype != np.uint32 or array.shape != shape:
            raise InputError(
                f"{name} must be uint32 of shape {shape}, not {array.dtype} of {array.shape}"
            )
    if coefficients.dtype != coefficient_dtype(fr.words) or coefficients.ndim != 1:
        raise InputError(f"coefficients must be a vector of coefficient_dtype({fr.words})")
    if circuit_hash is not None and not (type(circuit_hash) is bytes and len(circuit_hash) == 64):
        raise InputError("circuit_hash must be None or 64 bytes")
    return public, domain_size
