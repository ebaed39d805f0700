"""Optional dependencies: no text names an installation that needs a release on a package index."""

from __future__ import annotations

import re
import subprocess
import tomllib
from pathlib import Path

from quod.extras import installation

REPOSITORY = Path(__file__).resolve().parents[1]
TEXTS = (
    "src", "docs", "deploy", "examples", "tools", "README.md", "SECURITY.md", "CONTRIBUTING.md",
    "constraints.txt",
)  # fmt: skip

# quod[wasm], and any command of pip that asks an index for Quod.
_FROM_AN_INDEX = re.compile(r"\bquod(?:-prove)?\[|pip install[^`\n]*[ '\"]quod\b")
_NAMED = re.compile(r"installation\(\s*['\"]([a-z]+)['\"]\s*\)")
_IN_A_COMMAND = re.compile(r"pip install[^`\n]*\.\[([a-z,]+)\]")
_OF_THE_TABLE = re.compile(r"^\| `([a-z]+)` \|", re.MULTILINE)


def texts() -> dict[str, str]:
    listed = subprocess.run(
        ["git", "ls-files", "-co", "--exclude-standard", *TEXTS],
        cwd=REPOSITORY, capture_output=True, text=True, check=True,
    ).stdout.splitlines()  # fmt: skip
    contents = {}
    for name in listed:
        path = REPOSITORY / name
        if path.suffix in {".md", ".py", ".txt", ".toml", ".service", ".sh", ".yaml", ""}:
            contents[name] = path.read_text(errors="replace")
    assert len(contents) > 500
    return contents


def extras() -> set[str]:
    project = tomllib.loads((REPOSITORY / "pyproject.toml").read_text())["project"]
    return set(project["optional-dependencies"])


def test_the_pattern_matches_installations_from_an_index() -> None:
    for text in ("needs `quod[wasm]`", "pip install 'quod[cuda]'", "pip install -c x.txt quod`"):
        assert _FROM_AN_INDEX.search(text)
    for text in ("pip install '.[wasm]' in a checkout", "pip install .", installation("wasm")):
        assert not _FROM_AN_INDEX.search(text)


def test_documentation_never_installs_quod_from_an_index() -> None:
    hits = [
        f"{name}: {line.strip()}"
        for name, text in texts().items()
        for line in text.splitlines()
        if _FROM_AN_INDEX.search(line)
    ]
    assert hits == [], "write `pip install '.[extra]'`, or call quod.extras.installation"


def test_documented_extras_exist() -> None:
    named = set()
    for text in texts().values():
        named |= set(_NAMED.findall(text))
        for listed in _IN_A_COMMAND.findall(text):
            named |= set(listed.split(","))
    assert {"wasm", "cuda", "service"} <= named <= extras()


def test_every_extra_is_documented() -> None:
    page = (REPOSITORY / "docs" / "cli.md").read_text()
    section = page.split("\n## Extras\n")[1].split("\n## ")[0]
    assert set(_OF_THE_TABLE.findall(section)) == extras() - {"dev"}
