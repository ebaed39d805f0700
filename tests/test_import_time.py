"""Starting is cheap: `import quod` loads nothing heavy, and a command loads only what it uses."""

from __future__ import annotations

import json
import resource
import subprocess
import sys
from pathlib import Path

import pytest

import quod
from tests.sapling.test_output import NOTE

EXAMPLE = Path(__file__).parents[1] / "examples" / "membership"

# Which modules a proof and its verification may load on a processor whose kernels are in the cache.
# Each costs every proof about a millisecond: a name is added here when the work needs it, and what
# only some runs need is imported where it is used.
VERIFY = {
    "cli": "entry groth16 guard outputs parameters quick spellings streams terminal",
    "curve": "affine array coordinates entries group groups infinity lane_table membership named "
    "operations "
    "pairing pairing_exponent pairing_lanes pairing_loop parameters point point_kernels "
    "shared_inversion",
    "curve.named": "bn254",
    "device": "address_space arguments backends buffer cache cancellation compilations "
    "compiled_code discovery host kernel_table launched memory own_folder prologue protocol "
    "roomy_thread sources timeline written",
    "device.cpu": "backend compiler device llvm native_code processor workers",
    "errors": "",
    "frozen": "",
    "field": "arithmetic array cost element extension kernels moduli prime spec strategies "
    "strategy tower tower_lanes",
    "field.strategies": "carry_chains reduction",
    "formats": "curves iden3 output snarkjs_json source strict_json target_path zkey zkey_header "
    "zkey_infinity",
    "groth16": "points proof soundness tags verifier",
    "kernel": "builder builder_memory builder_tiles builder_values collector compiled control "
    "definition errors ir machine matrix_ops op_definition op_table ops registry semantics "
    "simplify structure tile_ops tracer types value",
    "lazy": "",
    "names": "",
    "validation": "",
    "msm": "bases execute options plan precompute",
    "msm.buckets": "affine_rounds point_sums segments",
    "msm.reduce": "rows_and_columns",
    "msm.sort": "counting scalars",
    "codegen": "pointers",
}
PROVE = {
    "cli": "progress",
    "device": "background outcome pipeline together",
    # How elements are held decides how long tables are.
    "field": "roots",
    "field.strategies": "ifma52 inversion limbs64 saturated spare_limbs",
    "formats": "wtns",
    "groth16": "host keys prover resident sparse warm_up",
    "proving": "busy context",
    "ntt": "ordering passes plan quotient reorder rows schedule steps tables twiddles",
}
HEAVY = ("numpy", "llvmlite", "rich", "typer", "asyncio", "pydantic")


def loaded_by(statement: str) -> set[str]:
    """The modules that are loaded in a new process after `statement`."""
    script = f"{statement}\nimport sys\nprint(*sys.modules)"
    done = subprocess.run(
        [sys.executable, "-c", script], check=True, capture_output=True, text=True
    )
    return set(done.stdout.splitlines()[-1].split())


def seconds_of(*arguments: str) -> float:
    """Of the processor, in the best of five runs of the interpreter with these arguments."""
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


def test_the_command_line_loads_no_numbers_and_no_compiler() -> None:
    loaded = loaded_by("import quod.cli.app")
    assert "typer" in loaded
    assert loaded.isdisjoint({"numpy", "llvmlite", "rich.progress", "rich.table"})


def names_of(modules: dict[str, str]) -> set[str]:
    """The full names of modules listed by package."""
    parts = {f"quod.{package}.{name}" for package in modules for name in modules[package].split()}
    return {"quod", *(f"quod.{package}" for package in modules), *parts}


def test_prove_and_verify_load_what_they_use(tmp_path: Path) -> None:
    proof, public = str(tmp_path / "proof.json"), str(tmp_path / "public.json")
    zkey, witness = str(EXAMPLE / "circuit.zkey"), str(EXAMPLE / "witness.wtns")
    vkey = str(EXAMPLE / "verification_key.json")
    prove = ["groth16", "prove", zkey, witness, proof, public, "--quiet"]
    verify = ["groth16", "verify", vkey, public, proof, "--quiet"]
    allowed = names_of(VERIFY)
    for command in (prove, verify):
        run = f"from quod.cli import entry\nassert entry.run({command}) == 0"
        # The first run may compile kernels.
        loaded_by(run)
        loaded = loaded_by(run)
        own = {name for name in loaded if name.split(".")[0] == "quod"}
        permitted = allowed | names_of(PROVE) if command is prove else allowed
        assert own - permitted == set()
        others = {"typer", "click", "rich", "asyncio", "difflib", "fractions", "dataclasses"}
        others |= {"llvmlite.binding", "secrets", "random", "logging", "concurrent", "pkgutil"}
        assert loaded.isdisjoint(others)


def test_import_quod_takes_less_than_a_tenth_of_a_second() -> None:
    bare = seconds_of("-c", "pass")
    # On a slow machine the interpreter itself takes long.
    assert seconds_of("-c", "import quod") - bare < max(0.1, 5 * bare)


def test_version_takes_less_than_a_fifth_of_a_second() -> None:
    assert seconds_of("-m", "quod", "--version") < max(0.2, 10 * seconds_of("-c", "pass"))


def test_unknown_names_are_attribute_errors() -> None:
    with pytest.raises(AttributeError, match="no attribute 'no_such_name'"):
        _ = quod.no_such_name  # type: ignore[attr-defined]
    assert not hasattr(quod, "_no_such_name")


def test_dir_lists_the_public_names() -> None:
    assert set(quod.__all__) <= set(dir(quod))


@pytest.mark.fixtures
def test_an_output_of_sapling_loads_neither_its_circuit_nor_typer(
    tmp_path: Path, shared_fixtures: Path
) -> None:
    note = tmp_path / "note.json"
    note.write_text(json.dumps(NOTE))
    parameters = str(shared_fixtures / "zcash" / "sapling-output.params")
    command = ["sapling", "prove-output", parameters, str(note), str(tmp_path / "o.json"), "-q"]
    run = f"from quod.cli import entry\nassert entry.run({command}) == 0"
    # The first run traces the circuit.
    loaded_by(run)
    loaded = loaded_by(run)
    assert loaded.isdisjoint({"typer", "rich", "llvmlite.binding", "asyncio", "quod.cli.app"})
    traced = {name for name in loaded if name.startswith(("quod.r1cs.gadgets", "quod.sapling.c"))}
    assert traced == set()
