"""Execution of compiled witness programs for batches of inputs."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from quod.device.discovery import resolve_device
from quod.device.memory.buffer import Buffer
from quod.device.protocol import AnyDevice, in_host_memory
from quod.device.runtime.sentinel import UNWRITTEN, check_written, not_written, unwritten
from quod.device.runtime.stream import RecordingStream
from quod.field.array import Words, integers_to_words, words_to_integers
from quod.field.moduli import Modulus
from quod.frozen import frozen
from quod.r1cs.inputs import InputNumbers, input_words, with_input_index
from quod.r1cs.kernels import (
    ReplayArrays,
    count_unwritten,
    hint_arguments,
    replay_program,
    store_outputs,
    store_values,
)
from quod.r1cs.lanes import Lanes
from quod.r1cs.repetition.schedule import Schedule, ShortcutRun, StageRun
from quod.r1cs.shortcuts import kernel_of
from quod.r1cs.tables import ScheduleTables
from quod.r1cs.witness_program.instructions import Call, Stretch
from quod.r1cs.witness_program.replay import hinted

# Bytes of registers, at most, that launches work on at a time.
_MAX_BYTES = 1 << 30
# The largest number of values of the witnesses that are computed together: kernels index them with
# 32 bits.
_MAX_VALUES = 1 << 31
# Workgroup size on a GPU; all instances of a workgroup take the same branches.
_GPU_WORKGROUP_SIZE = 32
# Outputs that an instance on a GPU stores.
_GPU_STORES = 16
# Instances, at most, that look for unwritten elements.
_MAX_CHECK_INSTANCES = 1 << 13


@frozen(eq=False)
class _Replay:
    """The replay of a stage for lanes `first` to `last` - 1, in workgroups of `width` instances."""

    run: StageRun
    first: int
    last: int
    width: int

    @property
    def groups(self) -> int:
        return -(-(self.last - self.first) // self.width)

    @property
    def registers(self) -> int:
        return self.run.stage.program.registers


@frozen(eq=False)
class _Batch:
    """Shortcuts, and replays with registers of at most `_MAX_BYTES`, that may run at once."""

    shortcuts: list[ShortcutRun]
    replays: list[_Replay]


class WitnessRunner:
    """The computation of witnesses by a schedule, on a device, by default the CPU."""

    def __init__(
        self, schedule: Schedule, input_wires: NDArray[np.int64], modulus: Modulus,
        device: AnyDevice | None = None,
    ) -> None:  # fmt: skip
        self.schedule, self.input_wires, self.modulus = schedule, input_wires, modulus
        self._device_choice = device
        self.tables = ScheduleTables(schedule, modulus)

    @property
    def device(self) -> AnyDevice:
        """The device; the CPU is resolved at each access, as a failed one is opened again."""
        return self._device_choice or resolve_device("cpu")

    @property
    def wires(self) -> int:
        """The number of wires of a witness."""
        return self.schedule.parts.wires

    def run(self, inputs: Sequence[InputNumbers]) -> tuple[Words, NDArray[np.bool_]]:
        """Compute all wires; return integers, (inputs, wires, words) u32, and a mask of inputs.

        The mask is true for inputs that divide by 0; their values are meaningless. Raises
        DeviceError if the device has not written every value: stale memory could pass for a
        witness.
        """
        out = unwritten(len(inputs), self.wires, self.modulus.words)
        divides = np.zeros(len(inputs), np.bool_)
        for start, stop in self._chunks(len(inputs)):
            memory = Buffer.wrap(out[start:stop])
            divides[start:stop] = _Computation(self, memory, inputs, start, stop).run()
        check_written(self.device, "witnesses", out)
        return out, divides

    def run_resident(
        self, inputs: Sequence[InputNumbers]
    ) -> tuple[list[Buffer], NDArray[np.bool_]]:
        """Compute witnesses in the device's memory, without copying values to the host.

        Returns the witnesses in one buffer, or in several if they exceed the device's largest
        buffer or a quarter of its memory, and the mask of inputs that divide by 0.
        """
        memories = list[Buffer]()
        divides = np.zeros(len(inputs), np.bool_)
        for start, stop in self._chunks(len(inputs)):
            memory = self.device.allocate((stop - start) * self.witness_bytes, zero=False)
            divides[start:stop] = _Computation(self, memory, inputs, start, stop).run()
            memories.append(memory)
        for memory in memories:
            self._check_written(memory)
        return memories, divides

    @property
    def witness_bytes(self) -> int:
        """The size of a witness in bytes."""
        return self.wires * self.modulus.bytes

    def _chunks(self, count: int) -> Iterator[tuple[int, int]]:
        """Yield start and stop of chunks of `count` witnesses that are computed together."""
        device, room = self.device, _MAX_VALUES // self.wires
        if not in_host_memory(device):
            memory = min(device.largest_buffer, device.memory_budget // 4)
            room = min(room, memory // self.witness_bytes)
        step = max(1, room)
        for start in range(0, count, step):
            yield start, min(start + step, count)

    def _check_written(self, out: Buffer) -> None:
        """Raise DeviceError if a value of witnesses in device memory was not written."""
        device, size = self.device, self.modulus.bytes
        compiled, count = (
            device.compile(count_unwritten, words=self.modulus.words),
            out.nbytes // size,
        )
        unwritten_counts = unwritten(min(count, _MAX_CHECK_INSTANCES), 1)
        groups = -(-len(unwritten_counts) // device.lanes)
        device.launch(compiled, groups, count, len(unwritten_counts), out, unwritten_counts)
        if unwritten_counts.any():
            raise not_written(device, "witnesses")

    # --- plans

    def batches(self, witnesses: int) -> list[_Batch]:
        """Return the batches in the order in which they are to run.

        A replay that calls hints has its own batch.
        """
        # On a CPU each launch uses all threads, so there is one at a time.
        max_bytes = 0 if in_host_memory(self.device) else self._max_bytes
        batches: list[_Batch] = []
        for wave in self.schedule.waves:
            used = max_bytes + 1
            if wave.shortcuts:
                batches.append(_Batch(wave.shortcuts, []))
                used = 0
            for run in wave.stages:
                calls = run.stage.program.has_calls
                for replay in self._replays(run, witnesses):
                    size = self.register_bytes(replay)
                    if used + size > max_bytes or calls:
                        batches.append(_Batch([], []))
                        used = 0
                    batches[-1].replays.append(replay)
                    used = max_bytes + 1 if calls else used + size
        return batches

    def state_bytes(self, replay: _Replay) -> int:
        """Return the bytes of the states of a stretch of a replay."""
        return _rounded(8 * replay.groups * replay.width, self.device.address_alignment)

    def register_bytes(self, replay: _Replay) -> int:
        """Return the bytes of a replay's registers."""
        size = replay.groups * replay.width * replay.registers * self.modulus.bytes
        return _rounded(size, self.device.address_alignment)

    @property
    def _max_bytes(self) -> int:
        return min(_MAX_BYTES, self.device.largest_buffer)

    def _replays(self, run: StageRun, witnesses: int) -> Iterator[_Replay]:
        """Yield replays of a stage, each with registers that fit in memory."""
        device, lanes = self.device, witnesses * len(run.copies)
        size = run.stage.program.registers * self.modulus.bytes
        if in_host_memory(device):
            # A single input runs without SIMD, as all other lanes would idle.
            width = 1 if lanes == 1 else device.lanes
            max_groups = device.multiprocessors
        else:
            width = _GPU_WORKGROUP_SIZE
            while width > 1 and width * size > device.largest_buffer:
                width //= 2
            max_groups = max(1, self._max_bytes // (width * size))
        for first in range(0, lanes, max_groups * width):
            yield _Replay(run, first, min(first + max_groups * width, lanes), width)

    # --- lanes

    def lanes_of(self, run: StageRun | ShortcutRun, first: int, last: int) -> Lanes:
        """Return lanes `first` to `last` - 1 of a run."""
        fixed = self.schedule.part_of(run).table.shape[1]
        return Lanes(first, last, len(run.copies), fixed, self.wires)


class _Computation:
    """The computation of the witnesses of inputs `start` to `stop` - 1 in a buffer."""

    def __init__(
        self, runner: WitnessRunner, memory: Buffer, inputs: Sequence[InputNumbers], start: int,
        stop: int,
    ) -> None:  # fmt: skip
        self._runner, self._device, self._modulus = runner, runner.device, runner.modulus
        self._memory, self._inputs, self._start = memory, inputs[start:stop], start
        self._input_count, self._count = len(inputs), stop - start
        self._queue = _Queue(self._device)
        self._divides = np.zeros(self._count, np.bool_)
        self._batches = runner.batches(self._count)
        sizes = [
            runner.state_bytes(replay) * len(replay.run.stage.program.stretches)
            for batch in self._batches
            for replay in batch.replays
        ]
        self._states = self._device.allocate(max(sum(sizes), 4), zero=False)
        # Of the stretches that were launched and not checked yet: the replay, the last instruction
        # and where the states are.
        self._unchecked: list[tuple[_Replay, int, int]] = []
        self._states_end = 0

    def run(self) -> NDArray[np.bool_]:
        """Compute the witnesses; return the mask of inputs that divide by 0."""
        runner, device = self._runner, self._device
        self._fill(self._states)
        self._store_inputs()
        register_bytes = [
            sum([runner.register_bytes(replay) for replay in batch.replays])
            for batch in self._batches
        ]
        registers = device.allocate(max([4, *register_bytes]), zero=False)
        for batch in self._batches:
            for run in batch.shortcuts:
                self._call_shortcut(run)
            if batch.replays:
                self._replay_all(batch.replays, registers)
        self._finish()
        return self._divides

    def _fill(self, memory: Buffer) -> None:
        """Mark memory as unwritten."""
        if in_host_memory(self._device):
            memory.view(np.uint32)[:] = UNWRITTEN
        else:
            self._queue.fill(memory, UNWRITTEN)

    def _store_inputs(self) -> None:
        wires = self._runner.input_wires
        if not in_host_memory(self._device):
            self._fill(self._memory)
        words = input_words(self._modulus, self._inputs, len(wires))
        starts = np.arange(self._count)[:, None] * self._runner.wires
        self._store((starts + wires).reshape(-1), words.reshape(-1, self._modulus.words))

    def _store(self, indices: NDArray[np.int64], words: Words) -> None:
        """Store values to the witnesses, from the host."""
        device, modulus = self._device, self._modulus
        if in_host_memory(device):
            self._memory.view(np.uint32, (-1, modulus.words))[indices] = words
            return
        self._queue.launch(
            device.compile(store_values, modulus=modulus), -(-len(indices) // device.lanes),
            len(indices), device.upload(indices.astype(np.uint32)), device.upload(words),
            self._memory,
        )  # fmt: skip

    def _call_shortcut(self, run: ShortcutRun) -> None:
        """Compute the results of calls of a shortcut."""
        runner, device = self._runner, self._device
        lanes = self._count * len(run.copies)
        kernel, groups = kernel_of(device, run.calls, lanes, self._modulus)
        self._queue.launch(
            kernel, groups, runner.lanes_of(run, 0, lanes), runner.tables.copies(device, run),
            *runner.tables.of_calls(device, run.calls), self._memory,
        )  # fmt: skip

    def _replay_all(self, batch: Sequence[_Replay], registers: Buffer) -> None:
        """Run replays concurrently."""
        slices, offset = [], 0
        for replay in batch:
            size = self._runner.register_bytes(replay)
            slices.append(registers.slice(offset, offset + size))
            offset += size
        first = {replay: Stretch(0, 0) for replay in batch}
        count = max(len(replay.run.stage.program.stretches) for replay in batch)
        for index in range(count):
            running = [
                (replay, values, replay.run.stage.program.stretches[index])
                for replay, values in zip(batch, slices, strict=True)
                if index < len(replay.run.stage.program.stretches)
            ]
            for replay, values, stretch in running:
                self._replay(replay, values, first[replay], stretch)
            for replay, values, stretch in running:
                self._store_outputs(replay, values, first[replay], stretch)
                if stretch.call is not None:
                    self._call(replay, values, stretch.call)
                first[replay] = stretch

    def _replay(self, replay: _Replay, values: Buffer, before: Stretch, stretch: Stretch) -> None:
        """Run the instructions of a stretch."""
        runner, device = self._runner, self._device
        start = self._states_end
        self._states_end += runner.state_bytes(replay)
        states = self._states.slice(start, self._states_end)
        tables, _ = runner.tables.of_stage(device, replay.run.stage)
        self._queue.launch(
            device.compile(replay_program, lanes=replay.width, modulus=self._modulus),
            replay.groups, before.instructions, stretch.instructions, replay.registers,
            runner.lanes_of(replay.run, replay.first, replay.last), tables,
            runner.tables.copies(device, replay.run), ReplayArrays(self._memory, values, states),
        )  # fmt: skip
        self._unchecked.append((replay, stretch.instructions, start))

    def _store_outputs(
        self, replay: _Replay, values: Buffer, before: Stretch, stretch: Stretch
    ) -> None:
        """Store the outputs of a stretch."""
        runner, device = self._runner, self._device
        count = stretch.outputs - before.outputs
        if not count:
            return
        # A CPU has no threads to spare for further workgroups.
        step = count if in_host_memory(device) else _GPU_STORES
        _, outputs = runner.tables.of_stage(device, replay.run.stage)
        self._queue.launch(
            device.compile(store_outputs, lanes=replay.width, modulus=self._modulus),
            replay.groups * -(-count // step), before.outputs, stretch.outputs, step,
            replay.groups, replay.registers, runner.lanes_of(replay.run, replay.first, replay.last),
            runner.tables.copies(device, replay.run), outputs, values, self._memory,
        )  # fmt: skip

    # --- hints

    def _call(self, replay: _Replay, values: Buffer, call: Call) -> None:
        """Call a hint for each lane whose witness has not divided by 0; store the results."""
        self._finish()
        modulus, runner = self._modulus, self._runner
        lanes = range(replay.first, replay.last)
        arguments = self._arguments(replay, values, call)
        results = np.zeros((len(lanes), len(call.results), modulus.words), np.uint32)
        witness_of = np.array(lanes) // len(replay.run.copies)
        for index, witness in enumerate(witness_of.tolist()):
            if not self._divides[witness]:
                integers = words_to_integers(modulus, arguments[index])
                with with_input_index(self._start + witness, self._input_count):
                    numbers = hinted(call.hint, integers, modulus.value)
                results[index] = integers_to_words(modulus, numbers)
        part = runner.schedule.part_of(replay.run)
        copies = replay.run.copies[np.array(lanes) % len(replay.run.copies)]
        wires = part.wires(np.array(call.results, np.uint32))[copies]
        indices = witness_of[:, None] * runner.wires + wires
        self._store(indices.reshape(-1), results.reshape(-1, modulus.words))

    def _arguments(self, replay: _Replay, values: Buffer, call: Call) -> Words:
        """Return the arguments of a hint: integers, (lanes, arguments, words) u32."""
        device, modulus = self._device, self._modulus
        arguments = unwritten(replay.last - replay.first, len(call.arguments), modulus.words)
        count = len(arguments) * len(call.arguments)
        if count:
            device.launch(
                device.compile(hint_arguments, modulus=modulus), -(-count // device.lanes), count,
                replay.width, replay.registers, len(call.arguments),
                np.array(call.arguments, np.uint32), values, arguments,
            )  # fmt: skip
            check_written(device, "the arguments of a hint", arguments)
        return arguments

    # --- the end of launches

    def _finish(self) -> None:
        """Wait for all launches, and note the witnesses that divided by 0.

        Raises DeviceError if the device has not run a replay to its end.
        """
        self._queue.run()
        if not self._unchecked:
            return
        first = self._unchecked[0][2]
        states = np.empty((self._states_end - first) // 4, np.uint32)
        self._device.download(self._states.slice(first, self._states_end), states)
        for replay, last, start in self._unchecked:
            index = (start - first) // 4
            words = states[index : index + 2 * replay.groups * replay.width].reshape(-1, 2)
            if (words[:, 0] != last).any():
                raise not_written(self._device, "the values of a witness")
            lanes = np.flatnonzero(words[: replay.last - replay.first, 1]) + replay.first
            self._divides[lanes // len(replay.run.copies)] = True
        self._unchecked.clear()


class _Queue:
    """Launches that run in order: at once on a CPU, and recorded until `run` on other devices."""

    def __init__(self, device: AnyDevice) -> None:
        self._device = device
        self._recording: RecordingStream | None = None

    @property
    def _recorded(self) -> RecordingStream:
        if self._recording is None:
            # The waves are small; behind a proof's large kernels, each would wait for one.
            self._recording = self._device.stream("witnesses").record(urgent=True)
        return self._recording

    def launch(self, kernel: Any, groups: int, *arguments: Any) -> None:
        """Launch a kernel after all that were launched before."""
        if in_host_memory(self._device):
            self._device.launch(kernel, groups, *arguments)
        else:
            self._recorded.launch(kernel, groups, *arguments)

    def fill(self, memory: Buffer, word: int) -> None:
        """Fill device memory with a word."""
        self._recorded.fill(memory, word)

    def run(self) -> None:
        """Wait until all launches have run."""
        if self._recording is not None:
            recording, self._recording = self._recording, None
            recording.finish().run()


def _rounded(size: int, alignment: int) -> int:
    """Round up to a multiple."""
    return -(-size // alignment) * alignment
