"""The kernels: equal to the NumPy reference in every bit, on every device, whole and cached."""

from __future__ import annotations

import numpy as np
import pytest

from quod.device import open_device
from quod.device.emulated.device import EmulatedDevice
from quod.device.protocol import AnyDevice
from quod.errors import DeviceError, InputError
from quod.inference.transformer.device.memory import Sizes, memory_bytes
from quod.inference.transformer.device.model import DeviceModel
from quod.inference.transformer.device.workgroups import capacity_of, workgroups_of
from quod.inference.transformer.program import Program
from quod.inference.transformer.reference import Reference, Trace
from tests.conftest import open_for_test
from tests.inference.transformer.models import VOCABULARY
from tests.support.devices import present
from tests.support.skipping_device import SkippingDevice
from tests.support.webgpu_quick import is_software

TOKENS = np.random.default_rng(6).integers(0, VOCABULARY, 21)


@pytest.mark.parametrize("name", ["llama", "untied", "gpt2", "qwen2", "narrow"])
def test_devices_equal_the_reference(
    device: AnyDevice, programs: dict[str, Program], name: str
) -> None:
    if device.kind == "webgpu" and is_software():
        pytest.skip("compiling takes a minute; test_gpus_equal_the_reference has fewer kernels")
    program, trace = programs[name], Trace({}, {})
    expected = Reference(program).logits(TOKENS, trace=trace)
    model = DeviceModel(device, program, context=100, chunk=8)
    assert np.array_equal(model.extend(TOKENS, rows=21), expected)
    residual = trace.values["1.feed_forward"][-5:]
    assert np.array_equal(model.residual(5), residual)
    # Token by token, after chunks of an odd and an even number, from a position within the cache.
    model.rewind(3)
    parts = [model.extend(part, rows=len(part)) for part in np.split(TOKENS[3:], [4, 5, 6])]
    assert np.array_equal(np.concatenate(parts), expected[3:])
    model.rewind(0)
    assert np.array_equal(model.extend(TOKENS)[0], expected[-1])


@pytest.mark.parametrize("name", present("emulated", "cuda", "webgpu:portable"))
def test_gpus_equal_the_reference(programs: dict[str, Program], name: str) -> None:
    program = programs["uniform"]
    expected = Reference(program).logits(TOKENS[:6])
    with open_for_test(name) as gpu:
        model = DeviceModel(gpu, program, context=40, chunk=5)
        assert np.array_equal(model.extend(TOKENS[:6], rows=6), expected)


def test_texts_for_gpus_equal_the_reference(programs: dict[str, Program]) -> None:
    """The texts of PTX, run by an interpreter."""
    program = programs["uniform"]
    with EmulatedDevice(executor="ptx") as gpu:
        model = DeviceModel(gpu, program, context=8)
        assert np.array_equal(
            model.extend(TOKENS[:3], rows=3), Reference(program).logits(TOKENS[:3])
        )


def test_a_batch_equals_its_sequences(device: AnyDevice, programs: dict[str, Program]) -> None:
    if device.kind == "webgpu" and is_software():
        pytest.skip("the same kernels as in test_gpus_equal_the_reference")
    program, reference = programs["llama"], Reference(programs["llama"])
    rng = np.random.default_rng(10)
    texts = [rng.integers(0, VOCABULARY, 4 + length) for length in range(8)]
    model = DeviceModel(device, program, context=16, sequences=8, chunk=3)
    for sequence, text in enumerate(texts):
        model.extend(text[:-4], sequence=sequence, rows=0)
    # All eight, then some in another order, then the rest.
    orders = [range(8), [6, 1, 3], [0, 7, 2, 5, 4], [4, 5, 2, 7, 0], [6, 3, 1]]
    taken = [len(text) - 4 for text in texts]
    for order in orders:
        logits = model.extend_batch({s: int(texts[s][taken[s]]) for s in order})
        for row, sequence in zip(logits, order, strict=True):
            taken[sequence] += 1
            expected = reference.logits(texts[sequence][: taken[sequence]])[-1]
            assert np.array_equal(row, expected)
            assert model.positions(sequence) == taken[sequence]
    with pytest.raises(InputError, match="is not in the vocabulary"):
        model.extend_batch({0: 1, 1: VOCABULARY})
    assert model.positions(0) == taken[0]
    with pytest.raises(InputError, match="a cache of 100000000 sequences of 16 positions is too"):
        DeviceModel(device, program, context=16, sequences=10**8)


def test_kernels_stay_within_their_memory(programs: dict[str, Program]) -> None:
    program = programs["uniform"]
    with open_device("cpu:checked") as device:
        model = DeviceModel(device, program, context=6, chunk=4)
        assert np.array_equal(
            model.extend(TOKENS[:6], rows=6), Reference(program).logits(TOKENS[:6])
        )


def test_a_long_context(programs: dict[str, Program]) -> None:
    program = programs["llama"]
    tokens = np.random.default_rng(7).integers(0, VOCABULARY, 256)
    model = DeviceModel("cpu", program)
    assert np.array_equal(model.extend(tokens, rows=3), Reference(program).logits(tokens)[-3:])
    with pytest.raises(InputError, match="257 tokens exceed the context of 256"):
        model.extend([0])


@pytest.mark.parametrize("name", present("cpu", "cuda"))
def test_a_text_of_several_chunks(programs: dict[str, Program], name: str) -> None:
    """Positions of several blocks for each instance of the attention, also for a single token."""
    program = programs["narrow"]
    tokens = np.random.default_rng(8).integers(0, VOCABULARY, 1301)
    expected = Reference(program).logits(tokens)[-2:]
    with open_for_test(name) as device:
        model = DeviceModel(device, program)
        assert np.array_equal(model.extend(tokens[:-1])[0], expected[0])
        assert np.array_equal(model.extend(tokens[-1:])[0], expected[1])


@pytest.mark.parametrize("name", present("cpu", "emulated", "cuda", "webgpu:portable"))
def test_workgroups_stay_within_a_cache(name: str) -> None:
    """The attention reads whole vectors of positions, and of pairs, up to the cache's last one."""
    with open_for_test(name) as device:
        for head_width in range(2, 600, 2):
            for tokens in (1, 2):
                head = workgroups_of(device, head_width, tokens, one_text=True).head
                assert head <= 512
                assert head % head_width == 0 or head_width % head == 0
                for context in (1, 1000, 1023, 1024, 1025, 8192):
                    capacity = capacity_of(device, head_width, context)
                    assert context <= capacity < context + 1024
                    assert capacity % (2 * head) == 0


def test_memory_is_planned_before_work(programs: dict[str, Program]) -> None:
    from quod.device.cpu.device import CpuDevice

    with (
        CpuDevice(memory_budget=100_000) as device,
        pytest.raises(DeviceError, match=r"the model .*llama.gguf would take .* of"),
    ):
        DeviceModel(device, programs["llama"])


def test_chunks_are_smaller_where_memory_is_short(programs: dict[str, Program]) -> None:
    program, expected = programs["uniform"], Reference(programs["uniform"]).logits(TOKENS[:3])
    for chunk in (64, 128):
        budget = memory_bytes(program, Sizes(256, 1024, 1, chunk))
        with EmulatedDevice(memory_budget=budget) as device:
            model = DeviceModel(device, program)
            assert model.chunk == chunk
            assert np.array_equal(model.extend(TOKENS[:3], rows=3), expected)
    too_little = memory_bytes(program, Sizes(256, 1024, 1, 64)) - 1
    with (
        EmulatedDevice(memory_budget=too_little) as device,
        pytest.raises(DeviceError, match="of memory"),
    ):
        DeviceModel(device, program)


def test_recordings_of_many_lengths(programs: dict[str, Program]) -> None:
    """Prompts end with chunks of any length; a server keeps few recordings."""
    program = programs["uniform"]
    reference, model = Reference(program), DeviceModel("cpu", program)
    for length in [*range(1, 20), 1]:
        tokens = TOKENS[:length]
        model.rewind(0)
        assert np.array_equal(model.extend(tokens)[0], reference.logits(tokens)[-1])
    assert len(model._recordings) == 16


def test_logits_that_were_not_written_are_found(
    programs: dict[str, Program], monkeypatch: pytest.MonkeyPatch
) -> None:
    with SkippingDevice() as device:
        model = DeviceModel(device, programs["llama"], context=16)
        model.extend(TOKENS[:3])
        monkeypatch.setattr(SkippingDevice, "leaves", staticmethod(lambda name: name == "product"))
        with pytest.raises(DeviceError, match="reported success without computing the logits"):
            model.extend(TOKENS[3:6])
