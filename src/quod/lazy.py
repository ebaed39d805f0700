"""Packages whose public names load on first use (PEP 562).

A package lists its names once, as the re-exports that type checkers, linters and editors read:

    if TYPE_CHECKING:
        from quod.field.array import to_integers as to_integers
    else:
        __getattr__, __dir__ = lazy_names(__name__)

`lazy_names` reads the module that defines a name from these lines, on the first use of a name.
"""

from __future__ import annotations

import sys

# Not the name of `typing`, and no import at run time: each takes a millisecond of every command.
TYPE_CHECKING = False

if TYPE_CHECKING:
    from collections.abc import Callable, Collection


def lazy_names(
    package: str, subpackages: Collection[str] = ()
) -> tuple[Callable[[str], object], Callable[[], list[str]]]:
    """Return the `__getattr__` and `__dir__` of a package; `__getattr__` provides `__all__` too.

    subpackages: packages in it that load on first use and are not in `__all__`.
    A public name must not be the name of a module of the package, as importing the module would
    replace the public name.
    """
    namespace = vars(sys.modules[package])
    modules: dict[str, str] = {}

    def defining_modules() -> dict[str, str]:
        if not modules:
            # The loader's `get_source` would import `tokenize` to find the encoding.
            loader, path = namespace["__spec__"].loader, namespace["__file__"]
            modules.update(re_exports(loader.get_data(path).decode()))
        return modules

    def get(name: str) -> object:
        from importlib import import_module

        value: object
        if name in subpackages:
            value = import_module(f"{package}.{name}")
        elif name == "__all__":
            value = list(defining_modules())
        elif name in defining_modules():
            value = getattr(import_module(modules[name]), name)
        else:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        namespace[name] = value
        return value

    def names() -> list[str]:
        return sorted({*namespace, *defining_modules(), *subpackages})

    return get, names


def re_exports(source: str) -> dict[str, str]:
    """Return the module of each re-exported name (`n as n`) of a source, in the order of its lines.

    The source must be formatted, with one such name per line (`from m import n as n`, or `n as n,`
    in a parenthesised list). Lines are split instead of parsed, as a parser would take as long as
    the rest of a package's import.
    """
    modules = {}
    module = ""
    for line in source.splitlines():
        if " as " not in line and "import (" not in line:
            continue
        words = line.replace(",", " ").split()
        if words[:1] == ["from"] and words[2:3] == ["import"]:
            module, words = words[1], words[3:]
        if len(words) == 3 and words[1] == "as" and words[0] == words[2]:
            modules[words[0]] = module
    return modules
