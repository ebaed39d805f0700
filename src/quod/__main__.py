"""``python -m quod`` is the quod command."""

from __future__ import annotations

from quod.cli import main

if __name__ == "__main__":
    main()
