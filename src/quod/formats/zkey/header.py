"""Header of a zkey, and the lengths of the sections that follow from it."""

from __future__ import annotations

from quod.curve.named import CURVES
from quod.curve.parameters import PairingCurve
from quod.errors import InputError
from quod.formats.curves import supported_curves
from quod.formats.iden3 import Iden3File, SectionReader
from quod.frozen import frozen

PROTOCOLS = {1: "groth16", 2: "plonk", 10: "fflonk"}
GROTH16 = 1

HEADER_POINTS = (
    ("alpha_g1", 1), ("beta_g1", 1), ("beta_g2", 2), ("gamma_g2", 2), ("delta_g1", 1),
    ("delta_g2", 2),
)  # fmt: skip
"""The points that follow the counts in the header: name, and 1 or 2 for G1 or G2."""


@frozen
class ZkeyHeader:
    """The beginning of sections 1 and 2 of a zkey of any protocol.

    `variables` counts the constant 1, the public and the private variables; `public` counts the
    public variables without the constant.
    """

    protocol: str
    curve: PairingCurve
    variables: int
    public: int
    domain_size: int


def read_zkey_header(file: Iden3File) -> tuple[ZkeyHeader, SectionReader]:
    """Read the header of a zkey of any known protocol; also return a reader of section 2 after it.

    Raises `InputError` for an unknown protocol or curve.
    """
    section = file.section(1, "protocol")
    start = section.offset
    number = section.u32("the protocol")
    if number not in PROTOCOLS:
        section.fail(
            f"the protocol {number} is unknown; Quod supports Groth16 keys (protocol {GROTH16})",
            start,
        )
    section.finish()
    section = file.section(2, "header")
    start = section.offset
    q = section.modulus("q")
    r = section.modulus("r")
    curve = next((c for c in CURVES.values() if c.fq.value == q and c.fr.value == r), None)
    if curve is None:
        mixed = any(q == c.fq.value or r == c.fr.value for c in CURVES.values())
        section.fail(
            "q and r belong to different curves; the file is damaged, make it again"
            if mixed
            else f"q = 0x{q:x} is not the prime of a supported curve "
            f"({supported_curves()}); make the key for one of them",
            start,
        )
    if section.offset - start != 8 + curve.fq.bytes + curve.fr.bytes:
        section.fail(
            f"q and r of {curve.name} take {curve.fq.bytes} and {curve.fr.bytes} bytes and the "
            f"header gives them {section.offset - start - 8} in all; make the file again",
            start,
        )
    variables = section.u32("the count of variables")
    public = section.u32("the count of public variables")
    domain_size = section.u32("the domain size")
    return ZkeyHeader(PROTOCOLS[number], curve, variables, public, domain_size), section


def read_groth16_header(file: Iden3File) -> tuple[ZkeyHeader, SectionReader]:
    """Read a header; raise InputError unless it is of a Groth16 key with consistent sizes.

    See `read_zkey_header`.
    """
    header, section = read_zkey_header(file)
    if header.protocol != "groth16":
        raise InputError(
            f"is a {header.protocol.upper()} proving key and Quod proves Groth16; "
            "make a key with `quod groth16 setup`",
            path=file.path,
            section="1 (protocol)",
            offset=file.sections[1].offset,
        )
    _check_sizes(header, section)
    return header, section


def _check_sizes(header: ZkeyHeader, section: SectionReader) -> None:
    """Raise InputError for counts that contradict each other or the field."""
    domain_offset = section.offset - 4
    if header.variables < header.public + 1:
        section.fail(
            f"{header.variables} variables cannot hold {header.public} public ones and the "
            "constant 1; the file is damaged, make it again",
            domain_offset - 8,
        )
    size = header.domain_size
    if size < 1 or size & (size - 1):
        section.fail(
            f"the domain size {size} is not a power of two; the file is damaged, make it again",
            domain_offset,
        )
    if size > 1 << header.curve.fr.two_adicity:
        section.fail(
            f"the domain size {size} is more than {header.curve.name} has roots of unity for "
            f"(2**{header.curve.fr.two_adicity}); the file is damaged, make it again",
            domain_offset,
        )
    if size < header.public + 1:
        section.fail(
            f"the domain size {size} is too small for {header.public} public variables; "
            "the file is damaged, make it again",
            domain_offset,
        )


def lists_of_points(
    variables: int, public: int, domain_size: int
) -> tuple[tuple[int, str, int, int], ...]:
    """Return the sections of points: number, name, count of points, and 1 or 2 for G1 or G2."""
    return (
        (3, "ic", public + 1, 1),
        (5, "a", variables, 1),
        (6, "b_g1", variables, 1),
        (7, "b_g2", variables, 2),
        (8, "c", variables - public - 1, 1),
        (9, "h", domain_size, 1),
    )


def check_lengths(
    file: Iden3File,
    header: SectionReader,
    counts: tuple[int, int, int],
    point_bytes: int,
    entry_bytes: int,
) -> None:
    """Check that the sections of a key have the lengths of its header; raise InputError if not.

    header: A reader that has read the `counts` (variables, public, domain size).
    point_bytes, entry_bytes: The bytes of a point of G1 and of an entry of the coefficients.
    """
    for name, group in HEADER_POINTS:
        header.skip(point_bytes * group, name)
    header.finish()
    for identifier, name, count, group in lists_of_points(*counts):
        section = file.section(identifier, name)
        section.skip(count * point_bytes * group, name)
        section.finish()
    section = file.section(4, "coefficients")
    count = section.u32("the count of coefficients")
    section.skip(count * entry_bytes, f"the list of {count} coefficients")
    section.finish()
