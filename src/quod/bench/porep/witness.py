"""The witness of a `PartitionCircuit`, computed on a device."""

from __future__ import annotations

import numpy as np

from quod.bench.porep.circuit import PartitionCircuit
from quod.bench.porep.kernels import partition_wires
from quod.device.protocol import AnyDevice
from quod.device.runtime.sentinel import check_written, mark, unwritten
from quod.field.array import Words
from quod.formats import Witness


def device_witness(
    device: AnyDevice, circuit: PartitionCircuit, seed: int = 1, *, pinned: bool = False
) -> Witness:
    """Compute `circuit.witness` on a device with memory of its own.

    With `pinned` its values are in page-locked memory.
    """
    size = circuit.fr.bytes
    wires = device.allocate(circuit.wires * size, zero=False)
    input_values = circuit.inputs(seed)
    device.upload(input_values, into=wires.slice(0, input_values.nbytes))
    kernel = device.compile(partition_wires, circuit=circuit)
    recording = device.stream("witness").record()
    for first in range(0, circuit.constraints, circuit.width):
        count = min(circuit.width, circuit.constraints - first)
        recording.launch(kernel, -(-count // device.lanes), first, count, wires)
    recording.finish().run()
    shape = circuit.wires, circuit.fr.words
    if pinned:
        values: Words = device.pinned(wires.nbytes).view(np.uint32).reshape(shape)
        mark(values)
    else:
        values = unwritten(*shape)
    device.download(wires, values)
    check_written(device, "the witness of a partition", values)
    return Witness(f"the witness of {circuit.path}", circuit.curve, values, values.nbytes)
