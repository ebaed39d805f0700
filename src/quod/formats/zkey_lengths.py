"""Check the lengths of a Groth16 zkey's sections against its header, without reading them."""

from __future__ import annotations

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
