"""Transforms of one size over one field: tables on the device, and the passes to launch."""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING, Any, cast, get_args

import numpy as np

from quod.device.discovery import resolve_device
from quod.device.memory.budget import check_reach
from quod.device.memory.buffer import Buffer, host_bytes
from quod.device.protocol import AnyDevice, HostDevice
from quod.device.runtime.sentinel import not_written
from quod.errors import DeviceError, InputError
from quod.field.array import check_canonical
from quod.field.moduli import Modulus
from quod.field.roots import RootFamily, check_root, root_of_unity
from quod.frozen import frozen
from quod.ntt.host.passes import PassShape, transform_pass
from quod.ntt.host.reorder import checked, exchanged, multiplied, reverse_bits, scale_by_powers
from quod.ntt.ordering import Ordering, Way, bit_reversal, check_ordering, check_way
from quod.ntt.rows import array_bytes, lanes_of
from quod.ntt.schedule import MAX_LOG2_SIZE, PassPlace, places_of, split
from quod.ntt.steps import Direction
from quod.ntt.tables import store_of
from quod.ntt.twiddles import (
    RUN,
    Domain,
    Tables,
    factors_by_squaring,
    tables_bytes,
    tables_of,
)
from quod.validation import choice, plain_array, whole_number, whole_number_or_none

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from quod.device.runtime.stream import RecordingStream
    from quod.ntt.gpu.schedule import Tuning

Data = Buffer | np.ndarray[Any, Any]

STATIC_FROM = 12
"""log2 of the points of the smallest transform whose passes are compiled for their number of
rows."""

# A pass of fewer static levels keeps all rows in registers and writes no scratch memory, by which
# launches that did not run are detected.
_MIN_STATIC_LEVELS = 4

_GROUPS_PER_THREAD = 8
"""Workgroups per thread, each with its own scratch memory, to balance the load of threads."""


@frozen
class NttPlan:
    """Number-theoretic transforms of 2**log2_size points over a prime field.

    device: a device or its name.
    family: roots of unity of snarkjs (from the smallest non-residue) or of arkworks (from the
        field's usual generator); see `quod.field.roots`.
    tuning: sizes of passes on a GPU. Default: from its workgroup memory.
    root: a root of order 2**log2_size, instead of the family's.

    The first transform of a direction and coset compiles its kernels and builds its tables, which
    are cached on the device. Raises InputError if the field has no root of order 2**log2_size, or
    `root` has another order.
    """

    device: AnyDevice
    modulus: Modulus
    log2_size: int
    family: RootFamily = "snarkjs"
    tuning: Tuning | None = None
    root: int | None = None

    def __post_init__(self) -> None:
        device = resolve_device(self.device)
        choice("family", self.family, get_args(RootFamily))
        log2_size = whole_number("log2_size", self.log2_size)
        self.__dict__.update(device=device, log2_size=log2_size)
        max_log2_size = min(self.modulus.two_adicity, MAX_LOG2_SIZE)
        if not 0 <= self.log2_size <= max_log2_size:
            raise InputError(
                f"transforms over {self.modulus.name} have 2^0 to 2^{max_log2_size} points, "
                f"not 2^{self.log2_size}"
            )
        if self.root is None:
            root_of_unity(self.modulus, self.family, self.log2_size)
        else:
            check_root(self.modulus, self.root, self.log2_size)
        if not self.device.host_memory:
            from quod.field.strategies.calibration import calibrate

            calibrate(self.device)

    @property
    def size(self) -> int:
        """The number of points of a transform."""
        return 1 << self.log2_size

    @property
    def generator(self) -> int:
        """The root of unity w whose powers are the points of the forward transform."""
        if self.root is not None:
            return self.root
        return root_of_unity(self.modulus, self.family, self.log2_size)

    def forward(
        self, data: Data, *, batch: int = 1, ordering: Ordering = "NN", coset: int | None = None
    ) -> None:
        """Evaluate polynomials in place: X[k] = sum of x[i] * (g * w**k)**i, with g = `coset` or 1.

        data: `batch` transforms of `size` consecutive elements in Montgomery form: uint32 of shape
            (batch * size, words), or another shape with as many words. Elements must be below p,
            which is not checked.
        coset: any integer, taken modulo p.

        Raises InputError for a wrong length or ordering, or a coset of zero; DeviceError if
        `peak_bytes` exceeds the device's memory budget, if a launch did not run on a CPU, or if no
        launch ran on a GPU. Results in device memory and of recordings are not checked.
        """
        batch, coset, shift = self._check_arguments(data, batch, ordering, coset)
        if self.log2_size == 0:
            return
        if not self.device.host_memory:
            self._run_on_gpu("forward", data, batch, ordering, coset, scaled=True)
            return
        with store_of(self.device).lock:
            if ordering == "NR":
                if shift != 1:
                    self._scale_by_powers(data, batch, 1, shift)
                self._decimate_in_frequency(data, batch, Domain(*self._domain, self.generator, 1))
                return
            domain = Domain(*self._domain, self.generator, shift)
            if ordering == "NN":
                self._reverse_bits(data, batch)
            self._decimate_in_time(data, batch, domain)
            if ordering == "RR":
                self._reverse_bits(data, batch)

    def inverse(
        self,
        data: Data,
        *,
        batch: int = 1,
        ordering: Ordering = "NN",
        coset: int | None = None,
        scaled: bool = True,
    ) -> None:
        """Interpolate in place: the inverse of `forward` with the same coset.

        ordering: order of the input and of the output, as for `forward`.
        scaled: if False, the result is `size` times too large, which saves a product per element.

        Raises the errors of `forward`.
        """
        batch, coset, shift = self._check_arguments(data, batch, ordering, coset)
        if self.log2_size == 0:
            return
        if not self.device.host_memory:
            self._run_on_gpu("inverse", data, batch, ordering, coset, scaled=scaled)
            return
        with store_of(self.device).lock:
            scale = pow(self.size, -1, self.modulus.value) if scaled else 1
            self._inverse(data, batch, ordering, shift, scale)

    def _inverse(self, data: Data, batch: int, ordering: Ordering, shift: int, scale: int) -> None:
        """Compute `inverse` on a CPU, times `scale`."""
        p = self.modulus.value
        root, inverse_shift = pow(self.generator, -1, p), pow(shift, -1, p)
        if ordering == "NR":
            domain = Domain(*self._domain, root, inverse_shift)
            self._decimate_in_frequency(data, batch, domain, scale)
            return
        domain = Domain(*self._domain, root, 1)
        pass_scale = scale if shift == 1 else 1
        if ordering == "NN":
            self._reverse_bits(data, batch)
        self._decimate_in_time(data, batch, domain, pass_scale)
        if shift != 1:
            self._scale_by_powers(data, batch, scale, inverse_shift)
        if ordering == "RR":
            self._reverse_bits(data, batch)

    def record(
        self,
        recording: RecordingStream,
        way: Way,
        data: Buffer,
        *,
        batch: int = 1,
        ordering: Ordering = "NN",
        coset: int | None = None,
        scaled: bool = True,
    ) -> None:
        """Record the launches of `forward` or `inverse` on a GPU.

        The recording keeps `data` and the tables alive. Raises the errors of `forward`, and
        DeviceError on a device that computes in host memory: call `forward` or `inverse` there.
        """
        batch, coset, shift = self._check_arguments(data, batch, ordering, coset)
        check_way(way)
        if self.device.host_memory:
            raise DeviceError(
                f"on {self.device.name} transforms are not recorded; call forward or inverse"
            )
        if self.log2_size == 0:
            return
        # Imported here, so that a process that only uses the CPU does not load the GPU's kernels.
        from quod.ntt.gpu.launches import record_transform, transform_of
        from quod.ntt.gpu.levels import record_levels, supports

        transform, permuted = transform_of(
            self.modulus, self.log2_size, self.generator, way == "inverse", ordering, shift, scaled
        )  # fmt: skip
        transform_bytes = self.size * self.modulus.bytes
        # The number of transforms whose data fits the largest buffer that a kernel can address.
        batch_limit = min(batch, self.device.largest_buffer // transform_bytes)
        for first_transform in range(0, batch, batch_limit):
            count = min(batch_limit, batch - first_transform)
            vectors = data.slice(
                first_transform * transform_bytes, (first_transform + count) * transform_bytes
            )
            label = f"NTT {way} {ordering}"
            if self.prefers_unscaled and permuted == "none" and supports(transform):
                record_levels(
                    recording, self.device, transform, vectors, batch=count, label=label
                )  # fmt: skip
            else:
                record_transform(
                    recording, self.device, transform, vectors, batch=count, permuted=permuted,
                    tuning=self._tuning, label=label,
                )  # fmt: skip

    @property
    def prefers_unscaled(self) -> bool:
        """True if recorded transforms with ``scaled=False`` compile faster than others.

        That is so on devices for few kernels, for transforms that permute no data.
        """
        from quod.ntt.gpu.levels import prefers_levels

        return prefers_levels(self.device)

    def peak_bytes(self, *, batch: int = 1, ordering: Ordering = "NN") -> int:
        """Return the bytes of tables and scratch that a transform needs in addition to its data.

        Each direction and coset has its own tables. The most recently used ones are cached until
        `release`. On a GPU the orderings NN and RR need a second buffer of the data's size.
        """
        batch = whole_number("batch", batch, 1)
        check_ordering(ordering)
        if self.log2_size == 0:
            return 0
        if not self.device.host_memory:
            from quod.ntt.gpu.launches import transform_bytes

            second_buffer_bytes = (
                (batch << self.log2_size) * self.modulus.bytes * (ordering in ("NN", "RR"))
            )
            bytes_by_passes = transform_bytes(
                self.device,
                self.modulus.bytes,
                self.log2_size,
                self._tuning,
                second_buffer_bytes=second_buffer_bytes,
            )
            # By levels, the table of twiddles has an entry for each point.
            return max(bytes_by_passes, self.prefers_unscaled * self.size * self.modulus.bytes)
        log_rows = self._log_rows(batch)
        tables = tables_bytes(self._cpu, self.modulus, log_rows)
        return tables + max(self._scratch_bytes(rows, batch) for rows in log_rows)

    def release(self) -> None:
        """Free the tables and scratch memory of all plans on the device, to be rebuilt at need."""
        store_of(self.device).release()

    # --- checks

    def _check_arguments(
        self, data: Data, batch: int, ordering: Ordering, coset: int | None
    ) -> tuple[int, int | None, int]:
        """Check the arguments; return batch and coset as int, and the coset's shift modulo p."""
        batch, coset = whole_number("batch", batch, 1), whole_number_or_none("coset", coset)
        check_ordering(ordering)
        check_data(data, self.modulus, self.log2_size, batch)
        description = f"a transform of 2^{self.log2_size} elements of {self.modulus.name}"
        check_reach(description, self.size * self.modulus.bytes, self.device.largest_buffer)
        needed_bytes = self.peak_bytes(batch=batch, ordering=ordering)
        if not self.device.host_memory and isinstance(data, np.ndarray):
            needed_bytes += data.nbytes
        self.device.check_budget(description, needed_bytes)
        shift = 1 if coset is None else coset % self.modulus.value
        if shift == 0:
            raise InputError("the shift of a coset must not be 0")
        return batch, coset, shift

    # --- on a GPU

    @property
    def _tuning(self) -> Tuning:
        from quod.ntt.gpu.schedule import tuning_of

        return self.tuning or tuning_of(self.device, self.modulus)

    def _run_on_gpu(
        self,
        way: Way,
        data: Data,
        batch: int,
        ordering: Ordering,
        coset: int | None,
        *,
        scaled: bool,
    ) -> None:
        buffer = self.device.upload(data) if isinstance(data, np.ndarray) else data
        recording = self.device.stream("NTT").record()
        self.record(
            recording, way, buffer, batch=batch, ordering=ordering, coset=coset, scaled=scaled
        )
        recording.finish().run()
        if isinstance(data, np.ndarray):
            from quod.ntt.sums import bring_back

            transforms = (
                host_bytes(data).view(np.uint32).reshape(batch, self.size, self.modulus.words)
            )
            bring_back(
                self.device, self.modulus, buffer, transforms, inverse=way == "inverse",
                ordering=ordering, coset=coset, scaled=scaled,
            )  # fmt: skip

    # --- passes on a CPU

    @property
    def _cpu(self) -> HostDevice:
        return cast(HostDevice, self.device)

    @property
    def _domain(self) -> tuple[Modulus, int]:
        return self.modulus, self.log2_size

    def _log_rows(self, batch: int) -> list[int]:
        return split(self.log2_size, wide=batch >= self._lanes)

    def _decimate_in_time(self, data: Data, batch: int, domain: Domain, scale: int = 1) -> None:
        """Run ascending passes: from bit-reversed to natural order."""
        log_rows = self._log_rows(batch)
        tables = tables_of(self._cpu, domain, log_rows, scale)
        passes = places_of(log_rows)
        for pass_place in passes:
            self._launch(
                "ascending", data, pass_place, tables, batch, last=pass_place is passes[-1]
            )

    def _decimate_in_frequency(
        self, data: Data, batch: int, domain: Domain, scale: int = 1
    ) -> None:
        """Run descending passes: from natural to bit-reversed order."""
        log_rows = self._log_rows(batch)
        tables = tables_of(self._cpu, domain, log_rows, scale)
        for pass_place in reversed(places_of(log_rows)):
            self._launch("descending", data, pass_place, tables, batch, last=pass_place.number == 0)

    def _launch(
        self,
        direction: Direction,
        data: Data,
        pass_place: PassPlace,
        tables: Tables,
        batch: int,
        *,
        last: bool,
    ) -> None:
        """Launch a pass; the last one also multiplies by the scale of `tables`."""
        columns = (batch * self.size) >> pass_place.log_rows
        is_static = self.log2_size >= STATIC_FROM and pass_place.log_rows >= _MIN_STATIC_LEVELS
        shape = PassShape(
            direction,
            pass_place.lanes(columns, self._lanes),
            trivial=tables.domain.shift == 1,
            scaled=last and tables.scale != 1,
            log_rows=pass_place.log_rows if is_static else None,
        )
        workgroups = self._groups(pass_place.log_rows, batch)
        scratch = store_of(self.device).scratch(self._scratch_bytes(pass_place.log_rows, batch))
        # In-place results do not show that the pass ran, but the first row of the last workgroup in
        # scratch memory does: no element has all bits set.
        start, row_bytes = (
            ((workgroups - 1) << pass_place.log_rows) * self._row_bytes,
            self._row_bytes,
        )
        row = scratch.view(np.uint8)[start : start + row_bytes]
        row.fill(0xFF)
        self.device.launch(
            self.device.compile(
                transform_pass, lanes=self._lanes, modulus=self.modulus, shape=shape
            ),
            workgroups, data, tables.twiddles[pass_place.number],
            tables.factors, scratch, columns, pass_place.log_rows, pass_place.log_stride,
        )  # fmt: skip
        if (row == 0xFF).all():
            check_canonical(self.modulus, host_bytes(data).view(np.uint32))
            raise not_written(self.device, "a transform")

    @property
    def _lanes(self) -> int:
        return lanes_of(self.device, self.modulus)

    def _groups(self, log_rows: int, batch: int) -> int:
        columns = (batch * self.size) >> log_rows
        return min(-(-columns // self._lanes), _GROUPS_PER_THREAD * self._cpu.threads)

    @property
    def _row_bytes(self) -> int:
        """Bytes of a row of scratch memory: one element of each lane."""
        return array_bytes(self._cpu, self.modulus, self._lanes)

    def _scratch_bytes(self, log_rows: int, batch: int) -> int:
        rows = self._groups(log_rows, batch) * self._lanes << log_rows
        return array_bytes(self._cpu, self.modulus, rows)

    # --- passes over the data outside of the transform

    def _scale_by_powers(self, data: Data, batch: int, first: int, base: int) -> None:
        lanes, total = self._lanes, batch * self.size
        # An element whose factor is not 1 shows whether the launch ran.
        index, factor = (0, first) if first != 1 else (1, base)
        factors = factors_by_squaring(self.modulus, first, base, lanes, self.log2_size)
        elements_per_lane = max(1, min(RUN, self.size // lanes))
        compiled = self.device.compile(scale_by_powers, lanes=lanes, modulus=self.modulus)
        with checked(
            self.device, multiplied(self.modulus, self._last_transform(data)[index], factor)
        ):
            self.device.launch(
                compiled,
                -(-total // (elements_per_lane * lanes)),
                data,
                factors,
                total,
                self.log2_size,
                elements_per_lane,
            )

    def _reverse_bits(self, data: Data, batch: int) -> None:
        lanes = self._lanes
        if self.log2_size < 2 * (lanes.bit_length() - 1):
            lanes = 1
        middle_bits = self.log2_size - 2 * (lanes.bit_length() - 1)
        compiled = self.device.compile(reverse_bits, lanes=lanes, words=self.modulus.words)
        workgroups, half_reversal = batch << middle_bits, _reversed_halves(middle_bits)
        last_transform = self._last_transform(data)
        # Bit reversal leaves all elements in place if there are only two.
        canaries = (
            exchanged(last_transform[1], last_transform[self.size // 2]) if self.size > 2 else []
        )
        with checked(self.device, canaries):
            self.device.launch(
                compiled, workgroups, data, half_reversal, self.log2_size, 1 << middle_bits
            )

    def _last_transform(self, data: Data) -> NDArray[np.uint32]:
        """Return a view of the last transform's elements."""
        words = host_bytes(data).view(np.uint32)
        transform: NDArray[np.uint32] = words.reshape(-1, self.size, self.modulus.words)[-1]
        return transform


@functools.cache
def _reversed_halves(middle_bits: int) -> NDArray[np.uint32]:
    return bit_reversal(middle_bits - (middle_bits >> 1))


def check_data(data: Data, modulus: Modulus, log2_size: int, batch: int) -> None:
    """Raise InputError unless the data holds `batch` transforms and is contiguous and writable."""
    if not isinstance(data, Buffer):
        plain_array("the data of a transform, where it is no buffer,", data)
    expected_bytes = (batch << log2_size) * modulus.bytes
    if data.nbytes != expected_bytes:
        raise InputError(
            f"{batch} x 2^{log2_size} elements of {modulus.name} take {expected_bytes} bytes, "
            f"but the data has {data.nbytes}"
        )
    if isinstance(data, np.ndarray) and not (data.flags.c_contiguous and data.flags.writeable):
        raise InputError("the data is transformed in place: it must be contiguous and writable")


def part_of(data: Data, start: int, stop: int) -> Buffer:
    """Return a buffer that shares bytes start to stop - 1 of the data."""
    buffer = Buffer.wrap(data) if isinstance(data, np.ndarray) else data
    return buffer.slice(start, stop)
