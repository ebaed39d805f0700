"""The runtime's JavaScript in Node."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterator
from typing import Any

import pytest

from quod.web.runtime_text import runtime_files
from tests.conftest import need
from tests.support.browser import Browser, why_no_browser
from tests.support.node import program
from tests.web.runtime import Node


@pytest.fixture(scope="module")
def node(tmp_path_factory: pytest.TempPathFactory) -> Node:
    """Runs the body of an async function with modules of the runtime, as sites get them."""
    program("snarkjs")  # Node is there where its programs are.
    folder = tmp_path_factory.mktemp("runtime")
    (folder / "package.json").write_text('{"type": "module"}')
    (folder / "zcash").mkdir()
    for name, content in runtime_files(action=True).items():
        (folder / name).write_bytes(content)

    def run(body: str, **inputs: Any) -> Any:
        text = f"""
            import * as curve from "./curve.js";
            import * as verify from "./verify.js";
            import * as witness from "./witness.js";
            import * as keys from "./keys.js";
            import * as witnessFile from "./witness_file.js";
            import * as errors from "./errors.js";
            import * as action from "./zcash/action.js";
            import * as blake2 from "./zcash/blake2.js";
            import * as jubjub from "./zcash/jubjub.js";
            import fs from "node:fs";
            const given = JSON.parse(fs.readFileSync(0, "utf8"));
            const tried = async (f) => {{
                try {{ return ["ok", await f()]; }} catch (e) {{ return [e.name, e.message]; }}
            }};
            const answer = await (async () => {{ {body} }})();
            const plain = (_, v) => typeof v === "bigint" ? String(v) : v;
            process.stdout.write(JSON.stringify(answer, plain));
        """
        (folder / "main.js").write_text(text)
        done = subprocess.run(
            ["node", "main.js"], cwd=folder, input=json.dumps(inputs), capture_output=True,
            text=True, timeout=300, check=False,
        )  # fmt: skip
        assert done.returncode == 0, done.stderr
        return json.loads(done.stdout)

    return run


@pytest.fixture(scope="module")
def blind() -> Iterator[Browser]:
    """A browser with no GPU that it could use."""
    need(why_no_browser(), "QUOD_TEST_BROWSER")
    with Browser(webgpu=False) as browser_without_gpu:
        yield browser_without_gpu
