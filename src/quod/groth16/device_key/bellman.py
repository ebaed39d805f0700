"""bellman's parameters in a device's memory: read from a file of any size, and written.

The bytes of the file are copied to the device chunk by chunk, and kernels convert them to points.
See `quod.formats.bellman` for the format, `quod.groth16.encodings.bellman_key` for the order
of the points.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from quod.curve.array import from_points, to_points
from quod.curve.groups import GROUPS
from quod.curve.named.bls12_381 import BLS12_381
from quod.curve.weierstrass.membership import OFF_CURVE, ON_CURVE, curve_check
from quod.device.discovery import DeviceChoice, resolve_device
from quod.device.memory.buffer import Buffer
from quod.device.protocol import AnyDevice
from quod.device.runtime.sentinel import check_written, unwritten
from quod.device.runtime.timeline import Timeline, or_null
from quod.errors import InputError, MismatchError
from quod.field.array import Words, from_montgomery, to_montgomery
from quod.field.moduli import Modulus
from quod.formats.bellman import (
    LISTS,
    PURPOSES,
    VERIFYING_KEY,
    EncodedParameters,
    Place,
    encoded_parameters_content,
    point_bytes,
)
from quod.formats.output import Content
from quod.formats.source import Path
from quod.groth16.device_key.bases import KeyPoints, counts
from quod.groth16.device_key.circuit import DeviceCircuit
from quod.groth16.device_key.key import DeviceKey, memory_for
from quod.groth16.lagrange import scale_elements
from quod.hash.sha2 import swapped
from quod.kernel import U32, Builder, Pointer, kernel
from quod.kernel.ir import types
from quod.kernel.ir.value import Value
from quod.msm.gpu.sort.infinity_mask import find_infinity_mask
from quod.ntt.ordering import reversed_value

MSM_OF_LIST = {"h": "H", "l": "C", "a": "A", "b_g1": "B1", "b_g2": "B2"}
"""The MSM that each list of a file has the bases of."""

# Bytes of a chunk: a multiple of the bytes of a point, in both groups.
_CHUNK_BYTES = 192 << 19

_FQ = BLS12_381.fq


@kernel
def decode_coordinates(
    k: Builder, count: U32, first: U32, encoded: Pointer[U32], out: Pointer[U32],
    faults: Pointer[U32], *, modulus: Modulus, degree: int, reversed_bits: int, checked: bool,
) -> None:  # fmt: skip
    """Convert big-endian coordinates to little-endian words, as points in the order of a key.

    count: coordinates, of points first, first + 1, ...
    degree: 1 in G1; 2 in G2, where the file has the coefficient of u first.
    reversed_bits: with n above 0, a point's index in `out` has its n bits reversed.
    checked: whether to set faults[i] to 1 if coordinate i is not below the modulus, and to 0 if it
        is.
    """
    i, words = k.global_id(), modulus.words
    with k.if_(i < count):
        source = (i * words).cast(types.u64)
        values = [swapped(word) for word in k.load(encoded, source, words)][::-1]
        point, coordinate = i // (2 * degree), i % (2 * degree)
        target = _place(first + point, reversed_bits) * (2 * degree) + (coordinate ^ (degree - 1))
        k.store(out, target.cast(types.u64) * words, *values)
        if checked:
            faults[i] = k.select(
                _is_below(k, values, modulus), k.constant(0, types.u32), k.constant(1, types.u32)
            )


@kernel
def encode_coordinates(
    k: Builder, count: U32, points: Pointer[U32], out: Pointer[U32], *, modulus: Modulus,
    degree: int,
) -> None:  # fmt: skip
    """Convert coordinates to big-endian bytes, the reverse of `decode_coordinates`."""
    i, words = k.global_id(), modulus.words
    with k.if_(i < count):
        values = k.load(points, (i * words).cast(types.u64), words)
        target = (i ^ (degree - 1)) * words
        k.store(out, target.cast(types.u64), *[swapped(word) for word in values][::-1])


@kernel
def gather_points(
    k: Builder, count: U32, first: U32, points: Pointer[U32], out: Pointer[U32], *, words: int,
    reversed_bits: int,
) -> None:  # fmt: skip
    """out[i] = points[first + i], with the bits of this index reversed if there are any."""
    i = k.global_id()
    with k.if_(i < count):
        source = _place(first + i, reversed_bits).cast(types.u64) * words
        k.store(out, i.cast(types.u64) * words, *k.load(points, source, words))


def _place(index: Value, reversed_bits: int) -> Value:
    return reversed_value(index, reversed_bits) if reversed_bits else index


def _is_below(k: Builder, words: list[Value], modulus: Modulus) -> Value:
    """Return whether an integer, in words from the least significant, is below the modulus."""
    below = k.constant(0, types.u32) == 1
    for index, word in enumerate(words):
        limit = modulus.value >> 32 * index & 0xFFFFFFFF
        below = (word < limit) | ((word == limit) & below)
    return below


def open_bellman(
    path: Path, circuit: DeviceCircuit, device: DeviceChoice, timeline: Timeline | None = None, *,
    checked: bool = True,
) -> DeviceKey:  # fmt: skip
    """Open parameters of a circuit as a key in the device's memory.

    checked: whether every point is checked to be on the curve and in its subgroup.
    Raises MismatchError if counts show that the parameters are for another circuit, InputError with
    the offset for a bad point, and the errors of `memory_for`.
    """
    timeline, memory = or_null(timeline), memory_for(circuit, device)
    target = memory.device
    if circuit.curve != BLS12_381.name or not circuit.monomial:
        raise InputError(
            f"bellman's parameters have keys over {BLS12_381.name} with powers of tau as points h; "
            f"{circuit.path} does not"
        )
    parameters = EncodedParameters.open(path)
    _check_counts(parameters, circuit)
    bases = {
        name: target.allocate(len(data) // point_bytes(LISTS[name]) * _memory_bytes(LISTS[name]),
                              zero=False)
        for name, data in parameters.lists.items()
    }  # fmt: skip
    for name, data in parameters.lists.items():
        with timeline.stage(f"read points for {PURPOSES[name]}", bytes=len(data)):
            place, log2 = parameters.places[name], circuit.log2_domain if name == "h" else 0
            _decode(target, data, bases[name], place, reversed_bits=log2, checked=checked)
        if checked:
            with timeline.stage(f"check points for {PURPOSES[name]}"):
                _check_points(target, bases[name], place, reversed_bits=log2)
    key_points = _points(parameters, {MSM_OF_LIST[name]: base for name, base in bases.items()})
    # The key takes the bases: those that do not stay on the device are freed.
    bases.clear()
    return DeviceKey(memory, key_points, parameters.path, timeline)


def _check_counts(parameters: EncodedParameters, circuit: DeviceCircuit) -> None:
    expected = {name: counts(circuit)[msm][1] for name, msm in MSM_OF_LIST.items()}
    sizes = {name: len(data) // point_bytes(LISTS[name]) for name, data in parameters.lists.items()}
    expected["ic"], sizes["ic"] = circuit.public + 1, len(parameters.points["ic"])
    for name, count in sizes.items():
        if count != expected[name]:
            place = parameters.places[name]
            raise MismatchError(
                f"there are {count} points and {circuit.path} needs {expected[name]}; use the "
                "parameters and the constraint system of one circuit",
                path=place.path, section=place.section, offset=place.offset,
            )  # fmt: skip


def _memory_bytes(degree: int) -> int:
    """Return the bytes of a point in memory."""
    return 2 * degree * _FQ.bytes


def _decode(
    device: AnyDevice, data: memoryview, out: Buffer, place: Place, *, reversed_bits: int,
    checked: bool,
) -> None:  # fmt: skip
    """Convert the points of a list to Montgomery form in device memory."""
    degree, lanes = place.group, device.lanes
    compiled = device.compile(
        decode_coordinates, modulus=_FQ, degree=degree, reversed_bits=reversed_bits, checked=checked
    )
    most = min(_CHUNK_BYTES, len(data))
    chunk = device.allocate(most, zero=False)
    for start in range(0, len(data), most):
        words = np.frombuffer(data[start : start + most], np.uint32)
        size = words.nbytes
        device.upload(words, into=chunk.slice(0, size))
        count, first = size // _FQ.bytes, start // point_bytes(degree)
        faults = unwritten(count if checked else 1, 1)
        device.launch(compiled, -(-count // lanes), count, first, chunk, out, faults)
        if checked:
            check_written(device, "which coordinates are below the modulus", faults)
            if faults.any():
                point = first + int(np.argmax(faults[:, 0])) // (2 * degree)
                raise place.error(
                    point,
                    f"point {point} has flags, or a coordinate that is not below q: it must be an "
                    "uncompressed point that is not infinity",
                )
    _scale(device, out, out, _FQ.montgomery_radix)


def _scale(device: AnyDevice, source: Buffer, out: Buffer, factor: int) -> None:
    """Multiply all coordinates by a factor."""
    compiled = device.compile(scale_elements, modulus=_FQ, factor=factor % _FQ.value)
    count = out.nbytes // _FQ.bytes
    device.launch(compiled, -(-count // device.lanes), count, source, out)


def _check_points(device: AnyDevice, points: Buffer, place: Place, *, reversed_bits: int) -> None:
    """Raise InputError for a point that is infinite or not in the group, with its offset."""
    group = GROUPS[f"{BLS12_381.name}.g{place.group}"]
    count, lanes = points.nbytes // _memory_bytes(place.group), device.lanes

    def index_in_file(index: int) -> int:
        return int(format(index, f"0{reversed_bits}b")[::-1], 2) if reversed_bits else index

    codes = unwritten(count, 1)
    compiled = device.compile(curve_check, group=group, subgroup=True)
    device.launch(compiled, -(-count // lanes), count, points, codes)
    check_written(device, "which points are in the group", codes)
    bad = np.flatnonzero(codes[:, 0] != ON_CURVE)
    if len(bad):
        is_off_curve = codes[bad[0], 0] == OFF_CURVE
        reason = "not on the curve" if is_off_curve else "not in the subgroup of order r"
        index = index_in_file(int(bad[0]))
        raise place.error(index, f"point {index} is {reason}")
    mask = find_infinity_mask(device, count, group.point_words, points)
    if mask is not None:
        bits = np.zeros(mask.nbytes, np.uint8)
        device.download(mask, bits)
        index = index_in_file(int(np.argmax(np.unpackbits(bits, bitorder="little"))))
        raise place.error(index, f"point {index} is infinity, which a key does not have")


def _points(parameters: EncodedParameters, bases: dict[str, Buffer]) -> KeyPoints:
    host = resolve_device("cpu")
    single, ic = {}, None
    for name, words in parameters.points.items():
        group = GROUPS[f"{BLS12_381.name}.g{parameters.places[name].group}"]
        rows = to_montgomery(host, _FQ, words.reshape(-1, _FQ.words)).reshape(-1, *group.shape)
        points = to_points(group, rows)
        if name == "ic":
            ic = points
        else:
            (single[name],) = points
    assert ic is not None
    return KeyPoints(bases, single, ic)


def parameters_content(device: AnyDevice, circuit: DeviceCircuit, points: KeyPoints) -> Content:
    """Return the content of the parameters with points in a device's memory."""
    lists = {}
    for name, msm in MSM_OF_LIST.items():
        count, log2 = counts(circuit)[msm][1], circuit.log2_domain if name == "h" else 0
        lists[name] = count, _encoded(device, points.bases[msm], count, LISTS[name], log2)
    return encoded_parameters_content(verifying_points(points), lists)


def verifying_points(points: KeyPoints) -> dict[str, Words]:
    """Return the points of the verifying key as `write_bellman_key` takes them."""
    host = resolve_device("cpu")
    words = {}
    for name, degree in (*VERIFYING_KEY.items(), ("ic", 1)):
        group = GROUPS[f"{BLS12_381.name}.g{degree}"]
        rows = from_points(group, points.ic if name == "ic" else [points.single[name]])
        canonical = from_montgomery(host, _FQ, rows).reshape(rows.shape)
        words[name] = canonical if name == "ic" else canonical[0]
    return words


def _encoded(
    device: AnyDevice, bases: Buffer, count: int, degree: int, reversed_bits: int
) -> Iterator[bytes]:
    """Yield the bytes of points in the order of the file."""
    size, lanes = _memory_bytes(degree), device.lanes
    most = min(count, _CHUNK_BYTES // size)
    gather = device.compile(gather_points, words=size // 4, reversed_bits=reversed_bits)
    encode = device.compile(encode_coordinates, modulus=_FQ, degree=degree)
    points, encoded = (device.allocate(most * size, zero=False) for _ in range(2))
    for first in range(0, count, most):
        taken = min(most, count - first)
        device.launch(gather, -(-taken // lanes), taken, first, bases, points)
        chunk = points.slice(0, taken * size)
        _scale(device, chunk, chunk, pow(_FQ.montgomery_radix, -1, _FQ.value))
        coordinates = taken * 2 * degree
        device.launch(encode, -(-coordinates // lanes), coordinates, points, encoded)
        words = unwritten(coordinates, _FQ.words)
        device.download(encoded.slice(0, taken * size), words)
        yield words.tobytes()
