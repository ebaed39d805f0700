"""Loading of kernels from files outside packages, ``path.py:name``, and execution of such files."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path
from types import ModuleType

from quod.errors import InputError, QuodError
from quod.kernel.definition import KernelDefinition
from quod.names import nearest


def load(name: str) -> KernelDefinition:
    """Load the kernel ``path.py:name``; this executes the file, as `import` would.

    Raises InputError if the file or the kernel does not exist, or if executing the file fails.
    """
    stem, _, kernel_name = name.rpartition(".py:")
    path = Path(f"{stem}.py")
    try:
        exists = path.is_file()
    except OSError as error:
        raise InputError(f"could not be read ({error.strerror})", path=str(path)) from error
    if not exists:
        raise InputError(f"there is no file {path}; a kernel of a file is named path.py:name")
    module = _run(path)
    member = getattr(module, kernel_name, None)
    if isinstance(member, KernelDefinition):
        return member
    if member is not None:
        raise InputError(
            f"{kernel_name} in {path} is not a kernel; write @kernel above its definition"
        )
    kernel_names = sorted(
        key for key, value in vars(module).items() if isinstance(value, KernelDefinition)
    )
    close = nearest(kernel_name, kernel_names, 0.5)
    hint = f"did you mean {close}?" if close else f"it has {', '.join(kernel_names) or 'none'}"
    raise InputError(f"there is no kernel {kernel_name or 'without a name'} in {path}; {hint}")


def _run(path: Path) -> ModuleType:
    try:
        return execute_file(path, f"quod_kernels_of_{path.resolve()}")
    except QuodError:
        raise
    except (Exception, SystemExit) as error:
        # SystemExit included: the file must not end this process.
        raise InputError(f"{path} does not run: {type(error).__name__}: {error}") from error


def execute_file(path: Path, name: str) -> ModuleType:
    """Execute a Python file as a new module of this name, which should shadow no other.

    After an exception of the file, which is raised as it is, no module of this name is left.
    """
    spec = importlib.util.spec_from_file_location(name, path)
    assert spec is not None
    assert spec.loader is not None
    # Classes and annotations of the file look their module up.
    module = sys.modules[name] = importlib.util.module_from_spec(spec)
    # The file may import its neighbours, as when Python runs it as a script.
    folder = str(path.resolve().parent)
    sys.path.insert(0, folder)
    writes_no_bytecode = sys.dont_write_bytecode
    # The folder is the user's.
    sys.dont_write_bytecode = True
    try:
        spec.loader.exec_module(module)
    except BaseException:
        del sys.modules[name]
        raise
    finally:
        sys.path.remove(folder)
        sys.dont_write_bytecode = writes_no_bytecode
    return module
