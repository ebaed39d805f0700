"""Write the recorded files: `python -m tests.recorded.make [CASE ... | names]`.

A recorded file is only ever replaced together with the version that its format or protocol states.
"""

from __future__ import annotations

import json
import sys

from tests.recorded.cases import CASES, RECORDED
from tests.recorded.names import names

if __name__ == "__main__":
    if sys.argv[1:] in ([], ["names"]):
        (RECORDED / "names.json").write_text(json.dumps(names(), indent=1) + "\n")
    for name in sys.argv[1:] or CASES:
        if name == "names":
            continue
        folder = RECORDED / name
        folder.mkdir(parents=True, exist_ok=True)
        CASES[name].write(folder)
        CASES[name].check(folder)
        print(name, *(f"{path.name}:{path.stat().st_size}" for path in sorted(folder.iterdir())))
