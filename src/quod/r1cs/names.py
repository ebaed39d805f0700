"""Namespaces, names of wires, and their export to circom's .sym files."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
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
    wires that are neither public nor inputs end in the wire's number. So do those of inputs and
    outputs by which a user could mean another one, such as the names of an array ``x`` and a signal
    ``x[0]``.
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
    declarations = _declarations(system, names)
    keys = [key for each in declarations for key in each.keys]
    used = {*keys, *(array for key in keys for array in _arrays(key))}
    is_other = np.ones(len(names), bool)
    for declaration in declarations:
        if declaration.is_unclear:
            declaration.name += f"_{declaration.indices[0] + 1}"
            while declaration.name in used:
                declaration.name += "_"
            used.add(declaration.name)
        is_other[declaration.indices] = False
        for index, name in zip(declaration.indices, declaration.names, strict=True):
            names[index] = name
    for index in np.flatnonzero(is_other).tolist():
        names[index] += f"_{index + 1}"
        while names[index] in used:
            names[index] += "_"
        used.add(names[index])
    return names


class _Declaration:
    """An input or output.

    python_name: its name in Python.
    name: its name in a .sym file.
    indices: the indices of its wires, without the constant 1.
    is_unclear: whether a name of it, here or in Python, selects another input or output here.
    """

    __slots__ = ("indices", "is_array", "is_unclear", "name", "python_name")

    def __init__(self, python_name: str, name: str, indices: list[int], is_array: bool) -> None:
        self.python_name, self.name = python_name, name
        self.indices, self.is_array, self.is_unclear = indices, is_array, False

    @property
    def names(self) -> list[str]:
        """The name of each wire in a .sym file."""
        if not self.is_array:
            return [self.name]
        return [f"{self.name}[{element}]" for element in range(len(self.indices))]

    @property
    def keys(self) -> set[str]:
        """The names by which a user may select it, without those of elements."""
        return {self.name, self.python_name, f"main.{self.python_name}"}


def _declarations(system: TracedSystem, names: list[str]) -> list[_Declaration]:
    """Return the inputs and outputs; the unclear ones are last.

    names: a name for each wire except the constant 1.
    """
    public = len(system.public_names)
    result = []
    for declared in system.inputs.values():
        indices = [(-wire if wire < 0 else public + wire) - 1 for wire in declared.wires]
        name = f"main.{_plain(declared.name)}" if declared.public else names[indices[0]]
        result.append(_Declaration(declared.name, name, indices, declared.has_elements))
    inputs = {index for each in result for index in each.indices}
    result += [
        _Declaration(name, names[index], [index], False)
        for index, name in enumerate(system.public_names)
        if index not in inputs
    ]
    owners: dict[str, list[_Declaration]] = {}
    for each in result:
        for key in each.keys:
            owners.setdefault(key, []).append(each)
    for each in result:
        for key in each.keys:
            each.is_unclear |= len(owners[key]) > 1
            for array in _arrays(key):
                for owner in owners.get(array, []):
                    # The name of a signal precedes that of an array.
                    if owner is not each and (owner.is_array or owner.name != array):
                        each.is_unclear = owner.is_unclear = True
    return sorted(result, key=lambda each: each.is_unclear)


def _arrays(name: str) -> Iterator[str]:
    """Yield the arrays of which a name is an element: ``x[0]`` and ``x`` for ``x[0][1]``."""
    while (index := _INDEX.search(name)) is not None:
        name = name[: index.start()]
        yield name


def array_name(name: str) -> str:
    """Return a name without the indices at its end: that of the array, for an element."""
    return _INDICES.sub("", name)


_INDEX = re.compile(r"\[[0-9]+\]$")
_INDICES = re.compile(r"(\[[0-9]+\])+$")


def _plain(name: str) -> str:
    return "".join(
        character if character.isalnum() or character in "_[]" else "_" for character in name
    )
