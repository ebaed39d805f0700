"""Elements of any field to compute with."""

from __future__ import annotations

import random

from quod.field import FieldSpec
from quod.field.element_bytes import Plain


def drawn(field: FieldSpec, count: int, seed: int) -> list[Plain]:
    """Elements, hostile ones among them."""
    generator, p = random.Random(seed), field.modulus.value
    some = [tuple(generator.randrange(p) for _ in range(field.degree)) for _ in range(count)]
    hostile = [(0,) * field.degree, (p - 1,) * field.degree]
    return [generator.choice(hostile) if generator.random() < 0.2 else e for e in some]
