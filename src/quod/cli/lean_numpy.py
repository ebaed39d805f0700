"""NumPy without its unused modules, for commands that take a fraction of a second.

`import numpy` also imports its linear algebra, with the types of `numpy.typing`, and modules that
only set docstrings. These take a third of its time, and no proof uses them. A placeholder stands
for each of them while NumPy is imported and is removed afterwards, so a later import of such a
module loads the module itself. A function that NumPy took from a placeholder calls the module's
function. The one difference is that functions written in C have no docstrings. Only a process that
belongs to Quod's command line may do this.
"""

from __future__ import annotations

import sys
from importlib import import_module
from types import ModuleType
from typing import Any

_UNUSED = ("numpy._core._add_newdocs", "numpy._core._add_newdocs_scalars", "numpy.linalg")


class _Placeholder(ModuleType):
    """A module that is imported when one of its functions is called."""

    def __init__(self, name: str) -> None:
        super().__init__(name)
        self.__path__ = []

    def __getattr__(self, name: str) -> Any:
        if not name.islower() or name.startswith("_"):
            # Not a function.
            return getattr(self._imported(), name)

        def call(*arguments: Any, **named: Any) -> Any:
            return getattr(self._imported(), name)(*arguments, **named)

        return call

    def _imported(self) -> ModuleType:
        self.remove()
        return import_module(self.__name__)

    def remove(self) -> None:
        """Make the next import of this name import the module."""
        if sys.modules.get(self.__name__) is self:
            del sys.modules[self.__name__]
        package, _, attribute = self.__name__.rpartition(".")
        names = vars(sys.modules[package]) if package in sys.modules else {}
        if names.get(attribute) is self:
            del names[attribute]


def import_numpy() -> None:
    """Import NumPy without its unused modules, unless the process has imported it already."""
    if "numpy" in sys.modules:
        return
    placeholders = {name: _Placeholder(name) for name in _UNUSED}
    sys.modules.update(placeholders)
    try:
        import_module("numpy")
    finally:
        for placeholder in placeholders.values():
            placeholder.remove()
