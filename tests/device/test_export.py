"""Kernels that a CPU may run with another workgroup size than the traced one."""

from __future__ import annotations

import pytest

from quod.codegen.wgsl.machine import PORTABLE
from quod.device.export.device import counts_instances
from quod.kernel import U32, Builder, KernelDefinition, Pointer, kernel, u32


@kernel
def plain(k: Builder, x: Pointer[U32]) -> None:
    i = k.global_id()
    x[i] = i + 1


@kernel
def nowhere(k: Builder, x: Pointer[U32]) -> None:
    x[0] = 1


@kernel
def own(k: Builder, x: Pointer[U32]) -> None:
    x[k.global_id()] = k.local_id()


@kernel
def grouped(k: Builder, x: Pointer[U32]) -> None:
    x[k.global_id()] = k.workgroup_id()


@kernel
def spread(k: Builder, x: Pointer[U32]) -> None:
    x[k.workgroup_id() * 7 + k.local_id()] = 1


@kernel
def counted(k: Builder, x: Pointer[U32]) -> None:
    x[k.global_id()] = k.num_workgroups()


@kernel
def sharing(k: Builder, x: Pointer[U32]) -> None:
    room = k.shared(u32, 4)
    room[0] = 1
    x[k.global_id()] = room[0]


@kernel
def agreeing(k: Builder, x: Pointer[U32]) -> None:
    x[k.global_id()] = k.uniform(x[0])


@pytest.mark.parametrize("definition", [plain, nowhere])
def test_kernel_that_needs_only_the_instance_count(definition: KernelDefinition) -> None:
    assert counts_instances(definition.trace(PORTABLE.machine(64)))


@pytest.mark.parametrize("definition", [own, grouped, spread, counted, sharing, agreeing])
def test_kernel_that_needs_more_than_the_instance_count(definition: KernelDefinition) -> None:
    assert not counts_instances(definition.trace(PORTABLE.machine(64)))
