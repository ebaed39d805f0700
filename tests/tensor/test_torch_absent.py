"""PyTorch is loaded by those who ask for it, and its absence is an error that says what to do."""

from __future__ import annotations

import subprocess
import sys

import pytest

from quod.errors import QuodError


def test_other_modules_do_not_import_pytorch() -> None:
    script = "import sys, quod.tensor as t; [getattr(t, n) for n in t.__all__]; print(*sys.modules)"
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=True
    )
    assert "quod.tensor.rows.functions" in done.stdout.split()
    assert "torch" not in done.stdout.split()


def test_missing_pytorch_is_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in [name for name in sys.modules if name.startswith("quod.tensor.torch")]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "torch", None)
    with pytest.raises(QuodError, match=r"pip install '\.\[torch\]'` in a checkout of Quod$"):
        import quod.tensor.torch  # noqa: F401
