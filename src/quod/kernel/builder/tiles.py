"""The ops of a builder that copy tiles to shared memory and multiply them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from quod.kernel.builder.memory import MemoryBuilder, check_type, check_value
from quod.kernel.errors import TraceError, an
from quod.kernel.ir import types
from quod.kernel.ir.types import Type
from quod.kernel.ir.value import Operand, Value
from quod.kernel.ops.tile import CLUSTERS, IN_TILES, MBARRIER_COUNTS
from quod.validation import flag, instance, whole_number


class TiledArray(NamedTuple):
    """A contiguous array of 16-bit elements in global memory, the source of tile copies.

    The array has `planes` planes of `height` lines of `length` elements; lines begin at multiples
    of 16 bytes. `tensor_map` describes the same array to the copy engine: see
    `quod.device.memory.tensor_map`.
    """

    source: Value
    tensor_map: Value
    length: Value
    height: Value
    planes: Value


class TileOperand(NamedTuple):
    """A matrix operand of a product: a tile in shared memory.

    pointer, first: a pointer to u32, and the index of the word at which the matrix begins.
    along: False if lines run along K, True if along the other axis.
    apart: with `along`, the words between consecutive blocks of 64 elements on that axis.
    """

    pointer: Value
    first: Value
    along: bool = False
    apart: int = 0


def product_name(element: Type, other: Type | None) -> str:
    """Return the name of products with these element types of A and B.

    other: element type of B, by default `element`.
    """
    if other is None or other is element:
        return element.name
    check_type(other)
    return f"{element}_{other}"


def _check_list(name: str, items: object, count: int | None = None, kind: str = "values") -> None:
    """Raise TraceError unless an argument is a list or tuple, of `count` items if given."""
    if not isinstance(items, (list, tuple)):
        raise TraceError(
            f"{name} must be a list or tuple of {kind}, not {an(type(items).__name__)}"
        )
    if count is not None and len(items) != count:
        raise TraceError(f"{name} must be {kind}, {count} in all, not {len(items)}")


def _check_tile(matrix: object) -> None:
    instance("a matrix in shared memory", matrix, TileOperand, "make one", error=TraceError)


class TileBuilder(MemoryBuilder):
    """The part of a builder that records tile copies and asynchronous products."""

    def cluster(self, workgroups: int) -> None:
        """Group consecutive workgroups into clusters of 1, 2, 4 or 8.

        The workgroups of a cluster run concurrently. Requires the capability ``tile_copies``.
        """
        count = whole_number("a cluster", workgroups, 1, max(CLUSTERS), error=TraceError)
        if count not in CLUSTERS:
            raise TraceError(f"a cluster has 1, 2, 4 or 8 workgroups, not {count}")
        self._tracer.cluster = count

    def cluster_rank(self) -> Value:
        """Return the index of this workgroup in its cluster."""
        return self._tracer.record("cluster_rank", (), (types.u32,), shared=True)[0]

    def cluster_barrier(self, *, memory: bool = True) -> None:
        """Wait for all instances of the cluster; legal where all of them reach it.

        With ``memory=False`` it orders only the accesses of tile copies and products to shared
        memory, not loads and stores.
        """
        memory = flag("memory", memory, error=TraceError)
        self._tracer.record("cluster_barrier", (), (), {"memory": memory})

    def mbarrier_init(self, pointer: Value, index: Operand, count: int = 1) -> None:
        """Initialise pointer[index], a u64 in shared memory, as an mbarrier.

        A phase has `count` arrivals: one per `mbarrier_expect`, and one per subgroup that executes
        `mbarrier_arrive`. Other instances may use it after a barrier; other workgroups of the
        cluster, after a cluster barrier.
        """
        count = whole_number("the arrivals of an mbarrier", count, 1, error=TraceError)
        if count not in MBARRIER_COUNTS:
            raise TraceError(f"an mbarrier has 1 to {MBARRIER_COUNTS[-1]} arrivals, not {count}")
        self._mbarrier("mbarrier_init", pointer, index, attributes={"count": count})

    def mbarrier_expect(self, pointer: Value, index: Operand, count: Operand) -> None:
        """Arrive at an mbarrier and set the bytes that this phase expects before it ends."""
        self._mbarrier("mbarrier_expect", pointer, index, count)

    def mbarrier_arrive(self, pointer: Value, index: Operand) -> None:
        """Arrive at an mbarrier, once per subgroup, without waiting.

        Instances that wait for the phase see this subgroup's earlier accesses. The verifier counts
        the arrivals per array of mbarriers; see `quod.kernel.verifier.role_tiles`.
        """
        self._mbarrier("mbarrier_arrive", pointer, index)

    def mbarrier_wait(self, pointer: Value, index: Operand, phase: Operand) -> None:
        """Wait for the end of an mbarrier's phase, given by its parity (phases count from 0)."""
        self._mbarrier("mbarrier_wait", pointer, index, phase)

    def _mbarrier(
        self,
        name: str,
        pointer: Value,
        *operands: Operand,
        attributes: dict[str, Any] | None = None,
    ) -> None:
        check_value(pointer, name)
        numbers = [self.operand(item, types.u32) for item in operands]
        self._tracer.record(name, (pointer, *numbers), (), attributes)

    def tensor_map_acquire(self, tensor_map: Value) -> None:
        """Acquire a tensor map in global memory, once, before any `copy_tile` that uses it."""
        check_value(tensor_map, "tensor_map_acquire")
        self._tracer.record("tensor_map_acquire", (tensor_map,), ())

    def copy_tile(
        self, shared: Value, to: Operand, mbarrier: tuple[Value, Operand], array: TiledArray,
        start: tuple[Operand, Operand, Operand], lines: int, *, multicast: bool = False,
    ) -> None:  # fmt: skip
        """Start a copy of `lines` lines of 64 elements from the element, line and plane of `start`.

        The tile is written to shared[to], of u32, as lines of 128 bytes in which 16-byte chunk j is
        stored at chunk j xor (line % 8). Elements outside the array are zero. The mbarrier counts
        the bytes. With `multicast` each workgroup of the cluster gets the tile. Legal where all
        instances of the workgroup reach it; requires the capability ``tile_copies``.
        """
        lines = whole_number("the lines of a tile", lines, 8, 256, error=TraceError)
        multicast = flag("multicast", multicast, error=TraceError)
        instance("an array of tiles", array, TiledArray, "make one", error=TraceError)
        _check_list("an mbarrier", mbarrier, 2, "a pointer and an index")
        _check_list("the start of a tile", start, 3, "an element, a line and a plane")
        indices = [self.operand(item, types.u32) for item in (to, mbarrier[1], *start)]
        operands = (
            shared, indices[0], mbarrier[0], indices[1], array.tensor_map,
            self.cast(array.source, types.u32), array.length, array.height, array.planes,
            *indices[2:],
        )  # fmt: skip
        for operand in operands:
            check_value(operand, "copy_tile")
        attributes = {"lines": lines, "multicast": multicast}
        self._tracer.record("copy_tile", operands, (), attributes)

    def mma_begin(self) -> None:
        """Order earlier accesses to accumulators before the products that follow (wgmma.fence)."""
        self._tracer.record("mma_begin", (), ())

    def mma_tiles(
        self, element: Type, a: TileOperand, b: TileOperand, sums: Sequence[Value], *,
        other: Type | None = None,
    ) -> tuple[Value, ...]:  # fmt: skip
        """Start adding A B, of 64 by n elements, to accumulators: n/2 per instance of a warpgroup.

        Shapes are 64 by 16 and 16 by n for f16 and bf16; 64 by 32 and 32 by n for i8 (sums of i32)
        and for e4m3 and e5m2, where `other` is the type of B if it differs; 64 by 8 and 8 by n for
        f32, truncated to 10 mantissa bits (tf32). Types other than f16 and bf16 need lines along K.
        The op ``mma_tiles`` defines the layout of the sums. The results replace `sums`, which
        nothing else may use; only further products and `mma_wait` may take the results. Requires
        the capability ``warpgroups``.
        """
        check_type(element)
        product = product_name(element, other)
        if product not in IN_TILES:
            raise TraceError(
                "k.mma_tiles multiplies f16, bf16, f32, i8, e4m3 or e5m2 by the same type, or e4m3 "
                f"by e5m2 in either order, not {product}"
            )
        for tile in (a, b):
            _check_tile(tile)
        _check_list("sums", sums)
        operands = (
            a.pointer, self.operand(a.first, types.u32), b.pointer,
            self.operand(b.first, types.u32), *sums,
        )  # fmt: skip
        for operand in operands:
            check_value(operand, "mma_tiles")
        attributes = {
            "element": product, "a_along": a.along, "a_apart": a.apart, "b_along": b.along,
            "b_apart": b.apart,
        }  # fmt: skip
        results = [types.i32 if element is types.i8 else types.f32] * len(sums)
        return self._tracer.record("mma_tiles", operands, results, attributes)

    def mma_rows(
        self, element: Type, a: Sequence[Value], b: TileOperand, sums: Sequence[Value]
    ) -> tuple[Value, ...]:
        """Start adding A B as `mma_tiles` does, with A in four registers of two elements each."""
        check_type(element)
        if element not in types.HALVES:
            raise TraceError(f"k.mma_rows multiplies f16 and bf16, not {element}")
        _check_list("a", a, 4, "words of two elements")
        _check_tile(b)
        _check_list("sums", sums)
        operands = (*a, b.pointer, self.operand(b.first, types.u32), *sums)
        for operand in operands:
            check_value(operand, "mma_rows")
        attributes = {"element": element.name, "b_along": b.along, "b_apart": b.apart}
        results = [types.f32] * len(sums)
        return self._tracer.record("mma_rows", operands, results, attributes)

    def mma_commit(self) -> None:
        """Commit the products started since the last commit as one group."""
        self._tracer.record("mma_commit", (), ())

    def mma_wait(self, pending: int = 0, sums: Sequence[Value] = ()) -> tuple[Value, ...]:
        """Wait for all groups of products but the last `pending`; return the finished `sums`.

        The sums must belong to groups that this waits for.
        """
        pending = whole_number("pending", pending, 0, 7, error=TraceError)
        _check_list("sums", sums)
        for value in sums:
            check_value(value, "mma_wait")
        kinds = [value.type for value in sums]
        return self._tracer.record("mma_wait", tuple(sums), kinds, {"pending": pending})
