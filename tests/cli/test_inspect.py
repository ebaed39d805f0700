"""quod inspect shows hostile file contents safely."""

from __future__ import annotations

from pathlib import Path

import pytest

from quod.cli import entry
from tests.formats.gguf_files import gguf_file, text


def test_names_are_short_and_on_one_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """One long name would widen the column of every row."""
    names = [b"short", b"new\nline\x1b[31m", b"n" * 60_000]
    path = tmp_path / "m.gguf"
    tensors = [(name, (8,), 0, 32 * at) for at, name in enumerate(names)]
    pairs = [(name, 8, text(b"v")) for name in names]
    path.write_bytes(gguf_file(pairs, tensors, bytes(96)))
    assert entry.run(["inspect", str(path)]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert max(map(len, lines)) < 200
    assert sum("offset" in line and "type F32" in line for line in lines) == 3
    escaped = [line for line in lines if r"new\nline\x1b[31m " in line]
    assert len(escaped) == 2
    shown = [line for line in lines if line.endswith(" v")]
    assert len({len(line) for line in shown}) == 1, "values stand below each other"
