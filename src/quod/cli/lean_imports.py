"""Imports of libraries without their unused modules, for commands that take a fraction of a second.

`import numpy` also imports its linear algebra, with the types of `numpy.typing`, and modules that
only set docstrings. NumPy, `inspect` and `pathlib` import modules for single functions, such as
`pickle` and `urllib.parse`. Together these take a third of the time of all imports, and no proof
uses them. A placeholder stands for each of them during the imports and is removed afterwards, so a
later import loads the module itself. A library that has imported a placeholder gets the attributes
of the module from it. The one difference is that NumPy's functions in C have no docstrings. Only a
process that belongs to Quod's command line may do this.
"""

from __future__ import annotations

import sys
from importlib import import_module
from types import ModuleType
from typing import Any

_LIBRARIES = ("inspect", "pathlib", "numpy")
_UNUSED = (
    "numpy._core._add_newdocs", "numpy._core._add_newdocs_scalars", "numpy.linalg", "pickle",
    "platform", "textwrap", "tokenize", "urllib.parse",
)  # fmt: skip


class _Placeholder(ModuleType):
    """A module that is imported when it is used.

    As long as it is in `sys.modules`, a name in lower case counts as a function that is imported
    from it (`from m import f`), and the module is imported when the function is called.
    """

    def __init__(self, name: str) -> None:
        super().__init__(name)
        self.__path__ = []

    def __getattr__(self, name: str) -> Any:
        in_use = sys.modules.get(self.__name__) is not self
        if in_use or name.startswith("_") or not name.islower():
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


def import_libraries() -> None:
    """Import NumPy, `inspect` and `pathlib` without the modules in them that no proof uses."""
    if "numpy" in sys.modules:
        return
    placeholders = {name: _Placeholder(name) for name in _UNUSED if name not in sys.modules}
    sys.modules.update(placeholders)
    try:
        for name in _LIBRARIES:
            import_module(name)
    finally:
        for placeholder in placeholders.values():
            placeholder.remove()
