"""Commitment schemes by name, with their parameters as files and command lines give them."""

from __future__ import annotations

from collections.abc import Mapping
from importlib import import_module

from quod.commitment.scheme import Scheme
from quod.errors import InputError
from quod.frozen import field_names, fields_of
from quod.validation import choice

SCHEMES = {
    "raw": ("quod.commitment.raw", "Raw"),
    "ligero": ("quod.commitment.ligero.scheme", "Ligero"),
    "hyrax": ("quod.commitment.hyrax", "Hyrax"),
}
"""The module and the class of each scheme whose parameters, if it has any, are numbers."""


def scheme_named(name: str, parameters: Mapping[str, object] | None = None) -> Scheme:
    """A scheme; what `parameters` leave out is as by default.

    InputError for a name or a parameter that there is not, and for a value that is none.
    """
    module, kind = SCHEMES[choice("the commitment", name, list(SCHEMES))]
    made = getattr(import_module(module), kind)
    given = dict(parameters or {})
    for key in given:
        if key not in (field_names(made) or ()):
            raise InputError(f"the commitment {name} has no parameter {key!r}")
    scheme: Scheme = made(**given)
    return scheme


def parameters_of(scheme: Scheme) -> dict[str, int]:
    """The parameters with which `scheme_named` makes a scheme again; InputError if it cannot."""
    found = fields_of(scheme) if field_names(type(scheme)) is not None else {}
    if (
        scheme.name not in SCHEMES
        or scheme_named(scheme.name, found).parameters() != scheme.parameters()
    ):
        raise InputError(f"files name no commitment like {scheme.parameters()}")
    return found
