"""The computation of witnesses in a buffer: launches, hints, and the check that all have run."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from quod.device.memory.buffer import Buffer
from quod.device.protocol import AnyDevice, in_host_memory
from quod.device.runtime.sentinel import UNWRITTEN, check_written, not_written, unwritten
from quod.device.runtime.stream import RecordingStream
from quod.field.array import Words, integers_to_words, words_to_integers
from quod.r1cs.executor.plans import Replay, WitnessPlan
from quod.r1cs.inputs import InputNumbers, input_words, with_input_index
from quod.r1cs.kernels import (
    ReplayArrays,
    hint_arguments,
    replay_program,
    store_outputs,
    store_values,
)
from quod.r1cs.repetition.schedule import ShortcutRun
from quod.r1cs.shortcuts import kernel_of
from quod.r1cs.witness_program.instructions import Call, Stretch
from quod.r1cs.witness_program.replay import hinted

# Outputs that an instance on a GPU stores.
_GPU_STORES = 16


class Computation:
    """The computation of the witnesses of inputs `start` to `stop` - 1 in a buffer."""

    def __init__(
        self, plan: WitnessPlan, memory: Buffer, inputs: Sequence[InputNumbers], start: int,
        stop: int,
    ) -> None:  # fmt: skip
        self._plan, self._device, self._modulus = plan, plan.device, plan.modulus
        self._memory, self._inputs, self._start = memory, inputs[start:stop], start
        self._input_count, self._count = len(inputs), stop - start
        self._queue = LaunchQueue(self._device)
        self._divides = np.zeros(self._count, np.bool_)
        self._batches = plan.batches(self._count)
        sizes = [
            plan.state_bytes(replay) * len(replay.run.stage.program.stretches)
            for batch in self._batches
            for replay in batch.replays
        ]
        self._states = self._device.allocate(max(sum(sizes), 4), zero=False)
        # Of the stretches that were launched and not checked yet: the replay, the last instruction
        # and where the states are.
        self._unchecked: list[tuple[Replay, int, int]] = []
        self._states_end = 0

    def run(self) -> NDArray[np.bool_]:
        """Compute the witnesses; return the mask of inputs that divide by 0."""
        self.begin(self._inputs)
        self.launch()
        self._finish()
        return self._divides

    def begin(self, inputs: Sequence[InputNumbers]) -> None:
        """Store inputs, and mark the states as unwritten."""
        self._inputs = inputs
        self._fill(self._states)
        self._store_inputs()

    def launch(self) -> None:
        """Launch all shortcuts and replays."""
        plan, device = self._plan, self._device
        register_bytes = [
            sum([plan.register_bytes(replay) for replay in batch.replays])
            for batch in self._batches
        ]
        registers = device.allocate(max([4, *register_bytes]), zero=False)
        for batch in self._batches:
            for run in batch.shortcuts:
                self._call_shortcut(run)
            if batch.replays:
                self._replay_all(batch.replays, registers)

    def record(self, stream: RecordingStream) -> None:
        """Record all launches in a stream of the CPU."""
        self._queue = LaunchQueue(self._device, stream)
        self.launch()

    def check(self) -> NDArray[np.bool_]:
        """Check that the recorded launches have run; return the mask of inputs that divide by 0."""
        unchecked = list(self._unchecked)
        self._divides[:] = False
        self._finish()
        self._unchecked, self._inputs = unchecked, []
        return self._divides.copy()

    def _fill(self, memory: Buffer) -> None:
        """Mark memory as unwritten."""
        if in_host_memory(self._device):
            memory.view(np.uint32)[:] = UNWRITTEN
        else:
            self._queue.fill(memory, UNWRITTEN)

    def _store_inputs(self) -> None:
        wires = self._plan.input_wires
        if not in_host_memory(self._device):
            self._fill(self._memory)
        words = input_words(self._modulus, self._inputs, len(wires))
        starts = np.arange(self._count)[:, None] * self._plan.wires
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
        plan, device = self._plan, self._device
        lanes = self._count * len(run.copies)
        kernel, groups = kernel_of(device, run.calls, lanes, self._modulus)
        self._queue.launch(
            kernel, groups, plan.lanes_of(run, 0, lanes), plan.tables.copies(device, run),
            *plan.tables.of_calls(device, run.calls), self._memory,
        )  # fmt: skip

    def _replay_all(self, batch: Sequence[Replay], registers: Buffer) -> None:
        """Run replays concurrently."""
        slices, offset = [], 0
        for replay in batch:
            size = self._plan.register_bytes(replay)
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

    def _replay(self, replay: Replay, values: Buffer, before: Stretch, stretch: Stretch) -> None:
        """Run the instructions of a stretch."""
        plan, device = self._plan, self._device
        start = self._states_end
        self._states_end += plan.state_bytes(replay)
        states = self._states.slice(start, self._states_end)
        tables, _ = plan.tables.of_stage(device, replay.run.stage)
        self._queue.launch(
            device.compile(replay_program, lanes=replay.width, modulus=self._modulus),
            replay.groups, before.instructions, stretch.instructions, replay.registers,
            plan.lanes_of(replay.run, replay.first, replay.last), tables,
            plan.tables.copies(device, replay.run), ReplayArrays(self._memory, values, states),
        )  # fmt: skip
        self._unchecked.append((replay, stretch.instructions, start))

    def _store_outputs(
        self, replay: Replay, values: Buffer, before: Stretch, stretch: Stretch
    ) -> None:
        """Store the outputs of a stretch."""
        plan, device = self._plan, self._device
        count = stretch.outputs - before.outputs
        if not count:
            return
        # A CPU has no threads to spare for further workgroups.
        step = count if in_host_memory(device) else _GPU_STORES
        _, outputs = plan.tables.of_stage(device, replay.run.stage)
        self._queue.launch(
            device.compile(store_outputs, lanes=replay.width, modulus=self._modulus),
            replay.groups * -(-count // step), before.outputs, stretch.outputs, step,
            replay.groups, replay.registers, plan.lanes_of(replay.run, replay.first, replay.last),
            plan.tables.copies(device, replay.run), outputs, values, self._memory,
        )  # fmt: skip

    # --- hints

    def _call(self, replay: Replay, values: Buffer, call: Call) -> None:
        """Call a hint for each lane whose witness has not divided by 0; store the results."""
        self._finish()
        modulus, plan = self._modulus, self._plan
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
        part = plan.schedule.part_of(replay.run)
        copies = replay.run.copies[np.array(lanes) % len(replay.run.copies)]
        wires = part.wires(np.array(call.results, np.uint32))[copies]
        indices = witness_of[:, None] * plan.wires + wires
        self._store(indices.reshape(-1), results.reshape(-1, modulus.words))

    def _arguments(self, replay: Replay, values: Buffer, call: Call) -> Words:
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


class RecordedComputation:
    """The computation of a single witness on the CPU, whose launches are recorded once.

    For a program of many small stages, packing the arguments of a launch takes longer than its
    work.
    """

    def __init__(self, plan: WitnessPlan, device: AnyDevice) -> None:
        self.device = device
        self._out = unwritten(1, plan.wires, plan.modulus.words)
        self._computation = Computation(plan, Buffer.wrap(self._out), [([], 0)], 0, 1)
        stream = device.stream("witness").record()
        self._computation.record(stream)
        self._recording = stream.finish().recording

    def run(self, inputs: Sequence[InputNumbers]) -> tuple[Words, NDArray[np.bool_]]:
        """Compute a witness; see `WitnessRunner.run`."""
        out = self._out
        out.fill(UNWRITTEN)
        self._computation.begin(inputs)
        self.device.stream("witness").replay(self._recording).run()
        divides = self._computation.check()
        check_written(self.device, "witnesses", out)
        return out.copy(), divides


class LaunchQueue:
    """Launches that run in order: at once on a CPU, and recorded until `run` on other devices.

    With a recording stream, launches are only recorded.
    """

    def __init__(self, device: AnyDevice, stream: RecordingStream | None = None) -> None:
        self._device, self._stream = device, stream
        self._recording: RecordingStream | None = None

    @property
    def _recorded(self) -> RecordingStream:
        if self._recording is None:
            # The waves are small; behind a proof's large kernels, each would wait for one.
            self._recording = self._device.stream("witnesses").record(urgent=True)
        return self._recording

    def launch(self, kernel: Any, groups: int, *arguments: Any) -> None:
        """Launch a kernel after all that were launched before."""
        if self._stream is not None:
            self._stream.launch(kernel, groups, *arguments)
        elif in_host_memory(self._device):
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
