"""Test parameters of Filecoin's circuits, kept in the cache of compiled kernels."""

from __future__ import annotations

from pathlib import Path

from quod.device.cache import sources
from quod.device.cache.cache import CompileCache, key_of
from quod.filecoin.parameters import ParameterSet, ProofKind, make_parameters
from quod.filecoin.sectors import sector_shape

WINDOW, WINNING, POREP, UPDATE = (
    ParameterSet(kind, sector_shape(2048))
    for kind in (ProofKind.WINDOW, ProofKind.WINNING, ProofKind.POREP, ProofKind.UPDATE)
)
SEED = 1


def write_parameters(parameters: ParameterSet, folder: Path) -> None:
    """Write the files of a set that `make_parameters` makes of the seed `SEED`."""
    cache = CompileCache()
    key = key_of("parameters of Filecoin", sources.digest(), parameters.name)
    names = [parameters.file_name(suffix) for suffix in ("params", "vk", "meta")]
    if (data := cache.get(key)) is not None:
        size = 868 + 96 * (parameters.public + 1)
        meta = data[data.rindex(b"{") :]
        contents = data[: len(data) - len(meta)], data[:size], meta
        for name, content in zip(names, contents, strict=True):
            (folder / name).write_bytes(content)
        return
    make_parameters(parameters, folder, SEED)
    if sources.are_unchanged():
        cache.put(key, (folder / names[0]).read_bytes() + (folder / names[2]).read_bytes())
