"""Compilation of kernels to WGSL and pipelines: text first, pipelines in the background.

The WGSL comes from Quod's cache or is traced. The driver caches the machine code, to which WebGPU
gives no access.
"""

from __future__ import annotations

import json
import re
import threading
from collections.abc import Callable, Mapping
from typing import Any

from quod.codegen.pointers import PointerUses, pointer_uses
from quod.codegen.wgsl.module import Binding, Dialect, Field, WgslModule
from quod.device.cache import sources
from quod.device.cache.cache import CompileCache, key_of
from quod.device.cache.compiled_code import trace_key
from quod.device.runtime.background import Background
from quod.device.runtime.future import Dropped, Outcome
from quod.device.webgpu.native import Native, WebGpuError
from quod.errors import DeviceError, KernelError
from quod.frozen import frozen
from quod.kernel.definition import KernelDefinition
from quod.kernel.ir import types
from quod.kernel.ir.nodes import Kernel
from quod.kernel.ir.types import Type
from quod.kernel.machine import Machine

DIALECT: Dialect = "naga"
_TYPES: dict[str, Type] = {
    type_.name: type_
    for type_ in (types.bool_, types.u32, types.i32, types.u64, types.i64, types.f32)
}
_LINE = re.compile(r"wgsl:(\d+):|┌─ [^:]*:(\d+):")


@frozen
class KernelText:
    """The WGSL of a kernel, and the pointers through which the kernel stores."""

    uses: PointerUses
    module: WgslModule

    def pack(self) -> bytes:
        """Serialise for the cache, without the Python lines of the text."""
        module = self.module
        return json.dumps(
            {
                "stored": self.uses.stored,
                "atomic": self.uses.atomic,
                "text": module.text,
                "entry": module.entry,
                "workgroup_size": module.workgroup_size,
                "bindings": [[row.number, row.offset] for row in module.bindings],
                "storage": module.storage,
                "parameter_words": module.parameter_words,
                "fields": [
                    [field.kind, field.parameter, field.word, field.type.name]
                    for field in module.fields
                ],
            }
        ).encode()

    @classmethod
    def unpack(cls, data: bytes) -> KernelText:
        """Decode the bytes of `pack`; raise ValueError for others."""
        try:
            return cls._decode(json.loads(data))
        except (KeyError, TypeError, RecursionError) as error:  # valid JSON of another form
            raise ValueError("no text of a kernel") from error

    @classmethod
    def _decode(cls, document: Any) -> KernelText:
        module = WgslModule(
            document["text"], document["entry"], document["workgroup_size"],
            tuple(Binding(number, offset) for number, offset in document["bindings"]),
            document["storage"], document["parameter_words"],
            tuple(
                Field(kind, parameter, word, _TYPES[name])
                for kind, parameter, word, name in document["fields"]
            ),
            DIALECT, (),
        )  # fmt: skip
        return cls(PointerUses(tuple(document["stored"]), tuple(document["atomic"])), module)


class KernelSource:
    """The source of a kernel's WGSL texts, one for each choice of bindings."""

    def __init__(
        self, definition: KernelDefinition, machine: Machine, static: Mapping[str, Any],
        cache: CompileCache,
    ) -> None:  # fmt: skip
        self.definition = definition
        self.machine = machine
        self.static = dict(static)
        self._cache = cache
        self._key = trace_key(definition, machine, static, f"wgsl {DIALECT}")
        self._traced: Kernel | None = None
        self._lock = threading.Lock()

    def text(self, bindings: tuple[Binding, ...] | None = None) -> KernelText:
        """Return the text with these bindings; raises KernelError if the kernel is invalid."""
        key = None if self._key is None else key_of("wgsl", self._key, repr(bindings))
        cached_text = None if key is None else self._cache.get(key)
        if cached_text is not None:
            try:
                return KernelText.unpack(cached_text)
            except ValueError:
                pass
        traced = self._trace()
        from quod.codegen.wgsl import emitter as wgsl

        text = KernelText(
            pointer_uses(traced),
            wgsl.translate(traced, self.machine, dialect=DIALECT, bindings=bindings),
        )
        if key is not None and sources.are_unchanged():
            self._cache.put(key, text.pack())
        return text

    def _trace(self) -> Kernel:
        with self._lock:
            if self._traced is None:
                self._traced = self.definition.trace(self.machine, **self.static)
            return self._traced

    def __str__(self) -> str:
        return f"{self.definition.name} ({self.definition.location})"


class PipelineCompiler:
    """Compiles pipelines on its own threads, and holds the layouts that they share."""

    def __init__(
        self, native: Native, device: Any, cache: CompileCache, threads: int, *, checked: bool
    ) -> None:
        self._native = native
        self._device = device
        self._cache = cache
        self._checked = checked
        self._background = Background("quod-pipeline", threads)
        self._lock = threading.Lock()
        self._layouts: dict[int, tuple[Any, Any]] = {}
        self._watch: Any = None

    def layout(self, storage: int) -> tuple[Any, Any]:
        """Return the layouts of bind group and pipeline for a number of storage bindings."""
        with self._lock:
            layouts = self._layouts.get(storage)
            if layouts is None:
                layouts = self._layouts[storage] = self._make_layout(storage)
            return layouts

    def watch(self, state: Any, nbytes: int) -> Any:
        """Let kernels compiled from now on report ended loops in `state`.

        Returns the bind group for launches of these kernels.
        """
        visibility = self._native.wgpu.ShaderStage.COMPUTE
        entry = {"binding": 0, "visibility": visibility, "buffer": {"type": "storage"}}
        resource = {"buffer": state, "offset": 0, "size": nbytes}
        with self._lock, self._native.errors():
            self._layouts.clear()
            self._watch = self._device.create_bind_group_layout(entries=[entry])
            return self._device.create_bind_group(
                layout=self._watch, entries=[{"binding": 0, "resource": resource}]
            )

    def _make_layout(self, storage: int) -> tuple[Any, Any]:
        compute = self._native.wgpu.ShaderStage.COMPUTE
        rows = [
            {
                "binding": 0,
                "visibility": compute,
                "buffer": {"type": "uniform", "has_dynamic_offset": True},
            }
        ]
        rows += [
            {"binding": number + 1, "visibility": compute, "buffer": {"type": "storage"}}
            for number in range(storage)
        ]
        with self._native.errors():
            group = self._device.create_bind_group_layout(entries=rows)
            groups = [group] if self._watch is None else [group, self._watch]
            return group, self._device.create_pipeline_layout(bind_group_layouts=groups)

    def compile(self, name: str, text: str, storage: int, entry: str = "main") -> Any:
        """Compile a pipeline now; raises WebGpuError if the driver refuses the text."""
        _, layout = self.layout(storage)
        with self._native.errors():
            module = self._native.shader_module(self._device, name, text, checked=self._checked)
            return self._device.create_compute_pipeline(
                label=name, layout=layout, compute={"module": module, "entry_point": entry}
            )

    def begin(self, source: KernelSource, module: WgslModule) -> Callable[[], Any]:
        """Compile a pipeline in the background; return a function that waits for it.

        That function raises KernelError if the driver refuses the kernel.
        """

        def build() -> Any:
            try:
                return self.compile(
                    source.definition.name, module.text, module.storage, module.entry
                )
            except WebGpuError as error:
                if error.is_lost or error.is_out_of_memory:
                    raise
                raise self._refusal(source, module, error) from error

        future: Outcome[Any] = self._background.begin(build)

        def result() -> Any:
            try:
                return future.result()
            except Dropped as error:
                raise DeviceError(
                    f"kernel {source} was not compiled because its device was closed"
                ) from error

        return result

    def _refusal(self, source: KernelSource, module: WgslModule, error: WebGpuError) -> KernelError:
        name = f"{source.definition.name}-{key_of('wgsl', module.text)[:12]}.wgsl"
        text_path = self._cache.keep_text(name, module.text)
        location = "" if text_path is None else f"; the WGSL is in {text_path}"
        match = _LINE.search(str(error.__cause__))
        line = module.source_of(int(match.group(1) or match.group(2))) if match else None
        origin = "" if line is None else f" ({line})"
        return KernelError(
            f"kernel {source}: the driver rejects the WGSL: {error}{origin}{location}"
        )

    def close(self) -> None:
        """Wait for started compilations; drop the others."""
        self._background.close()
