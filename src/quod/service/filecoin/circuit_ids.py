"""The names of parameter sets in cuzk's protocol, such as porep-32g: the keys of Filecoin jobs."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from quod.errors import InputError
from quod.filecoin.parameters.identifiers import ParameterSet, ProofKind
from quod.filecoin.registered_proofs import REGISTERED_SIZES
from quod.filecoin.sectors import sector_shape
from quod.service.errors import NotFoundError
from quod.service.keys.names import parse_name

_PREFIXES: Final = {
    ProofKind.POREP: "porep",
    ProofKind.UPDATE: "snap",
    ProofKind.WINDOW: "wpost",
    ProofKind.WINNING: "winning",
}


def circuit_id(parameters: ParameterSet) -> str:
    """Return the name of a parameter set."""
    size = parameters.sector.name.removesuffix("iB").lower()
    return f"{_PREFIXES[parameters.kind]}-{size}"


CIRCUITS: Final[Mapping[str, ParameterSet]] = {
    circuit_id(parameters): parameters
    for kind in ProofKind
    for parameters in (ParameterSet(kind, sector_shape(size)) for size in REGISTERED_SIZES)
}
"""The parameter sets of all registered sector sizes by name."""


def parameters_of(name: str) -> ParameterSet:
    """Return the parameter set of a name, which may have the tag of a key's name.

    Raises NotFoundError for other names.
    """
    try:
        parameters = CIRCUITS.get(parse_name(name).name)
    except InputError:
        parameters = None
    if parameters is None:
        raise NotFoundError(
            f"there is no circuit of this name; the names are {', '.join(CIRCUITS)}"
        )
    return parameters
