"""Other provers to compare with, like with like: a whole process, or a library in one.

snarkjs is the one of `build/node` if it is there (`tools/setup.sh node` puts it there), else the
one on the PATH; rapidsnark is the one on the PATH.
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
WHOLE = "whole process"

_DRIVER = Path(__file__).with_name("snarkjs.mjs")
_CALLS = Path(__file__).with_name("snarkjs_calls.mjs")
NO_SNARKJS = (
    "there is no snarkjs in build/node (tools/setup.sh node puts it there) and none on the PATH "
    "(npm install -g snarkjs)"
)
_NO_NODE = "there is no node on the PATH"
_NO_RAPIDSNARK = "there is no rapidsnark on the PATH"


@dataclass(frozen=True)
class Files:
    """One proof and what it is of, in snarkjs's files."""

    zkey: Path
    witness: Path
    vkey: Path
    public: Path
    proof: Path


def find_snarkjs() -> str | None:
    """The snarkjs to compare with, or None."""
    checkout = Path(__file__).resolve().parents[4]
    local = checkout / "build" / "node" / "node_modules" / ".bin" / "snarkjs"
    return str(local) if local.exists() else shutil.which("snarkjs")


def whole_provers(curve: str, files: Files) -> tuple[Runs, dict[str, str]]:
    """A proof by a process of its own, and why there are not more of them."""
    runs: Runs = {}
    absent: dict[str, str] = {}
    arguments = [str(path) for path in (files.zkey, files.witness, files.proof, files.public)]
    snarkjs, rapidsnark = find_snarkjs(), shutil.which("rapidsnark")
    if snarkjs is None:
        absent["snarkjs"] = NO_SNARKJS
    else:
        runs["snarkjs"] = process([snarkjs, "groth16", "prove", *arguments])
    if curve != "bn254":
        absent["rapidsnark"] = f"it has no {curve}, BN254 only"
    elif rapidsnark is None:
        absent["rapidsnark"] = _NO_RAPIDSNARK
    else:
        runs["rapidsnark"] = process([rapidsnark, *arguments])
    return runs, absent


def whole_verifiers(files: Files) -> tuple[Runs, dict[str, str]]:
    """A verification by a process of its own, and why there are not more of them."""
    snarkjs = find_snarkjs()
    if snarkjs is None:
        return {}, {"snarkjs": NO_SNARKJS}
    given = [str(path) for path in (files.vkey, files.public, files.proof)]
    return {"snarkjs": process([snarkjs, "groth16", "verify", *given])}, {}


class Libraries:
    """Provers with the key in memory, in processes that begin when they are first asked."""

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
    """A process of node that begins when it is first asked, and answers lines with lines."""

    def __init__(self, command: Sequence[str]) -> None:
        self._command = list(command)
        self._process: subprocess.Popen[str] | None = None

    def ask(self, what: str) -> None:
        """Has it do something; QuodError with what it says if it fails."""
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

    def _expect(self, wanted: str, process: subprocess.Popen[str]) -> None:
        said = opened_pipe(process.stdout).readline().strip()
        if said == wanted:
            return
        if not said:  # it has ended
            said = last_line(process.communicate()[1])
        self.close()
        raise QuodError(f"snarkjs as a library failed: {said}")

    def close(self) -> None:
        """Ends the process."""
        if self._process is not None:
            self._process.kill()
            self._process.communicate()
            self._process = None


class Snarkjs(NodeProcess):
    """snarkjs as a library in one process of node, which has proved once when it is ready."""

    def __init__(self, node: str, program: str, files: Files) -> None:
        given = (files.zkey, files.witness, files.vkey, files.public, files.proof)
        paths = [str(path.resolve()) for path in given]
        super().__init__([node, str(_DRIVER), _package(program), *paths])

    def prove(self) -> None:
        """A proof; QuodError with what snarkjs says if there is none."""
        self.ask("prove")

    def verify(self) -> None:
        """Verifies the proof of the files; QuodError if it is refused."""
        self.ask("verify")


class SnarkjsCalls(NodeProcess):
    """Functions of snarkjs's library that work on files, in one process of node."""

    def __init__(self, node: str, program: str) -> None:
        super().__init__([node, str(_CALLS), _package(program)])

    @classmethod
    def found(cls) -> Self | None:
        """That of this machine, if there is one."""
        program, node = find_snarkjs(), shutil.which("node")
        return None if program is None or node is None else cls(node, program)

    def call(self, name: str, *given: object) -> None:
        """A function by its name, such as ``zKey.newZKey``; paths are given as strings."""
        self.ask(json.dumps([name, *map(str, given)]))


def _package(program: str) -> str:
    """The folder of snarkjs: the program is build/cli.cjs of it, reached through a link."""
    return str(Path(os.path.realpath(program)).parents[1])


def opened_pipe(stream: IO[str] | None) -> IO[str]:
    """A stream of a process that was begun with pipes."""
    assert stream is not None
    return stream


def process(command: Sequence[str]) -> Callable[[], None]:
    """Runs a command to its end; QuodError with the last it said if it fails."""

    def run() -> None:
        done = subprocess.run(command, capture_output=True, text=True)
        if done.returncode != 0:
            said = last_line(done.stderr or done.stdout)
            raise QuodError(f"{Path(command[0]).name} failed ({done.returncode}): {said}")

    return run


def last_line(text: str) -> str:
    """The last line of what a program has said."""
    return (text.strip().splitlines() or ["no message"])[-1]
