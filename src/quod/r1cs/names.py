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
    """Return a wire's name for messages: its namespace, and its name or number."""
    if wire == ONE:
        return "1"
    if wire < 0:
        return system.public_names[-wire - 1]
    path = path_name(system, system.wire_paths[wire - 1])
    name = system.wire_names.get(wire, f"wire {wire}")
    return _joined(path, name)


def wire_labels(inputs: Mapping[str, Input], public: int, wires: int) -> NDArray[np.uint64]:
    """Return the label of each wire of a file: public wires, private inputs, all others.

    circom's labels have this order, which shows the inputs of a file whose private inputs are not
    the first wires after the public ones.

    public: the number of public wires.
    """
    private = [public + wire for each in inputs.values() for wire in each.wires if wire > 0]
    is_other = np.ones(wires, bool)
    is_other[: 1 + public] = is_other[private] = False
    labels = np.arange(wires, dtype=np.uint64)
    first_other = 1 + public + len(private)
    labels[private] = np.arange(1 + public, first_other)
    labels[is_other] = np.arange(first_other, wires)
    return labels


def symbols(system: TracedSystem) -> str:
    """Return lines ``label,wire,component,name`` for all wires except the constant 1, by label.

    Components are namespaces, joined by ``.`` as in circom; characters that circom does not accept
    in a name become ``_``.
    """
    public = len(system.public_names)
    lines = [f"{wire},0,main.{_plain(name)}" for wire, name in enumerate(system.public_names, 1)]
    paths: dict[int, str] = {}
    components: dict[int, str] = {}
    for wire, path in enumerate(system.wire_paths, start=1):
        if path not in components:
            paths[path] = path_name(system, path)
            parts = paths[path].split("/")
            components[path] = ".".join(["main", *map(_plain, filter(None, parts))])
        name = _plain(system.wire_names.get(wire, "w").removeprefix(f"{paths[path]}/"))
        lines.append(f"{public + wire},{path},{components[path]}.{name}_{wire}")
    labels = wire_labels(system.inputs, public, 1 + len(lines))
    wires_by_label = np.argsort(labels)[1:].tolist()
    return "".join(f"{label},{lines[wire - 1]}\n" for label, wire in enumerate(wires_by_label, 1))


def _plain(name: str) -> str:
    return "".join(
        character if character.isalnum() or character in "_[]" else "_" for character in name
    )
