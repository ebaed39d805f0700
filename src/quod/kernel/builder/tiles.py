"""The ops of a builder for tiles in shared memory, and products of them."""

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
    """An array of 16-bit elements in global memory that tiles are copied from.

    It has `planes` planes of `height` lines of `length` elements, all one after the other; lines
    begin at multiples of 16 bytes. `tensor_map` says the same to the copying unit: see
    `quod.device.memory.tensor_map`.
    """

    source: Value
    tensor_map: Value
    length: Value
    height: Value
    planes: Value


class TileOperand(NamedTuple):
    """Where a product finds a matrix in shared memory: in a tile, from a word on.

    Lines are along K, or along the other axis; then `apart` words are from 64 of it to the next 64.
    """

    pointer: Value
    first: Value
    along: bool = False
    apart: int = 0


def product_name(element: Type, other: Type | None) -> str:
    """How products of an element by the `other`, or by itself, are named."""
    if other is None or other is element:
        return element.name
    check_type(other)
    return f"{element}_{other}"


def _check_list(name: str, given: object, count: int | None = None, of: str = "values") -> None:
    """TraceError unless it is a list or tuple, of `count` items if that is said."""
    if not isinstance(given, (list, tuple)):
        raise TraceError(f"{name} must be a list or tuple of {of}, not {an(type(given).__name__)}")
    if count is not None and len(given) != count:
        raise TraceError(f"{name} must be {of}, {count} in all, not {len(given)}")


def _check_tile(given: object) -> None:
    instance("a matrix in shared memory", given, TileOperand, "make one", error=TraceError)


class TileBuilder(MemoryBuilder):
    """What a kernel's Python function asks of the copying unit and of the tensor cores."""

    def cluster(self, workgroups: int) -> None:
        """Makes clusters of so many workgroups that follow each other: 1, 2, 4 or 8.

        They run at the same time. For machines with the capability ``tile_copies``.
        """
        count = whole_number("a cluster", workgroups, 1, max(CLUSTERS), error=TraceError)
        if count not in CLUSTERS:
            raise TraceError(f"a cluster has 1, 2, 4 or 8 workgroups, not {count}")
        self._tracer.cluster = count

    def cluster_rank(self) -> Value:
        """Index of this workgroup in its cluster."""
        return self._tracer.record_pure("cluster_rank", (), (types.u32,))[0]

    def cluster_barrier(self, *, memory: bool = True) -> None:
        """Waits until every instance of the cluster is here; legal where all of them come.

        Without `memory` it orders what tiles and products did with shared memory, and no loads and
        stores of instances.
        """
        memory = flag("memory", memory, error=TraceError)
        self._tracer.record("cluster_barrier", (), (), {"memory": memory})

    def mbarrier_init(self, pointer: Value, index: Operand, count: int = 1) -> None:
        """Makes pointer[index], a u64 in shared memory, an mbarrier for `copy_tile` and for roles.

        A phase of it has `count` arrivals: one an `mbarrier_expect`, and one a subgroup that comes
        to `mbarrier_arrive`. Others may use it after a barrier, those of other workgroups after one
        of the cluster.
        """
        count = whole_number("the arrivals of an mbarrier", count, 1, error=TraceError)
        if count not in MBARRIER_COUNTS:
            raise TraceError(f"an mbarrier has 1 to {MBARRIER_COUNTS[-1]} arrivals, not {count}")
        self._mbarrier("mbarrier_init", pointer, index, attributes={"count": count})

    def mbarrier_expect(self, pointer: Value, index: Operand, count: Operand) -> None:
        """Says how many bytes come in this phase of an mbarrier, which ends once they are there."""
        self._mbarrier("mbarrier_expect", pointer, index, count)

    def mbarrier_arrive(self, pointer: Value, index: Operand) -> None:
        """Arrives at an mbarrier, once for each subgroup that comes here, and goes on.

        Those who wait for the phase know of what this subgroup did before. Of the mbarriers of one
        array the verifier counts who arrives; see `quod.kernel.verifier.role_tiles`.
        """
        self._mbarrier("mbarrier_arrive", pointer, index)

    def mbarrier_wait(self, pointer: Value, index: Operand, phase: Operand) -> None:
        """Waits until a phase of an mbarrier has ended, counted from 0, modulo 2."""
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
        """Makes a tensor map in global memory known to `copy_tile`, once, before all copies."""
        check_value(tensor_map, "tensor_map_acquire")
        self._tracer.record("tensor_map_acquire", (tensor_map,), ())

    def copy_tile(
        self, shared: Value, to: Operand, mbarrier: tuple[Value, Operand], array: TiledArray,
        start: tuple[Operand, Operand, Operand], lines: int, *, multicast: bool = False,
    ) -> None:  # fmt: skip
        """Begins to copy `lines` lines of 64 elements from the element, line and plane of `start`.

        They come to shared[to], of u32, as lines of 128 bytes, in each of which the 16 bytes of
        place j are at place j xor (line % 8), and count for an mbarrier; beyond the array there are
        zeros. With `multicast` they come to each workgroup of the cluster. Legal where all
        instances of the workgroup come; for machines with the capability ``tile_copies``.
        """
        lines = whole_number("the lines of a tile", lines, 8, 256, error=TraceError)
        multicast = flag("multicast", multicast, error=TraceError)
        instance("an array of tiles", array, TiledArray, "make one", error=TraceError)
        _check_list("an mbarrier", mbarrier, 2, "a pointer and an index")
        _check_list("the start of a tile", start, 3, "an element, a line and a plane")
        places = [self.operand(item, types.u32) for item in (to, mbarrier[1], *start)]
        operands = (
            shared, places[0], mbarrier[0], places[1], array.tensor_map,
            self.cast(array.source, types.u32), array.length, array.height, array.planes,
            *places[2:],
        )  # fmt: skip
        for operand in operands:
            check_value(operand, "copy_tile")
        attributes = {"lines": lines, "multicast": multicast}
        self._tracer.record("copy_tile", operands, (), attributes)

    def mma_begin(self) -> None:
        """Comes before products after anything else was done with their sums."""
        self._tracer.record("mma_begin", (), ())

    def mma_tiles(
        self, element: Type, a: TileOperand, b: TileOperand, sums: Sequence[Value], *,
        other: Type | None = None,
    ) -> tuple[Value, ...]:  # fmt: skip
        """Begins to add A B to sums, of which each instance of four subgroups has n/2.

        A is 64 by 16 and B 16 by n, of f16 or bf16. Where lines are along K they may also be of i8,
        64 by 32 and 32 by n, with sums of i32, of e4m3 and e5m2, of the same shapes, of which
        `other` is the element of B where it is not that of A, or of f32, 64 by 8 and 8 by n,
        rounded toward zero to 10 bits behind the point (tf32). Which sums an instance has the op
        says. They take the place of `sums`, which nothing else uses, and only further products and
        `mma_wait` take them. For machines with the capability ``warpgroups``.
        """
        check_type(element)
        product = product_name(element, other)
        if product not in IN_TILES:
            raise TraceError(
                "k.mma_tiles multiplies f16, bf16, f32, i8, and e4m3 or e5m2 by either, not "
                f"{product}"
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
        """The same with A in registers, four words of two elements each; see the op."""
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
        """Makes one group of the products begun since the last group."""
        self._tracer.record("mma_commit", (), ())

    def mma_wait(self, pending: int = 0, sums: Sequence[Value] = ()) -> tuple[Value, ...]:
        """Waits for all groups of products but the last `pending`; gives the sums.

        Sums are of groups that it waits for.
        """
        pending = whole_number("pending", pending, 0, 7, error=TraceError)
        _check_list("sums", sums)
        for value in sums:
            check_value(value, "mma_wait")
        kinds = [value.type for value in sums]
        return self._tracer.record("mma_wait", tuple(sums), kinds, {"pending": pending})
