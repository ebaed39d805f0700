"""Namespaces, names of wires, and their export to circom's .sym files."""

from __future__ import annotations

from collections.abc import Mapping
from types import TracebackType
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from quod.r1cs.signal import ONE

if TYPE_CHECKING:
    from quod.r1cs.traced import TracedSystem
    from quod.r1cs.witness_program.steps import Input


class Namespace:
    """The context manager that `TracedSystem.namespace` returns."""

    __slots__ = ("before", "name", "system")

    def __init__(self, system: TracedSystem, name: str) -> None:
        self.system, self.name = system, name
        # A stack, as a namespace may be entered again inside itself.
        self.before: list[int] = []

    def __enter__(self) -> None:
        system = self.system
        self.before.append(system.path)
        system.path = system.path_of(system.path, self.name)

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.system.path = self.before.pop()


def path_name(system: TracedSystem, number: int) -> str:
    """Return the path of a namespace: the names from the outermost one to its own, with ``/``."""
    names: list[str] = []
    while number:
        number, name = system.paths[number]
        names.append(name)
    return "/".join(reversed(names))


def name_here(system: TracedSystem, name: str) -> str:
    """Return the name of an input within the current namespace, as in ``path[0]/index``.

    Names of inputs are unique in a circuit, so an input of a repeated gadget has such a name.
    """
    return _joined(path_name(system, system.path), name)


def _joined(path: str, name: str) -> str:
    """Return a name within a namespace; a name from `name_here` already begins with its path."""
    return name if not path or name.startswith(f"{path}/") else f"{path}/{name}"


def wire_name(system: TracedSystem, wire: int) -> str:
    """Return a wire's name for messages: its namespace, and its name or index in a witness."""
    if wire == ONE:
        return "1"
    if wire < 0:
        return system.public_names[-wire - 1]
    path = path_name(system, system.wire_paths[wire - 1])
    name = system.wire_names.get(wire, f"wire {wire + len(system.public_names)}")
    return _joined(path, name)


def wire_labels(
    inputs: Mapping[str, Input], outputs: int, public: int, wires: int
) -> NDArray[np.uint64]:  # fmt: skip
    """Return the label of each wire of a file: outputs, inputs, all others, in circom's order.

    The labels show the inputs of a file whose private inputs are not the first wires after the
    public ones. A file marks `outputs` only if they precede the public inputs. The header counts
    other outputs as public inputs; their labels are above the number of public wires and private
    inputs, as those of all wires that are no inputs.

    outputs: the number of outputs that the header counts.
    public: the number of public wires.
    """
    declared = [wire for each in inputs.values() for wire in each.wires]
    public_inputs = sorted(-wire for wire in declared if wire < 0)
    private_inputs = [public + wire for wire in declared if wire > 0]
    labelled = [*range(1 + outputs), *public_inputs, *private_inputs]
    labels = np.zeros(wires, np.uint64)
    labels[labelled] = np.arange(len(labelled))
    is_other = np.ones(wires, bool)
    is_other[labelled] = False
    first_other = 1 + public + len(private_inputs)
    labels[is_other] = np.arange(first_other, first_other + wires - len(labelled))
    return labels


def symbols(system: TracedSystem) -> str:
    """Return lines ``label,wire,component,name`` for all wires except the constant 1, by label.

    Components are namespaces, joined by ``.`` as in circom; characters that circom does not accept
    in a name become ``_``. An element of a private input has its index in brackets. The names of
    wires that are neither public nor inputs end in the wire's number, as do names that would occur
    twice.
    """
    public = len(system.public_names)
    paths = [0] * public + system.wire_paths
    names = _distinct_names(system)
    outputs = system.outputs if system.outputs_first else 0
    labels = wire_labels(system.inputs, outputs, public, 1 + len(names))
    return "".join(
        f"{labels[wire]},{wire},{paths[wire - 1]},{names[wire - 1]}\n"
        for wire in np.argsort(labels)[1:].tolist()
    )


def _distinct_names(system: TracedSystem) -> list[str]:
    """Return the names of all wires except the constant 1; see `symbols`."""
    public = len(system.public_names)
    names = [f"main.{_plain(name)}" for name in system.public_names]
    paths: dict[int, str] = {}
    components: dict[int, str] = {}
    for wire, path in enumerate(system.wire_paths, start=1):
        if path not in components:
            paths[path] = path_name(system, path)
            parts = paths[path].split("/")
            components[path] = ".".join(["main", *map(_plain, filter(None, parts))])
        name = _plain(system.wire_names.get(wire, "w").removeprefix(f"{paths[path]}/"))
        names.append(f"{components[path]}.{name}")
    # Names of inputs and outputs come first, so that no other wire takes one.
    declared = [*range(public)]
    for each in system.inputs.values():
        if not each.public:
            indices = [public + wire - 1 for wire in each.wires]
            declared += indices
            if each.bits or not each.single:
                for element, index in enumerate(indices):
                    names[index] += f"[{element}]"
    is_other = np.ones(len(names), bool)
    is_other[declared] = False
    used: set[str] = set()
    for index in [*declared, *np.flatnonzero(is_other).tolist()]:
        if is_other[index] or names[index] in used:
            names[index] += f"_{index + 1}"
        while names[index] in used:
            names[index] += "_"
        used.add(names[index])
    return names


def _plain(name: str) -> str:
    return "".join(
        character if character.isalnum() or character in "_[]" else "_" for character in name
    )
