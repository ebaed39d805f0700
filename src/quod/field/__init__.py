"""Prime fields and their extensions: moduli, limb strategies, towers, host arrays.

The names below load on first use (PEP 562).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from quod.lazy import lazy_names

if TYPE_CHECKING:
    from quod.field.array import from_integers as from_integers
    from quod.field.array import integers_to_words as integers_to_words
    from quod.field.array import random_elements as random_elements
    from quod.field.array import to_integers as to_integers
    from quod.field.array import words_to_integers as words_to_integers
    from quod.field.element import Element as Element
    from quod.field.extension import extension_field as extension_field
    from quod.field.integers import Integers as Integers
    from quod.field.moduli import MODULI as MODULI
    from quod.field.moduli import NAMED as NAMED
    from quod.field.moduli import Modulus as Modulus
    from quod.field.named_extensions import EXTENSIONS as EXTENSIONS
    from quod.field.parameter import ElementOf as ElementOf
    from quod.field.spec import Extension as Extension
    from quod.field.spec import FieldSpec as FieldSpec
    from quod.field.strategy import prime_field as prime_field
else:
    __getattr__, __dir__ = lazy_names(__name__)
