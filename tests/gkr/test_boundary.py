"""Input layout on a device before a proof, and its check of the outputs."""

from __future__ import annotations

import numpy as np
import pytest

from quod.device.protocol import AnyDevice
from quod.errors import DeviceError, InputError
from quod.field import EXTENSIONS, random_elements
from quod.gkr import Prover, Reduction, VerifyingKey
from quod.gkr.prover.boundary import Boundary
from quod.layered import CircuitBuilder, LayeredCircuit


def sums(log_inputs: int, field: str) -> LayeredCircuit:
    """One whose outputs are the inputs."""
    modulus = EXTENSIONS[field].modulus
    builder = CircuitBuilder(modulus, log_inputs)
    layer = builder.layer(log_inputs)
    for place in range(1 << log_inputs):
        layer.add(place, place)
    return builder.finished(zeros=1 << log_inputs)


def boundary(device: AnyDevice, field: str, log_inputs: int, instances: int) -> Boundary:
    circuit = sums(log_inputs, field)
    key = VerifyingKey.of(
        circuit, EXTENSIONS[field], allow_bits=0, reduction=Reduction.DATA_PARALLEL
    )
    prover = Prover(device, key, circuit, instances=instances, batch=2, allow_bits=0)
    return prover._in_progress[0].boundary


def check(device: AnyDevice, field: str, log_inputs: int, instances: int) -> None:
    statement_boundary = boundary(device, field, log_inputs, instances)
    modulus = EXTENSIONS[field].modulus
    shape = (instances, 1 << log_inputs, modulus.words)
    tables = [
        random_elements(modulus, instances << log_inputs, seed=seed).reshape(shape)
        for seed in (1, 2)
    ]
    assert statement_boundary.upload_inputs(tables)
    padded = 1 << (instances - 1).bit_length()
    downloaded = np.zeros((2, 1 << log_inputs, padded, modulus.words), np.uint32)
    device.download(statement_boundary._values, downloaded)
    for table, placed in zip(tables, downloaded, strict=True):
        rows = np.concatenate([table, np.repeat(table[-1:], padded - instances, 0)])
        assert (placed == rows.swapaxes(0, 1)).all()
    # The largest integer that is none, in the last place of all.
    words = [modulus.value >> (32 * at) & 0xFFFFFFFF for at in range(modulus.words)]
    tables[1][-1, -1] = words
    assert not statement_boundary.upload_inputs(tables)
    words[0] -= 1
    tables[1][-1, -1] = words
    assert statement_boundary.upload_inputs(tables)


@pytest.mark.parametrize(
    ("log_inputs", "instances", "field"),
    [(4, 5, "m31.4"), (1, 8, "m31.4"), (2, 3, "goldilocks.2"), (5, 1, "m31.4")],
)
def test_inputs_are_laid_out_by_index(
    device: AnyDevice, log_inputs: int, instances: int, field: str
) -> None:
    check(device, field, log_inputs, instances)


def test_inputs_are_laid_out_by_index_on_gpus(gpu_device: AnyDevice) -> None:
    check(gpu_device, "m31.4", 4, 5)


def test_every_output_of_every_instance_is_checked(device: AnyDevice) -> None:
    statement_boundary = boundary(device, "m31.4", 3, 5)
    plan = statement_boundary._plan
    outputs = np.zeros((2, 8, 8, 1), np.uint32)
    for proof, output, instance in ((0, 0, 0), (1, 7, 4), (0, 3, 7)):
        device.upload(outputs, into=plan.values[-1])
        assert statement_boundary.outputs_are_zero()
        outputs[proof, output, instance] = 1
        device.upload(outputs, into=plan.values[-1])
        assert not statement_boundary.outputs_are_zero()
        assert (statement_boundary.outputs() == outputs).all()
        outputs[:] = 0


def test_idle_device_is_detected(device: AnyDevice, monkeypatch: pytest.MonkeyPatch) -> None:
    circuit = sums(2, "m31.4")
    key = VerifyingKey.of(circuit, EXTENSIONS["m31.4"], allow_bits=0)
    prover = Prover(device, key, circuit, instances=2)
    with pytest.raises(InputError, match="output 1 of the circuit of instance 1 is 5 with"):
        prover.prove([[0, 0, 0, 0], [0, 5, 0, 0]])
    with pytest.raises(InputError, match="below its prime"):
        prover.prove(np.full((2, 4, 1), 2**31 - 1, np.uint32))
    zeros = [[0] * 4] * 2
    prover.prove(zeros, check=False)
    monkeypatch.setattr(Boundary, "_counted", lambda *_: 0)
    with pytest.raises(DeviceError, match="without computing the inputs by place"):
        prover.prove(zeros)
    monkeypatch.setattr(Boundary, "upload_inputs", lambda *_: True)
    with pytest.raises(DeviceError, match="without computing the outputs"):
        prover.prove(zeros)
