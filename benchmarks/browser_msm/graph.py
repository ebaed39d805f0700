"""Export Quod's MSM over BLS12-377 as files for the browser's runtime.

Of two kinds. *kept*: the bases, with as many multiples as the plan wants, are part of the files and
stay on the GPU; a run brings the scalars. *given*: a run brings scalars and points as integers, as
the prize entry gets them, and the points are converted first.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import groupby
from typing import Any

import numpy as np

from quod.curve.group import Group
from quod.device.export.device import ExportDevice
from quod.device.memory.buffer import Buffer
from quod.device.runtime.recording import Recording
from quod.field.kernels import field_to_montgomery
from quod.frozen import replace
from quod.msm.gpu.reduce.weighted_sums import line_bytes
from quod.msm.gpu.run.resident import ResidentMsm
from quod.msm.gpu.run.workspace import Workspace
from quod.msm.options import MsmOptions
from quod.web import GraphFiles, Stage, graph_files

Array = np.ndarray[Any, Any]

KINDS = ("kept", "given")


def msm_graph(
    group: Group, points: Array, kind: str, *, limbs: str, resident_lanes: int, options: MsmOptions
) -> tuple[GraphFiles, ResidentMsm]:
    """The files of an MSM of one scalar a point, with inputs ``scalars`` and perhaps ``points``.

    The outputs are ``lines``, which `finish.Finisher` adds up, and ``flag``, whose first word is 0
    unless a scalar was too large.
    """
    device = ExportDevice(limbs=limbs, resident_lanes=resident_lanes)
    if kind == "given":
        # Multiples would have to be made in each run.
        options = replace(options, precompute_factor=1)
    resident = ResidentMsm(device, group, points, options)
    scalars = device.allocate(32 * len(points), zero=False)
    lines = device.allocate(line_bytes(resident.plan()), zero=False)
    flag = device.allocate(16)
    inputs, stages = {"scalars": scalars}, []
    if kind == "given":
        inputs["points"] = device.allocate(points.nbytes, zero=False)
        (bases,) = resident.blocks
        stages.append(_conversion(device, group, inputs["points"], bases.memory))
    recording = device.stream("msm").record()
    workspace = Workspace(device, resident.workspace_bytes())
    resident.record_to_lines(recording, scalars, lines, flag, workspace=workspace)
    stages.extend(_by_label(recording.finish().recording))
    outputs = {"lines": lines, "flag": flag}
    return graph_files(device, stages, inputs=inputs, outputs=outputs), resident


def _conversion(device: ExportDevice, group: Group, points: Buffer, bases: Buffer) -> Stage:
    """Convert coordinates to Montgomery form and write them to the bases."""
    count = points.nbytes // (8 * group.coordinate_words)
    kernel = device.compile(field_to_montgomery, spec=group.coordinates)
    recording = device.stream("convert").record()
    recording.launch(kernel, -(-count // device.lanes), count, points, bases, label="convert")
    return Stage("convert", recording.finish().recording)


def _by_label(recording: Recording) -> Iterator[Stage]:
    """Group consecutive steps of one label into a stage, so that each stage is timed."""
    for label, steps in groupby(recording.steps, key=lambda step: step.label):
        yield Stage(label, replace(recording, steps=tuple(steps)))
