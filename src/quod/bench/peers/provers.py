"""Other provers as peers: whole processes, or libraries in a process.

snarkjs is taken from `build/node` (installed by `tools/setup.sh node`), otherwise from the PATH;
rapidsnark from the PATH.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Self

from quod.errors import QuodError

Runs = dict[str, Callable[[], object]]

IN_PROCESS = "in process"
"""The name of runs as a library."""
WHOLE = "whole process"
"""The name of runs as a command."""

_DRIVER = Path(__file__).with_name("snarkjs.mjs")
_CALLS = Path(__file__).with_name("snarkjs_calls.mjs")
_LIBRARY = "snarkjs as a library"
NO_SNARKJS = (
    "snarkjs is neither in build/node (run tools/setup.sh node) nor on the PATH "
    "(npm install -g snarkjs)"
)
_NO_NODE = "node is not on the PATH"
_NO_RAPIDSNARK = "rapidsnark is not on the PATH"


@dataclass(frozen=True)
class Files:
    """A proof with its inputs, in snarkjs's file formats."""

    zkey: Path
    witness: Path
    vkey: Path
    public: Path
    proof: Path


def find_snarkjs() -> str | None:
    """Find snarkjs, or return None."""
    checkout = Path(__file__).resolve().parents[4]
    local = checkout / "build" / "node" / "node_modules" / ".bin" / "snarkjs"
    return str(local) if local.exists() else shutil.which("snarkjs")


def process_provers(curve: str, files: Files) -> tuple[Runs, dict[str, str]]:
    """Return runs of provers as processes, and the reasons for missing ones."""
    runs: Runs = {}
    absent: dict[str, str] = {}
    arguments = [str(path) for path in (files.zkey, files.witness, files.proof, files.public)]
    snarkjs, rapidsnark = find_snarkjs(), shutil.which("rapidsnark")
    if snarkjs is None:
        absent["snarkjs"] = NO_SNARKJS
    else:
        runs["snarkjs"] = process([snarkjs, "groth16", "prove", *arguments])
    if curve != "bn254":
        absent["rapidsnark"] = f"it supports only BN254, not {curve}"
    elif rapidsnark is None:
        absent["rapidsnark"] = _NO_RAPIDSNARK
    else:
        runs["rapidsnark"] = process([rapidsnark, *arguments])
    return runs, absent


def process_verifiers(files: Files) -> tuple[Runs, dict[str, str]]:
    """Return runs of verifiers as processes, and the reasons for missing ones."""
    snarkjs = find_snarkjs()
    if snarkjs is None:
        return {}, {"snarkjs": NO_SNARKJS}
    arguments = [str(path) for path in (files.vkey, files.public, files.proof)]
    return {"snarkjs": process([snarkjs, "groth16", "verify", *arguments])}, {}


class Libraries:
    """Provers with the key in memory, in processes started on first use."""

    def __init__(self, files: Files) -> None:
        self.provers: Runs = {}
        self.verifiers: Runs = {}
        self.absent: dict[str, str] = {}
        self._snarkjs: Snarkjs | None = None
        program, node = find_snarkjs(), shutil.which("node")
        if program is None or node is None:
            self.absent["snarkjs"] = NO_SNARKJS if program is None else _NO_NODE
            return
        self._snarkjs = Snarkjs(node, program, files)
        self.provers["snarkjs"] = self._snarkjs.prove
        self.verifiers["snarkjs"] = self._snarkjs.verify

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        if self._snarkjs is not None:
            self._snarkjs.close()


class NodeProcess:
    """A node process, started on first use, that answers each line with a line."""

    def __init__(self, command: Sequence[str], name: str) -> None:
        """Set the command, and the name of what it runs, for errors."""
        self._command, self._name = list(command), name
        self._process: subprocess.Popen[str] | None = None

    def ask(self, what: str) -> None:
        """Send a request and wait; raises QuodError with the process's message if it fails."""
        process = self._process
        if process is None:
            process = self._process = subprocess.Popen(
                self._command, stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                stderr=subprocess.PIPE, text=True,
            )  # fmt: skip
            self._expect("ready", process)
        opened_pipe(process.stdin).write(what + "\n")
        opened_pipe(process.stdin).flush()
        self._expect("done", process)

    def _expect(self, expected: str, process: subprocess.Popen[str]) -> None:
        """Read a line of the process; QuodError, and the process ends, if it is another one."""
        line = opened_pipe(process.stdout).readline().strip()
        if line == expected:
            return
        if not line:  # it has ended
            line = last_line(process.communicate()[1])
        self.close()
        raise QuodError(f"{self._name} failed: {line.removeprefix('failed: ')}")

    def close(self) -> None:
        """Stop the process."""
        if self._process is not None:
            self._process.kill()
            self._process.communicate()
            self._process = None


class Snarkjs(NodeProcess):
    """snarkjs as a library in a node process, which has proved once when it is ready."""

    def __init__(self, node: str, program: str, files: Files) -> None:
        inputs = (files.zkey, files.witness, files.vkey, files.public, files.proof)
        paths = [str(path.resolve()) for path in inputs]
        super().__init__([node, str(_DRIVER), _package(program), *paths], _LIBRARY)

    def prove(self) -> None:
        """Compute a proof; raises QuodError with snarkjs's message."""
        self.ask("prove")

    def verify(self) -> None:
        """Verify the proof in the files; raises QuodError if it is invalid."""
        self.ask("verify")


class SnarkjsCalls(NodeProcess):
    """File functions of the snarkjs library, in one node process."""

    def __init__(self, node: str, program: str) -> None:
        super().__init__([node, str(_CALLS), _package(program)], _LIBRARY)

    @classmethod
    def found(cls) -> Self | None:
        """Create it if node and snarkjs are installed, otherwise return None."""
        program, node = find_snarkjs(), shutil.which("node")
        return None if program is None or node is None else cls(node, program)

    def call(self, name: str, *arguments: object) -> None:
        """Call a function by name, such as ``zKey.newZKey``; paths are passed as strings."""
        self.ask(json.dumps([name, *map(str, arguments)]))


def _package(program: str) -> str:
    """Return the folder of snarkjs, whose program is a link to build/cli.cjs in it."""
    return str(Path(os.path.realpath(program)).parents[1])


def opened_pipe(stream: IO[str] | None) -> IO[str]:
    """Return a stream of a process started with pipes."""
    assert stream is not None
    return stream


def process(command: Sequence[str]) -> Callable[[], None]:
    """Return a function that runs a command; it raises QuodError if the command fails."""

    def run() -> None:
        name = Path(command[0]).name
        try:
            # Programs may print bytes that are no text.
            finished = subprocess.run(command, capture_output=True, text=True, errors="replace")
        except OSError as error:
            raise QuodError(f"{name} cannot be run: {error.strerror or error}") from error
        if finished.returncode != 0:
            last = last_line(finished.stderr or finished.stdout)
            raise QuodError(f"{name} failed ({finished.returncode}): {last}")

    return run


def last_line(text: str) -> str:
    """Return the last line of a program's output."""
    return (text.strip().splitlines() or ["no message"])[-1]
