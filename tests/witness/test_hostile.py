"""Invalid, lying and endless calculators raise typed errors, and the process survives."""

from __future__ import annotations

import os
import resource
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from quod.errors import InputError, QuodError
from quod.field import NAMED
from quod.formats import Witness
from quod.witness import WitnessCalculator, WitnessLimits, sandbox
from quod.witness.engine import engine, ticks
from quod.witness.errors import CalculatorError, CircuitError, WitnessLimitError
from quod.witness.glue import builtin_modules
from quod.witness.module_cache import user_cache
from tests.witness.circuits import LOOP, R, circuit, failing

# What is not about time has it, however busy the machine is.
SMALL = WitnessLimits(seconds=600, memory_bytes=1 << 20)
SHORT = WitnessLimits(seconds=0.2, memory_bytes=1 << 20)


@pytest.fixture(autouse=True, scope="module")
def own_cache(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    folder = tmp_path_factory.mktemp("cache")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("QUOD_CACHE_DIR", str(folder))
        yield folder


def test_valid_calculator_works(tmp_path: Path) -> None:
    wtns = WitnessCalculator(circuit(wires=5), limits=SMALL).calculate({"a": 7})
    (tmp_path / "w.wtns").write_bytes(wtns)
    assert Witness.open(tmp_path / "w.wtns").values[:, 0].tolist() == [1, 7, 7, 7, 7]


@pytest.mark.parametrize("code", range(1, 7))
def test_numeric_errors_are_reported(code: int) -> None:
    calculator = WitnessCalculator(circuit(set=failing(code)), limits=SMALL)
    with pytest.raises(QuodError) as caught:
        calculator.calculate({"a": 7})
    error = caught.value
    if code == 5:
        assert isinstance(error, WitnessLimitError)
    else:
        assert isinstance(error, CircuitError)
        assert (error.code, error.lines) == (code, (("Test_1", 7),))


@pytest.mark.parametrize(
    "message",
    ["the secret is 778899", "Error in template 778899 line: 7", "Error in template T line: x",
     "778899" * 20_000, ""],
)  # fmt: skip
def test_calculator_messages_are_not_forwarded(message: str) -> None:
    code = circuit(set="(loop $l (call $say) (br_if $l (i32.const 0)))" + failing(4),
                   message=message, pages="3")  # fmt: skip
    with pytest.raises(CircuitError) as caught:
        WitnessCalculator(code, limits=SMALL).calculate({"a": 7})
    assert caught.value.lines == ()
    assert "778899" not in str(caught.value)


@pytest.mark.parametrize(
    ("changes", "kind", "message"),
    [
        ({"set": LOOP}, WitnessLimitError, "takes more than 0.2 s"),
        ({"witness": LOOP}, WitnessLimitError, "takes more than 0.2 s"),
        ({"set": "(call $endless)", "definitions": "(func $endless (call $endless))"},
         WitnessLimitError, "more than its stack"),
        # Messages without an end are taken for as long as there is time.
        ({"set": "(call $say)", "message": "", "definitions": "", "pages": "1",
          "imports": '(import "runtime" "writeBufferMessage" (func $log))',
          "witness": "(loop $ever (call $log) (br $ever))"},
         WitnessLimitError, "takes more than 0.2 s"),
        ({"set": "unreachable"}, CalculatorError, "crashed (unreachable)"),
        ({"set": failing(99)}, CalculatorError, "crashed"),
        ({"set": failing(0)}, CalculatorError, "crashed"),
        ({"set": "(drop (i32.div_u (i32.const 1) (i32.const 0)))"},
         CalculatorError, "integer division by zero"),
        ({"set": "(drop (i32.load (i32.const -1)))"}, CalculatorError, "memory out of bounds"),
        # It asks for more memory until it gets none, and then goes on without.
        ({"set": "(loop $more (br_if $more (i32.ne (i32.const -1) (memory.grow (i32.const 1)))))"
                 + failing(5)}, WitnessLimitError, "1,048,576 bytes of memory"),
    ],
)  # fmt: skip
def test_runaway_calculators_are_stopped(
    changes: dict[str, str], kind: type[QuodError], message: str
) -> None:
    limits = SHORT if "0.2 s" in message else SMALL
    with pytest.raises(kind) as caught:
        WitnessCalculator(circuit(**changes), limits=limits, name="wild.wasm").calculate(
            {"a": 778899}
        )
    assert type(caught.value) is kind
    assert str(caught.value).startswith("wild.wasm: ")
    assert message in str(caught.value)
    assert "778899" not in str(caught.value)


# What Ray leaves behind when it shuts down in a process.
_WITHOUT_HANDLERS = """
import signal, sys
from quod.errors import QuodError
from quod.witness import WitnessCalculator
from quod.witness.engine import engine
from tests.witness.circuits import circuit

engine()
for number in (signal.SIGILL, signal.SIGTRAP, signal.SIGBUS, signal.SIGFPE, signal.SIGSEGV):
    signal.signal(number, signal.SIG_DFL)
for body in sys.argv[1:]:
    try:
        WitnessCalculator(circuit(set=body)).calculate({"a": 7})
    except QuodError as error:
        print(type(error).__name__, flush=True)
"""


def test_traps_need_no_handlers_of_signals() -> None:
    kinds = {
        failing(4): "CircuitError",
        "unreachable": "CalculatorError",
        "(call $endless)) (func $endless (call $endless)": "WitnessLimitError",
        "(drop (i32.div_u (i32.const 1) (i32.const 0)))": "CalculatorError",
        "(drop (i32.div_s (i32.const -2147483648) (i32.const -1)))": "CalculatorError",
        "(drop (i32.trunc_f32_s (f32.const nan)))": "CalculatorError",
        "(drop (i32.load (i32.const -1)))": "CalculatorError",
        "(i32.store (i32.const 65533) (i32.const 1))": "CalculatorError",
    }
    done = subprocess.run(
        [sys.executable, "-c", _WITHOUT_HANDLERS, *kinds],
        cwd=Path(__file__).parents[2], capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert (done.returncode, done.stdout.split()) == (0, [*kinds.values()]), done.stderr


@pytest.mark.parametrize(
    ("changes", "kind", "message"),
    [
        ({"definitions": f"(func $s {LOOP}) (start $s)"}, WitnessLimitError, "more than 0.2 s"),
        ({"definitions": "(func $s unreachable) (start $s)"}, CalculatorError, "crashed"),
        ({"pages": "17"}, WitnessLimitError, "bytes of memory"),
        ({"definitions": "(table 100000 funcref)"}, CalculatorError, "cannot be instantiated"),
        ({"imports": '(import "wasi_snapshot_preview1" "fd_write" (func))'},
         CalculatorError, 'imports "wasi_snapshot_preview1.fd_write"'),
        ({"imports": '(import "runtime" "code" (global i32))'}, CalculatorError, "runtime.code"),
        ({"imports": '(import "runtime" "showSharedRWMemory" (func (param i64)))'},
         CalculatorError, "cannot be instantiated"),
        ({"prime": 2**255 - 19}, CalculatorError, "a field that Quod does not support"),
        ({"prime": NAMED["goldilocks"].value, "words": 3}, CalculatorError, "in 3 words"),
        ({"words": 7}, CalculatorError, "in 7 words"),
        ({"words": 9}, CalculatorError, "in 9 words"),
        ({"words": 0}, CalculatorError, "a field element has 0 words"),
        ({"words": -5}, CalculatorError, "words"),
        ({"prefix": "x"}, CalculatorError, "before 2.0.3 (it does not export getInputSignalSize)"),
        ({"memory": '(import "env" "memory" (memory 1))'},
         CalculatorError, "before 2.0.3 (it imports its memory)"),
    ],
)  # fmt: skip
def test_invalid_calculators_are_rejected_at_load(
    changes: dict[str, object], kind: type[QuodError], message: str
) -> None:
    limits = SHORT if "0.2 s" in message else SMALL
    with pytest.raises(kind) as caught:
        WitnessCalculator(circuit(**changes), limits=limits, name="bad.wasm")  # type: ignore[arg-type]
    assert type(caught.value) is kind
    assert message in str(caught.value)
    assert str(caught.value).startswith("bad.wasm: ")


@pytest.mark.parametrize(
    ("changes", "a", "kind"),
    [
        # A witness that is as long as the address space, and longer than its limit.
        ({"wires": -1}, 7, WitnessLimitError),
        ({"wires": 40_000}, 7, WitnessLimitError),
        # Sizes that hold of no signal.
        ({"size": 1 << 30}, 7, InputError),
        ({"size": -1}, 7, InputError),
        ({"inputs": -1}, 7, InputError),
        ({"inputs": 2}, 7, InputError),
    ],
)
def test_false_sizes_are_rejected(changes: dict[str, int], a: int, kind: type[QuodError]) -> None:
    calculator = WitnessCalculator(circuit(**changes), limits=SMALL)  # type: ignore[arg-type]
    with pytest.raises(kind):
        calculator.calculate({"a": a})


def test_empty_witness_is_rejected(tmp_path: Path) -> None:
    wtns = WitnessCalculator(circuit(wires=1, prime=R), limits=SMALL).calculate({"a": 7})
    assert len(wtns) == 76 + 32
    with pytest.raises(CalculatorError, match="has no values"):
        WitnessCalculator(circuit(wires=0), limits=SMALL)


@pytest.mark.parametrize(
    ("code", "message"),
    [
        (b"", "unexpected end"), (b"\0asm\1\0\0\0" + b"\xff" * 9, "cannot be compiled as a Web"),
        (b"\x7fELF" * 10, "cannot be compiled as a Web"),
        (circuit()[:-5], "cannot be compiled as a Web"),
    ],
)  # fmt: skip
def test_invalid_modules_are_rejected(code: bytes, message: str) -> None:
    with pytest.raises(InputError) as caught:
        WitnessCalculator(code, name="none.wasm")
    assert message in str(caught.value)
    assert str(caught.value).isprintable()
    with pytest.raises(CalculatorError, match="does not export init"):
        WitnessCalculator(b"\0asm\1\0\0\0")


def test_builtin_modules_do_not_count_towards_the_time_limit(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def late(*arguments: Any) -> Any:
        for _ in range(ticks(SMALL.seconds) + 1):
            engine().increment_epoch()
        return builtin_modules(*arguments)

    monkeypatch.setattr(sandbox, "builtin_modules", late)
    assert WitnessCalculator(circuit(), limits=SMALL).calculate({"a": 7})


def test_endless_calculator_does_not_block_other_threads() -> None:
    endless = WitnessCalculator(circuit(set=LOOP), limits=SMALL)
    quick = WitnessCalculator(circuit(), limits=SMALL)
    with ThreadPoolExecutor(1) as pool:
        waiting = pool.submit(endless.calculate, {"a": 7})
        for number in range(50):
            assert len(quick.calculate({"a": number})) == 76 + 2 * 32
        # With Python's lock held, all of these would have come after it.
        assert not waiting.done()
        for _ in range(ticks(SMALL.seconds)):
            engine().increment_epoch()
        assert isinstance(waiting.exception(), WitnessLimitError)


def test_compiled_modules_are_cached_by_content(
    own_cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from quod.witness import module_cache

    code = circuit(wires=4)
    compiled = []
    run = module_cache._compile
    monkeypatch.setattr(
        module_cache, "_compile", lambda *arguments: compiled.append(arguments) or run(*arguments)
    )
    assert WitnessCalculator(code).calculate({"a": 1}) == WitnessCalculator(code).calculate(
        {"a": 1}
    )
    assert len(compiled) == 1
    WitnessCalculator(circuit(wires=6))
    assert len(compiled) == 2
    # Damaged or cut short, it is made again; what was written is for the user alone.
    files = [file for file in own_cache.rglob("*") if file.is_file()]
    for file in files:
        assert file.stat().st_mode & 0o077 == 0
        assert file.stat().st_uid == os.getuid()
        os.truncate(file, file.stat().st_size - 1)
    WitnessCalculator(code)
    assert len(compiled) == 3
    # Sealed, and yet nothing that this wasmtime takes: for another processor, say.
    kept = user_cache()
    monkeypatch.setattr(kept, "get", lambda key: b"\x7fELF none")
    module_cache.module_of(code, "n", WitnessLimits(), kept)
    assert len(compiled) == 4


def test_compile_time_is_limited() -> None:
    body = "(local.set 0 (i64.mul (local.get 0) (i64.const 3)))" * 60_000
    # Many times what it may take, for a fast processor.
    functions = f"(func (param i64) {body})" * 6
    limits, cpu_limit = WitnessLimits(compile_seconds=1), resource.getrlimit(resource.RLIMIT_CPU)
    with pytest.raises(WitnessLimitError, match="compiling takes more than 1 s"):
        WitnessCalculator(circuit(definitions=functions), limits=limits)
    assert resource.getrlimit(resource.RLIMIT_CPU) == cpu_limit
