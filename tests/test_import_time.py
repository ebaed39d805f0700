"""Starting is cheap: `import quod` loads nothing heavy, and a command loads only what it uses."""

from __future__ import annotations

import json
import resource
import socket
import subprocess
import sys
import threading
from pathlib import Path

import pytest

import quod
from quod.device.cpu.processor import host_processor
from quod.resident import frames
from quod.resident.listener import listen, locked
from quod.resident.runtime_folder import open_folder
from tests.zcash.test_output import NOTE

EXAMPLE = Path(__file__).parents[1] / "examples" / "membership"

# Packages that neither a proof nor its verification needs on a CPU whose kernels are in the cache.
UNUSED = (
    "quod.bench", "quod.ceremony", "quod.commitment", "quod.device.cuda", "quod.device.emulated",
    "quod.device.export", "quod.device.webgpu", "quod.filecoin", "quod.formats.gguf", "quod.gkr",
    "quod.inference",
    "quod.groth16.encodings", "quod.groth16.gpu", "quod.groth16.phase2", "quod.kernel.analysis",
    "quod.kernel.interpreter", "quod.kernel.verifier", "quod.layered", "quod.lookup",
    "quod.msm.gpu", "quod.ntt.gpu", "quod.r1cs", "quod.resident", "quod.service", "quod.sumcheck",
    "quod.tensor", "quod.transcript", "quod.web", "quod.witness", "quod.zcash",
    # What only a trace needs.
    "quod.field.strategies.vector_limbs", "quod.kernel.builder.builder",
    "quod.kernel.builder.control", "quod.kernel.builder.memory", "quod.kernel.builder.tracer",
    "quod.kernel.builder.values", "quod.kernel.ir.passes", "quod.kernel.ir.simplify",
    "quod.kernel.ops",
)  # fmt: skip
TRACED = (
    "quod.curve.pairing.final_exponentiation", "quod.curve.pairing.miller_loop",
    "quod.curve.pairing.subgroup_miller_loop", "quod.field.arithmetic", "quod.field.element",
    "quod.field.extension", "quod.field.prime", "quod.field.tower", "quod.field.tower_lanes",
)  # fmt: skip
"""Packages that a trace needs, and the definitions of the pairings of CPUs with IFMA."""
PROVER = ("quod.groth16.host", "quod.groth16.prover", "quod.ntt")
"""Packages that a verification does not need."""
LIBRARIES = {
    "asyncio", "click", "concurrent", "dataclasses", "difflib", "fractions", "llvmlite.binding",
    "logging", "numpy._core._add_newdocs", "numpy._typing", "numpy.linalg", "numpy.typing",
    "pickle", "pkgutil", "platform", "random", "rich", "secrets", "textwrap", "tokenize", "typer",
    "urllib.parse",
}  # fmt: skip
HEAVY = ("numpy", "llvmlite", "rich", "typer", "asyncio", "pydantic")


def loaded_by(statement: str) -> set[str]:
    """The modules that are loaded in a new process after `statement`."""
    script = f"{statement}\nimport sys\nprint(*sys.modules)"
    done = subprocess.run(
        [sys.executable, "-c", script], check=True, capture_output=True, text=True
    )
    return set(done.stdout.splitlines()[-1].split())


def seconds_of(*arguments: str) -> float:
    """Processor time of the best of five runs of the interpreter with these arguments."""
    times = []
    for _ in range(5):
        begin = resource.getrusage(resource.RUSAGE_CHILDREN)
        subprocess.run([sys.executable, *arguments], check=True, capture_output=True)
        end = resource.getrusage(resource.RUSAGE_CHILDREN)
        times.append(end.ru_utime + end.ru_stime - begin.ru_utime - begin.ru_stime)
    return min(times)


def test_import_quod_loads_nothing_heavy() -> None:
    loaded = loaded_by("import quod")
    assert "quod.errors" in loaded
    assert loaded.isdisjoint(HEAVY)


def test_version_is_answered_without_the_command_line() -> None:
    statement = "from quod.cli import entry; entry.run(['--version'])"
    assert loaded_by(statement).isdisjoint(HEAVY)


def test_command_line_imports_neither_numpy_nor_llvm() -> None:
    loaded = loaded_by("import quod.cli.app")
    assert "typer" in loaded
    assert loaded.isdisjoint({"numpy", "llvmlite", "rich.progress", "rich.table"})


def test_commands_are_declared_without_typer() -> None:
    loaded = loaded_by("import quod.cli.command_tree")
    assert "quod.bench.subjects" in loaded
    assert loaded.isdisjoint(HEAVY)


def within(packages: tuple[str, ...], modules: set[str]) -> set[str]:
    """The modules that are one of the packages or below one."""
    return {name for name in modules if (name + ".").startswith(tuple(f"{p}." for p in packages))}


def test_prove_and_verify_import_only_what_they_use(tmp_path: Path) -> None:
    proof, public = str(tmp_path / "proof.json"), str(tmp_path / "public.json")
    zkey, witness = str(EXAMPLE / "circuit.zkey"), str(EXAMPLE / "witness.wtns")
    vkey = str(EXAMPLE / "verification_key.json")
    prove = ["groth16", "prove", zkey, witness, proof, public, "--quiet"]
    verify = ["groth16", "verify", vkey, public, proof, "--quiet"]
    always_unused = UNUSED if host_processor().has_ifma else UNUSED + TRACED
    for command, unused in ((prove, always_unused), (verify, always_unused + PROVER)):
        run = f"from quod.cli import entry\nassert entry.run({command}, owns_process=True) == 0"
        # The first run may compile kernels.
        loaded_by(run)
        loaded = loaded_by(run)
        assert "quod.groth16.verifier" in loaded
        assert within(unused, loaded) == set()
        assert loaded.isdisjoint(LIBRARIES)
    # Processor time from the start of the process; on a slow machine, in units of Python's own.
    assert seconds_of("-m", "quod", *verify) < max(0.5, 20 * seconds_of("-c", "pass"))


def test_import_quod_takes_less_than_a_tenth_of_a_second() -> None:
    bare = seconds_of("-c", "pass")
    # On a slow machine the interpreter itself takes long.
    assert seconds_of("-c", "import quod") - bare < max(0.1, 5 * bare)


def test_version_takes_less_than_a_fifth_of_a_second() -> None:
    assert seconds_of("-m", "quod", "--version") < max(0.2, 10 * seconds_of("-c", "pass"))


def test_modules_that_libraries_did_not_load_are_loaded_on_first_use() -> None:
    loaded_by(
        "from quod.cli.lean_imports import import_libraries; import_libraries()\n"
        "import sys; assert 'numpy.linalg' not in sys.modules\n"
        "import numpy as np\n"
        "assert (np.matrix([[1, 2], [3, 4]]) ** 2).tolist() == [[7, 10], [15, 22]]\n"
        "assert np.linalg.inv(np.array([[2.0]])).tolist() == [[0.5]]\n"
        "assert np.poly1d([1, 2, 1]).roots.tolist() == [-1, -1]\n"
        "import numpy.linalg\n"
        "assert numpy.linalg.LinAlgError and 'inv' in numpy.linalg.__all__\n"
        "assert numpy.linalg.__file__ and np.linalg is numpy.linalg\n"
        "import inspect, linecache, pathlib, pickle, urllib.parse\n"
        "assert inspect.getsource(import_libraries)\n"
        "assert linecache.tokenize.cookie_re.pattern\n"
        "assert pathlib.Path('/a b').as_uri() == 'file:///a%20b'\n"
        "assert pickle.loads(pickle.dumps(np.arange(3))).sum() == 3\n"
        "assert not any('Placeholder' in type(m).__name__ for m in sys.modules.values())"
    )


def test_importing_quod_leaves_numpy_whole() -> None:
    loaded = loaded_by("import quod.groth16; quod.groth16.ProvingKey")
    assert {"numpy.linalg", "numpy._core._add_newdocs"} <= loaded


def test_unknown_names_are_attribute_errors() -> None:
    with pytest.raises(AttributeError, match="no attribute 'no_such_name'"):
        _ = quod.no_such_name  # type: ignore[attr-defined]
    assert not hasattr(quod, "_no_such_name")


def test_dir_lists_the_public_names() -> None:
    assert set(quod.__all__) <= set(dir(quod))


def test_a_command_that_finds_a_helper_loads_only_its_client(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "quod").mkdir(mode=0o700)
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path))
    folder = open_folder(create=False)
    with locked(folder):
        listening = listen(folder)
    accepting = socket.socket(fileno=listening.detach())
    accepting.settimeout(60)
    answer = frames.GREETING + frames.frame(frames.ENDED, b"\0")

    def serve() -> None:
        connection, _ = accepting.accept()
        with connection:
            connection.sendall(answer)
            connection.recv(1 << 20)

    thread = threading.Thread(target=serve)
    thread.start()
    words = ["groth16", "prove", "a.zkey", "b.wtns", "proof.json", "public.json", "--resident"]
    # `main` ends the process with the exit code of the helper.
    loaded = loaded_by(
        "import os, sys\nos._exit = lambda code: (print(code, *sys.modules), sys.exit())\n"
        f"from quod.cli import main; main({words})"
    )
    thread.join()
    accepting.close()
    assert "0" in loaded
    assert loaded.isdisjoint({*HEAVY, *LIBRARIES, "json", "re", "socket", "typing"})
    assert within(("quod",), loaded) == {
        "quod", "quod.cli", "quod.errors", "quod.lazy", "quod.private_folder", "quod.resident",
        "quod.resident.client", "quod.resident.frames", "quod.resident.runtime_folder",
        "quod.resident.surroundings",
    }  # fmt: skip


@pytest.mark.thorough
@pytest.mark.fixtures
def test_an_output_of_sapling_loads_neither_its_circuit_nor_typer(
    tmp_path: Path, shared_fixtures: Path
) -> None:
    note = tmp_path / "note.json"
    note.write_text(json.dumps(NOTE))
    parameters = str(shared_fixtures / "zcash" / "sapling-output.params")
    command = ["zcash", "prove-output", parameters, str(note), str(tmp_path / "o.json"), "-q"]
    run = f"from quod.cli import entry\nassert entry.run({command}) == 0"
    # The first run traces the circuit.
    loaded_by(run)
    loaded = loaded_by(run)
    assert loaded.isdisjoint({"typer", "rich", "llvmlite.binding", "asyncio", "quod.cli.app"})
    traced = {
        name for name in loaded if name.startswith(("quod.r1cs.gadgets", "quod.zcash.circuit"))
    }
    assert traced == set()
