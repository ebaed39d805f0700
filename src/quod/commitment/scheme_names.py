"""Commitment schemes by name, with parameters as in files and on command lines."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from importlib import import_module
from typing import TYPE_CHECKING, Any

from quod.commitment.scheme import Scheme
from quod.device.discovery import DeviceChoice
from quod.errors import InputError, InsecureKeyError, MismatchError
from quod.formats.source import Path
from quod.frozen import field_names, fields_of
from quod.hash.table import Hash, hash_named
from quod.validation import choice, whole_number

if TYPE_CHECKING:
    from quod.commitment.reference_string import ReferenceString

SCHEMES = {
    "raw": ("quod.commitment.raw", "Raw"),
    "ligero": ("quod.commitment.ligero.scheme", "Ligero"),
    "hyrax": ("quod.commitment.hyrax", "Hyrax"),
    "hyperkzg": ("quod.commitment.hyperkzg", "HyperKzg"),
}
"""The module and the class of each scheme."""

WITH_POWERS = "hyperkzg"
"""The scheme that needs powers of tau.

The parameters of the other schemes, if any, are numbers and the name of a hash.
"""

_HASH = "hash"
"""The parameter that is the name of a hash."""

_POINTS = {"tau_g1": ("bn254.g1", 2), "tau_g2": ("bn254.g2", 3)}


def scheme_named(name: str, parameters: Mapping[str, object] | None = None) -> Scheme:
    """Return the scheme with a name; missing `parameters` have their defaults.

    The parameters of HyperKZG are the first powers of tau, as hexadecimal points, which suffice for
    a verifier; `scheme_with_powers` returns a prover's scheme. Raises InputError for an unknown
    name or parameter, and for an invalid value.
    """
    module, class_name = SCHEMES[choice("the commitment", name, list(SCHEMES))]
    scheme_class: Callable[..., Scheme] = getattr(import_module(module), class_name)
    arguments = dict(parameters or {})
    if name == WITH_POWERS:
        return scheme_class(_reference(arguments))
    for key, value in arguments.items():
        if key not in (field_names(scheme_class) or ()):  # type: ignore[arg-type]
            raise InputError(f"the commitment {name} has no parameter {key!r}")
        if key == _HASH:
            arguments[key] = hash_named(value)
        else:
            what = f"the parameter {key!r} of the commitment {name}"
            arguments[key] = whole_number(what, value, 0)
    return scheme_class(**arguments)


def scheme_with_powers(
    path: Path, log2_size: int = 1, *, device: DeviceChoice = "cpu", insecure: bool = False,
    like: Scheme | None = None,
) -> Scheme:  # fmt: skip
    """Return HyperKZG with a file's powers of tau, enough for tables of 2**log2_size entries.

    Raises MismatchError if the powers differ from those of `like`, and the errors of
    `ReferenceString.from_ptau`.
    """
    from quod.commitment.hyperkzg import HyperKzg
    from quod.commitment.reference_string import ReferenceString

    scheme = HyperKzg(
        ReferenceString.from_ptau(path, max(log2_size, 1), device=device, insecure=insecure)
    )
    if like is not None and like.parameters() != scheme.parameters():
        raise MismatchError("has different powers of tau than the verifying key", path=str(path))
    return scheme


def parameters_of(scheme: Scheme) -> dict[str, Any]:
    """Return the parameters from which `scheme_named` rebuilds a scheme; InputError if none do."""
    parameters: dict[str, Any] = {}
    if field_names(type(scheme)) is not None:
        parameters = fields_of(scheme)
        parameters |= {
            key: value.value for key, value in parameters.items() if isinstance(value, Hash)
        }
    if scheme.name == WITH_POWERS and "reference" in parameters:
        parameters = _texts(parameters["reference"])
    if (
        scheme.name not in SCHEMES
        or scheme_named(scheme.name, parameters).parameters() != scheme.parameters()
    ):
        raise InputError(f"files cannot name the commitment {scheme.parameters()}")
    return parameters


def check_secret(scheme: Scheme) -> None:
    """Raise InsecureKeyError for a scheme whose powers of tau have no contribution."""
    reference: ReferenceString | None = getattr(scheme, "reference", None)
    if reference is not None and reference.is_known:
        raise InsecureKeyError(
            "everyone knows the tau of the commitment, as nobody contributed to it, "
            "and can forge proofs; compile the circuit with the file of a ceremony"
        )


def _texts(reference: ReferenceString) -> dict[str, list[str]]:
    from quod.curve import GROUPS
    from quod.curve.encoding.points import encode_point

    points = {"tau_g1": reference.tau_g1[1:], "tau_g2": reference.tau_g2}
    return {
        name: [encode_point(GROUPS[group], point).hex() for point in points[name]]
        for name, (group, _) in _POINTS.items()
    }


def _reference(parameters: dict[str, object]) -> ReferenceString:
    from quod.commitment.reference_string import ReferenceString
    from quod.curve import GROUPS
    from quod.curve.encoding.points import decode_point

    if set(parameters) != set(_POINTS):
        raise InputError(
            f"the commitment {WITH_POWERS} has the parameters {', '.join(_POINTS)}, which a file "
            "of powers of tau gives (ptau)"
        )
    points: dict[str, list[Any]] = {}
    for name, (group, count) in _POINTS.items():
        texts = parameters[name]
        if (
            not isinstance(texts, list)
            or len(texts) != count
            or not all(isinstance(text, str) for text in texts)
        ):
            raise InputError(f"the parameter {name!r} must be a list of {count} points as text")
        try:
            points[name] = [decode_point(GROUPS[group], bytes.fromhex(text)) for text in texts]
        except ValueError:
            raise InputError(f"a point of the parameter {name!r} is not hexadecimal") from None
        if None in points[name]:
            raise InputError(f"a point of the parameter {name!r} is the point at infinity")
    # `check_secret` rejects a publicly known tau.
    return ReferenceString.of_verifier(points["tau_g1"], points["tau_g2"], insecure=True)
