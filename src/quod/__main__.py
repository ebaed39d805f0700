"""The quod command as ``python -m quod``."""

from __future__ import annotations

from quod.cli import main

if __name__ == "__main__":
    main()
