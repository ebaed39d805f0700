"""The entry point, from arguments to exit code, and all ways in which a command can end.

Nothing here imports the numeric parts of Quod; commands do so when they run.
"""

from __future__ import annotations

import os
import signal
import sys
import warnings
from collections.abc import Callable, Sequence
from importlib import import_module
from types import FrameType

from quod import __version__
from quod.cli import guard, one_shot
from quod.cli.display.streams import StdoutClosed, discard_results, prepare_streams
from quod.cli.display.terminal import fail, warn_of
from quod.cli.spellings import quod_spelling
from quod.device.memory.address_space import memory_limit
from quod.errors import DeviceError, OutputError, QuodError

EXIT_INTERNAL = 70  # EX_SOFTWARE of sysexits.h
EXIT_INTERRUPTED = 130  # 128 + SIGINT
EXIT_BROKEN_PIPE = 141  # 128 + SIGPIPE

# Frequent short commands, with the modules of their functions, which skip typer.
_QUICK = {
    ("groth16", "prove"): "quod.cli.groth16.commands",
    ("groth16", "verify"): "quod.cli.groth16.commands",
    ("zcash", "prove-spend"): "quod.cli.zcash",
    ("zcash", "prove-output"): "quod.cli.zcash",
    ("zcash", "prove-convert"): "quod.cli.zcash",
    ("zcash", "prove-bundle"): "quod.cli.zcash",
    ("zcash", "verify"): "quod.cli.zcash",
}


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the command line and leave the process."""
    # Both signals end the process like Ctrl-C, so that partial output files are removed.
    signal.signal(signal.SIGTERM, _terminate)
    if signal.getsignal(signal.SIGHUP) is not signal.SIG_IGN:  # as under nohup
        signal.signal(signal.SIGHUP, _terminate)
    warnings.showwarning = warn_of
    prepare_streams()
    # NumPy's unused OpenBLAS would start a thread for each core.
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    one_shot.declare_one_shot()
    words = sys.argv[1:] if arguments is None else list(arguments)

    def run_words() -> int:
        return run(words, owns_process=True)

    code = guard.run_guarded(run_words) if memory_limit() is not None else run_words()
    # Outputs are complete; shutting the interpreter and its threads down would take 30 ms.
    os._exit(code)


def run(arguments: Sequence[str], *, owns_process: bool = False) -> int:
    """Run one command and return its exit code; errors become one line on standard error.

    owns_process: whether nothing but this command runs in the process.
    """
    return exit_code_of(lambda: _dispatch(arguments, owns_process))


def exit_code_of(work: Callable[[], int]) -> int:
    """Call a function that returns an exit code; its errors become one line on standard error."""
    try:
        code = work()
        sys.stdout.flush()
        return code
    except (BrokenPipeError, StdoutClosed):
        # The reader has gone; the interpreter must not flush the output again.
        discard_results()
        return EXIT_BROKEN_PIPE
    except KeyboardInterrupt:
        return _interrupted()
    except SystemExit as exit_request:
        # Raised by the signal handler.
        return exit_request.code if isinstance(exit_request.code, int) else EXIT_INTERNAL
    except QuodError as error:
        # Of an output: other pipes and sockets may break too.
        is_broken_pipe = isinstance(error, OutputError) and isinstance(
            error.__cause__, BrokenPipeError
        )
        return _failed(error, EXIT_BROKEN_PIPE if is_broken_pipe else error.exit_code)
    except MemoryError as error:
        return _failed(
            error, DeviceError.exit_code, "out of memory; free memory or use a larger machine"
        )
    except Exception as error:
        if isinstance(error, RuntimeError) and "can't start new thread" in str(error):
            advice = "no thread could be started; allow more memory or processes (ulimit -v, -u)"
            return _failed(error, DeviceError.exit_code, advice)
        if isinstance(error, ImportError) and memory_limit() is not None:
            advice = "out of memory while loading a library; raise `ulimit -v`"
            return _failed(error, DeviceError.exit_code, advice)
        _show_traceback()
        fail(
            f"internal error: {type(error).__name__}: {error} "
            f"(a defect of Quod {__version__}: please report it; "
            "QUOD_TRACEBACK=1 shows where it happened)"
        )
        return EXIT_INTERNAL


def _dispatch(arguments: Sequence[str], owns_process: bool) -> int:
    if list(arguments) == ["--version"]:
        # Scripts use it, so it is answered before the command line is built.
        print(f"quod {__version__}")
        return 0
    arguments = quod_spelling(arguments)
    if not {"-q", "--quiet"}.isdisjoint(arguments):
        from quod.device.cache.compilations import compilations

        compilations.set_notice(False)
    if _run_quickly(arguments, owns_process):
        return 0
    from quod.cli.app import app

    try:
        app(args=list(arguments), prog_name="quod")
    except SystemExit as exit_request:
        code = (
            exit_request.code
            if isinstance(exit_request.code, int)
            else int(exit_request.code is not None)
        )
        return _interrupted() if code == EXIT_INTERRUPTED else code
    return 0


def _run_quickly(arguments: Sequence[str], owns_process: bool) -> bool:
    """Run a command of `_QUICK`; return False if typer must parse its words."""
    group, name, *words = [*arguments[:2], *([""] * (2 - len(arguments[:2]))), *arguments[2:]]
    if (group, name) not in _QUICK:
        return False
    if owns_process and {"-h", "--help"}.isdisjoint(words):
        _prepare_imports()
    from quod.cli import quick
    from quod.cli.parameters import WrongUsage

    command = getattr(import_module(_QUICK[group, name]), name.replace("-", "_"))
    values = quick.parse(command, words)
    if values is None:
        return False
    try:
        command(**values)
    except WrongUsage:
        # No work has been done yet; typer reports the error with the usage.
        return False
    return True


def _prepare_imports() -> None:
    """Shorten the start of a process that runs nothing but a fast command."""
    if memory_limit() is None:
        from quod.device.cache.sources import begin_digest

        begin_digest()
    from quod.cli.lean_imports import import_libraries

    import_libraries()


def _failed(error: BaseException, code: int, message: str | None = None) -> int:
    _show_traceback()
    resumable = sys.modules.get("quod.formats.resumable")
    kept_files = "" if resumable is None else ", ".join(resumable.kept)
    hint = f"; then run the command again to resume {kept_files}" if kept_files else ""
    fail(f"error: {message or str(error) or type(error).__name__}{hint}")
    return code


def _interrupted() -> int:
    resumable = sys.modules.get("quod.formats.resumable")
    kept_files = [] if resumable is None else resumable.resumable_targets()
    if kept_files:
        fail(f"interrupted; run the command again to resume {', '.join(kept_files)}")
    else:
        fail("interrupted; no partial file is left")
    return EXIT_INTERRUPTED


def _terminate(number: int, _frame: FrameType | None) -> None:
    if number == signal.SIGHUP:
        # Under a guard both the terminal and the guard send it; ignore the second.
        signal.signal(number, signal.SIG_IGN)
    sys.exit(128 + number)


def _show_traceback() -> None:
    if os.environ.get("QUOD_TRACEBACK", "") not in ("", "0"):
        import traceback

        traceback.print_exc()
