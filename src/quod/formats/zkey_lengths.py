"""Check the counts in a Groth16 zkey's header, and the lengths of its sections against them."""

from __future__ import annotations

from quod.curve.parameters import PairingCurve
from quod.formats.iden3 import Iden3File, SectionReader

HEADER_POINTS = (
    ("alpha_g1", 1), ("beta_g1", 1), ("beta_g2", 2), ("gamma_g2", 2), ("delta_g1", 1),
    ("delta_g2", 2),
)  # fmt: skip
"""The points that follow the counts in the header: name, and 1 or 2 for G1 or G2."""


def lists_of_points(
    variables: int, public: int, domain_size: int
) -> tuple[tuple[int, str, int, int], ...]:
    """The sections of points: number, name, count of points, and 1 or 2 for G1 or G2."""
    return (
        (3, "ic", public + 1, 1),
        (5, "a", variables, 1),
        (6, "b_g1", variables, 1),
        (7, "b_g2", variables, 2),
        (8, "c", variables - public - 1, 1),
        (9, "h", domain_size, 1),
    )


def check_lengths(
    file: Iden3File, header: SectionReader, counts: tuple[int, int, int], point: int, entry: int
) -> None:
    """InputError for a key whose sections are not as long as its header says.

    header: a reader that has read the `counts` (variables, public, domain size).
    point, entry: the bytes of a point of G1 and of an entry of the coefficients.
    """
    for name, group in HEADER_POINTS:
        header.skip(point * group, name)
    header.finish()
    for identifier, name, count, group in lists_of_points(*counts):
        section = file.section(identifier, name)
        section.skip(count * point * group, name)
        section.finish()
    section = file.section(4, "coefficients")
    count = section.u32("the count of coefficients")
    section.skip(count * entry, f"the list of {count} coefficients")
    section.finish()


def check_sizes(
    section: SectionReader, curve: PairingCurve, variables: int, public: int, domain_size: int
) -> None:
    """InputError for counts of a header that do not fit together.

    section: a reader that has read these counts.
    """
    at_domain = section.offset - 4
    if variables < public + 1:
        section.fail(
            f"{variables} variables cannot hold {public} public ones and the "
            "constant 1; the file is damaged, make it again",
            at_domain - 8,
        )
    if domain_size < 1 or domain_size & (domain_size - 1):
        section.fail(
            f"the domain size {domain_size} is not a power of two; the file is damaged, make it "
            "again",
            at_domain,
        )
    if domain_size > 1 << curve.fr.two_adicity:
        section.fail(
            f"the domain size {domain_size} is more than {curve.name} has roots of unity for "
            f"(2**{curve.fr.two_adicity}); the file is damaged, make it again",
            at_domain,
        )
    if domain_size < public + 1:
        section.fail(
            f"the domain size {domain_size} is too small for {public} public variables; "
            "the file is damaged, make it again",
            at_domain,
        )
