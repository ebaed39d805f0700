"""Compiled circuit programs in the cache for other processes, and when they are not used."""

from __future__ import annotations

import zlib
from collections.abc import Callable, Sequence
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

from quod import r1cs
from quod.device.cache import sources
from quod.device.cache.cache import CompileCache
from quod.errors import InputError
from quod.field.array import words_to_integers
from quod.r1cs import cached_circuits as kept
from quod.r1cs import witnesses
from quod.r1cs.cached_circuits import builtin_circuit
from quod.r1cs.packed import pack, unpack
from quod.r1cs.traced import Block
from quod.r1cs.witness_program import cached as kept_program
from quod.r1cs.witness_program.instructions import Program
from quod.r1cs.witness_program.lowering import lowered
from quod.r1cs.witness_program.steps import Step
from tests.device.test_cache import files_of
from tests.support.thorough import one_and_others

STEPS = 30


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(witnesses, "_MIN_COMPILED_STEPS", 40)
    monkeypatch.setenv("QUOD_CACHE_DIR", str(tmp_path / "cache"))
    return tmp_path / "cache"


@pytest.fixture
def lowerings(monkeypatch: pytest.MonkeyPatch) -> list[r1cs.ConstraintSystem]:
    """The systems that were lowered."""
    done: list[r1cs.ConstraintSystem] = []

    def counted(block: Block, steps: Sequence[Step]) -> Program:
        done.append(block.system)
        return lowered(block, steps)

    monkeypatch.setattr(kept_program, "lowered", counted)
    return done


def chain(factor: int = 3, shift: int = 1) -> Callable[[r1cs.ConstraintSystem], None]:
    """Quotients, bits and a hint, enough steps to be kept."""

    def function(system: r1cs.ConstraintSystem) -> None:
        x = system.private("x")
        for at in range(STEPS):
            x = (x * x + at) / (x * factor + 5)
        (high,) = system.hint(lambda value: value >> shift, [x])
        system.output("low", system.hint_bit(x, 3) + system.is_zero(x) + high)

    return function


def test_cached_program_is_found_by_its_circuit(
    lowerings: list[r1cs.ConstraintSystem], folder: Path
) -> None:
    inputs = [{"x": value} for value in (7, 11, 0)]
    first = r1cs.trace(chain())
    expected = [first.values(values) for values in inputs]
    first.prepare()
    again = r1cs.trace(chain())
    # Its first witness is of the program, which there is already.
    witnesses = [again.witness(values) for values in inputs]
    assert [words_to_integers(again.field, witness.values) for witness in witnesses] == expected
    assert again.program.is_prepared
    assert lowerings == [first.system]
    # A hint is the circuit's own, whatever the entry's was.
    other = r1cs.trace(chain(shift=2))
    assert other.witness(inputs[0], check=False).values.tolist() != witnesses[0].values.tolist()
    assert words_to_integers(other.field, other.witness(inputs[0], check=False).values) == (
        other.values(inputs[0])
    )
    assert len(lowerings) == 1
    changed = r1cs.trace(chain(factor=4))
    changed.prepare()
    assert words_to_integers(changed.field, changed.witness(inputs[1]).values) == (
        changed.values(inputs[1])
    )
    assert len(lowerings) == 2
    r1cs.trace(chain(), "bls12_381").prepare()
    assert len(lowerings) == 3
    assert len(files_of(folder)) >= 3


def block_of(circuit: r1cs.Circuit) -> tuple[Block, Sequence[Step]]:
    """The circuit as a block, and its steps."""
    return Block(circuit.system, 0, None), circuit.system.steps


def programs_in(folder: Path, key: str) -> Path:
    (path,) = [path for path in files_of(folder) if path.name == key]
    return path


@pytest.mark.parametrize(
    "damage",
    one_and_others(["a byte", "cut", "another's", "nothing of ours"]),
)
def test_damaged_program_is_rebuilt(
    lowerings: list[r1cs.ConstraintSystem], folder: Path, damage: str
) -> None:
    first = r1cs.trace(chain())
    first.prepare()
    key = kept_program._key(*block_of(first))
    path, cache = programs_in(folder, key), CompileCache(folder)
    content = path.read_bytes()
    if damage == "a byte":
        path.write_bytes(content[:-9] + bytes([content[-9] ^ 1]) + content[-8:])
    elif damage == "cut":
        path.write_bytes(content[:-4])
    elif damage == "another's":
        other = r1cs.trace(chain(factor=4))
        other.prepare()
        path.write_bytes(programs_in(folder, kept_program._key(*block_of(other))).read_bytes())
    else:
        # Sealed as it should be.
        cache.put(key, pack({"registers": 5}, []))
    lowerings.clear()
    circuit = r1cs.trace(chain())
    assert kept_program.cached_program(*block_of(circuit)) is None
    assert not path.exists()
    circuit.prepare()
    assert lowerings == [circuit.system]
    assert circuit.check(circuit.witness({"x": 9})) == []
    assert path.read_bytes() == content


def test_unpacking_rejects_invalid_data() -> None:
    data = pack({"a": 1}, [])
    assert unpack(data) == ({"a": 1}, [])
    with pytest.raises(ValueError, match="1 bytes follow"):
        unpack(data + b"x")


MODULE, NAME = "quod.zcash.circuit.output", "sapling_output"


def test_quods_own_circuits_are_traced_once(monkeypatch: pytest.MonkeyPatch) -> None:
    traced = builtin_circuit(MODULE, NAME, "bls12_381")
    calls: list[object] = []

    def counted(function: Callable[[r1cs.ConstraintSystem], object], curve: str) -> r1cs.Circuit:
        calls.append(function)
        return r1cs.trace(function, curve)

    monkeypatch.setattr(kept, "trace", counted)
    loaded = builtin_circuit(MODULE, NAME, "bls12_381")
    assert (loaded.counts, repr(loaded), loaded.path) == (traced.counts, repr(traced), traced.path)
    assert loaded.circuit_hash() == traced.circuit_hash()
    assert [vars_of(signal) for signal in loaded.inputs.values()] == [
        vars_of(signal) for signal in traced.inputs.values()
    ]
    inputs = {"value": 5, "rcv": 6, "g_d": (3, 4), "esk": 7, "pk_d_v": 8, "pk_d_u": 1, "rcm": 9}
    loaded_witness, other = (circuit.witness(inputs, check=False) for circuit in (loaded, traced))
    assert loaded_witness.values.tobytes() == other.values.tobytes()
    assert not calls
    # No point of the curve: names and lines are traced for the message.
    with pytest.raises(r1cs.UnsatisfiedError) as failed:
        loaded.witness(inputs)
    with pytest.raises(r1cs.UnsatisfiedError) as expected:
        traced.witness(inputs)
    assert failed.value.failures == expected.value.failures
    assert len(calls) == 1
    # Other sources, another circuit.
    monkeypatch.setattr(
        kept,
        "sources",
        SimpleNamespace(digest=lambda: sources.digest() + "x", are_unchanged=lambda: True),
    )
    builtin_circuit(MODULE, NAME, "bls12_381")
    assert len(calls) == 2


def vars_of(signal: object) -> list[object]:
    return [getattr(signal, name) for name in ("name", "wires", "bits", "single", "public")]


def test_external_circuits_are_not_treated_as_builtin() -> None:
    with pytest.raises(InputError, match="not a module of Quod"):
        builtin_circuit("quodish.circuits", NAME, "bls12_381")


@pytest.mark.parametrize("kind", [np.uint32, np.int64])
@pytest.mark.parametrize("shape", [(0,), (5,), (0, 4), (7, 1), (1, 3), (50, 4)])
def test_arrays_are_unpacked_unchanged(kind: type, shape: tuple[int, ...]) -> None:
    """Also values that fall, and the largest and smallest ones of a type."""
    limits = np.iinfo(kind)
    generator = np.random.default_rng(4)
    arrays = [generator.integers(limits.min, limits.max, shape, kind, True) for _ in range(2)]
    expected = [array.copy() for array in arrays]
    facts, unpacked = unpack(pack({"a": [1, None]}, arrays))
    assert facts == {"a": [1, None]}
    for array, packed_array, copy in zip(unpacked, arrays, expected, strict=True):
        assert (array.dtype, array.shape) == (copy.dtype, shape)
        assert np.array_equal(array, copy)
        assert np.array_equal(packed_array, copy)


def test_repeated_gadgets_take_little_space() -> None:
    pattern = np.random.default_rng(5).integers(0, 1000, 100)
    wires = (pattern + 1000 * np.arange(400)[:, None]).astype(np.uint32).reshape(-1, 2)
    assert len(pack(None, [wires])) < wires.nbytes / 20


def test_damaged_arrays_are_refused() -> None:
    data = pack(None, [np.arange(9)])
    with pytest.raises(zlib.error):
        unpack(data[:-3] + b"abc")
    with pytest.raises(ValueError, match="1 bytes follow"):
        unpack(data + b"1")
