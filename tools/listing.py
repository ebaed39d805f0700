"""Print a registered kernel's Python lines next to the IR and the PTX generated from them.

python -m tools.listing NAME
"""

from __future__ import annotations

import argparse
import sys

from quod.catalogue import find
from quod.codegen.listing import side_by_side
from quod.codegen.ptx.machine import ptx_machine


def main() -> None:
    """Print the table of one kernel."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("name", help="a name that `quod kernel list` shows")
    machine = ptx_machine()
    kernel = find(parser.parse_args().name)
    sys.stdout.write(side_by_side(kernel.trace(machine), machine))


if __name__ == "__main__":
    main()
