"""Provers of other projects that are given by a path.

A path ends at a program, which proves once a process, or at a shared library with rapidsnark's
interface in C (`prover.h` of rapidsnark), which keeps its key in memory.
"""

from __future__ import annotations

import ctypes
import os
import re
import shlex
import subprocess
from collections.abc import Callable
from pathlib import Path

from quod import shallow_json
from quod.bench.peers.provers import Files, process
from quod.errors import InputError, QuodError

# Also with versions, such as librapidsnark.so.1.
_LIBRARY_NAME = re.compile(r".+\.(so|dylib|dll)(\.\d+)*")
_MESSAGE_BYTES = 1024
_MAX_OUTPUT_BYTES = 1 << 20


class ProverAtPath:
    """A prover given by a path.

    command: a path, or a command line that begins with one, in which ``{zkey}``, ``{witness}``,
        ``{proof}`` and ``{public}`` stand for files. Without them the files follow in this order,
        as rapidsnark takes them.
    name: the program's name and the commit of the checkout that it is in, for the rows.

    Raises InputError if there is no such program or library, the program is not executable, a
    library has arguments, or the command line cannot be split.
    """

    def __init__(self, command: str) -> None:
        try:
            self._words = shlex.split(command)
        except ValueError as error:
            raise InputError(f"--against {command!r} is not a command line: {error}") from error
        self._path = Path(self._words[0])
        subject = f"--against {self._words[0]!r}"
        # Unlike Path.is_file this is false for any path that cannot be read.
        if not os.path.isfile(self._path):
            raise InputError(f"{subject}: there is no such program or library")
        self.is_library = _LIBRARY_NAME.fullmatch(self._path.name) is not None
        if self.is_library and len(self._words) > 1:
            raise InputError(f"{subject} is a library, which takes no arguments; name it alone")
        if not self.is_library and not os.access(self._path, os.X_OK):
            raise InputError(f"{subject} is not executable; run chmod +x on it")
        self.name = " ".join(filter(None, (self._path.name, _commit_of(self._path))))

    def opened(self, files: Files) -> Callable[[], None]:
        """Return a function that computes a proof, and verifies the first.

        It raises QuodError if the prover fails or writes no files, or its first proof is not valid.
        """
        run = _Library(self._path, files).prove if self.is_library else process(self._filled(files))
        is_checked = False

        def prove() -> None:
            nonlocal is_checked
            # Quod's own proof is in these files, and the proof of an earlier run.
            for path in (files.proof, files.public):
                path.unlink(missing_ok=True)
            run()
            if not (files.proof.exists() and files.public.exists()):
                raise QuodError(f"{self.name} wrote no proof that can be read")
            if not is_checked:
                self._check(files)
                is_checked = True

        return prove

    def _filled(self, files: Files) -> list[str]:
        """Return the command line with the files of a proof."""
        paths = {
            "{zkey}": files.zkey, "{witness}": files.witness, "{proof}": files.proof,
            "{public}": files.public,
        }  # fmt: skip
        words = list(self._words)
        if not any(mark in word for word in words for mark in paths):
            return [*words, *map(str, paths.values())]
        for mark, path in paths.items():
            words = [word.replace(mark, str(path)) for word in words]
        return words

    def _check(self, files: Files) -> None:
        from quod.groth16 import Proof, ProvingKey

        # Keys of tests are measured as well.
        key = ProvingKey.from_zkey(files.zkey, allow_insecure=True).verifying_key
        try:
            proof = Proof.from_json(files.proof, curve=key.curve)
            is_valid = key.verify(shallow_json.load(files.public.read_text()), proof)
        except (OSError, QuodError, ValueError, RecursionError) as error:
            raise QuodError(f"{self.name} wrote no proof that can be read: {error}") from error
        if not is_valid:
            raise QuodError(f"the proof of {self.name} is not valid for this key")


def is_path(peer: str) -> bool:
    """Report whether a peer is given by a path, not by its name."""
    return "/" in peer or os.sep in peer


def _commit_of(program: Path) -> str:
    """Return the commit of the checkout that a program was built in, or nothing."""
    command = ["git", "-C", str(program.resolve().parent), "rev-parse", "--short", "HEAD"]
    try:
        return subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()
    except (OSError, subprocess.CalledProcessError):
        return ""


class _Library:
    """A prover of rapidsnark's library; the key is read on the first proof."""

    def __init__(self, path: Path, files: Files) -> None:
        try:
            self._functions = ctypes.CDLL(str(path.resolve()))
            self._create = self._functions.groth16_prover_create
            self._prove = self._functions.groth16_prover_prove
        except (OSError, AttributeError) as error:
            raise InputError(f"{path} is not a library of rapidsnark: {error}") from error
        self._files, self._prover = files, ctypes.c_void_p()
        self._outputs = [ctypes.create_string_buffer(_MAX_OUTPUT_BYTES) for _ in range(2)]

    def prove(self) -> None:
        """Compute a proof and write its files; raises QuodError with the library's message."""
        if self._prover.value is None:
            # The library reads the key in this memory, for as long as it proves.
            self._zkey = self._files.zkey.read_bytes()
            size = ctypes.c_ulonglong(len(self._zkey))
            self._call(self._create, ctypes.byref(self._prover), self._zkey, size)
            if self._prover.value is None:
                raise QuodError("the library failed: it created no prover")
        witness = self._files.witness.read_bytes()
        proof, public = self._outputs
        sizes = [ctypes.c_ulonglong(_MAX_OUTPUT_BYTES) for _ in range(2)]
        self._call(
            self._prove, self._prover, witness, ctypes.c_ulonglong(len(witness)),
            proof, ctypes.byref(sizes[0]), public, ctypes.byref(sizes[1]),
        )  # fmt: skip
        self._files.proof.write_bytes(proof.value)
        self._files.public.write_bytes(public.value)

    @staticmethod
    def _call(function: Callable[..., int], *arguments: object) -> None:
        message = ctypes.create_string_buffer(_MESSAGE_BYTES)
        if function(*arguments, message, ctypes.c_ulonglong(_MESSAGE_BYTES)) != 0:
            raise QuodError(f"the library failed: {message.value.decode(errors='replace')}")
