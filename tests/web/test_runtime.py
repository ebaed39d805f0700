"""The files of the runtime: types, sizes, stripping, the table of curves, and caches of sites."""

from __future__ import annotations

import os
import re
from pathlib import Path, PurePosixPath

import pytest

from quod.web.curve_table import render
from quod.web.runtime_text import (
    ACTION,
    GRAPH,
    MODULES,
    PAGE,
    runtime_files,
    source,
    stripped,
    stripped_css,
)
from tests.support.node import type_errors
from tests.web.runtime import RUNTIME, Node

pytestmark = pytest.mark.node


def test_types(tmp_path: Path) -> None:
    files = sorted([*RUNTIME.rglob("*.js"), *RUNTIME.glob("*.d.ts")])
    lib, types = ["webworker.importscripts"], ["@webgpu/types"]
    assert type_errors(files, tmp_path, lib=lib, types=types) == ""


def test_the_runtime_is_small() -> None:
    sizes = {name: len(content) for name, content in runtime_files(action=True).items()}
    page = sum(sizes[name] for name in (*MODULES, *PAGE))
    assert page <= 80_000, sizes
    assert sum(sizes[name] for name in MODULES) <= 59_000, sizes
    assert sum(sizes[name] for name in ACTION) <= 24_000, sizes
    assert set(runtime_files(page=False)) == {*MODULES, "quod.d.ts"}


_IMPORT = re.compile(r'(?:from |^import |import\()"(\.[^"]+)"', re.MULTILINE)


@pytest.mark.parametrize("names", [GRAPH, MODULES, (*MODULES, *ACTION, *PAGE)])
def test_modules_import_only_each_other(names: tuple[str, ...]) -> None:
    for name in names:
        if name.endswith(".js"):
            paths = [
                PurePosixPath("/", name).parent / path for path in _IMPORT.findall(source(name))
            ]
            imported = {os.path.normpath(path).lstrip("/") for path in paths}
            # Sites of an action load its modules when they run.
            assert imported - {"zcash/action.js"} <= {*names}, name


def test_runtime_folder_has_exactly_its_modules() -> None:
    files = {path.relative_to(RUNTIME).as_posix() for path in RUNTIME.rglob("*") if path.is_file()}
    assert files == {*MODULES, *ACTION, *PAGE, "quod.d.ts"}


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("/** a */ const a = 1; // b\nconst b = a + +a;\n", "const a=1;\nconst b=a+ +a;\n"),
        ('x = "a  // b" + `c  ${ f("/* d */") }  e`;', 'x="a  // b"+`c  ${ f("/* d */") }  e`;\n'),
        ("const r = /[/ ]+'/g.test( s );", "const r=/[/ ]+'/g.test(s);\n"),
        ("return a in b / c / d", "return a in b/c/d\n"),
        ("f(`${ `}` }  x`) ;", "f(`${ `}` }  x`);\n"),
        ("{\n  a();\n\n  // b\n}\nc()\nd()", "{a()}\nc()\nd()\n"),
        ('for (;;) { x = ";}" + `;}`; }', 'for(;;){x=";}"+`;}`}'),
    ],
)
def test_stripped_source_is_equivalent(text: str, expected: str) -> None:
    got = stripped(text)
    assert got.replace(";\n", ";").strip() == expected.replace(";\n", ";").strip()


def test_stripped_styles_are_equivalent() -> None:
    css = "/* a */\na:not(b), .c {\n  margin: 0 auto;\n  color: red !important; }\ntd + td { a: b }"
    assert stripped_css(css) == "a:not(b),.c{margin:0 auto;color:red !important}td + td{a:b}\n"


def test_curve_table_matches_the_named_curves() -> None:
    """To write it again: python -m quod.web.curve_table > src/quod/web/runtime/curves.js"""
    assert (RUNTIME / "curves.js").read_text() == render()


# --- what is kept for later

CACHES = """
    globalThis.caches = {
        held: new Map(given.held.map((key) => [key, new Map()])),
        async keys() { return [...this.held.keys()]; },
        async delete(key) { return this.held.delete(key); },
        async open(key) {
            if (!this.held.has(key)) this.held.set(key, new Map());
            const kept = this.held.get(key);
            return {
                match: async (request) => kept.get(request.url),
                put: async (request, answer) => void kept.set(request.url, answer),
            };
        },
    };
"""


def test_damaged_file_clears_only_this_sites_cache(node: Node) -> None:
    body = """
        const here = new URL("./", import.meta.url).href;
        const others = [`quod ${here}sub/ 1`, "quod https://other.example/ 1", "somebody else's"];
        given.held = [`quod ${here} 1`, ...others];
        CACHES
        const { checkedFile } = await import("./files.js");
        const table = { a: { bytes: 3, sha256: "00" } };
        const found = await tried(() => checkedFile(async () => new Uint8Array(3), table, "a"));
        return [found, (await caches.keys()).map((key) => key.replace(here, "HERE/"))];
    """.replace("CACHES", CACHES)
    error, remaining_caches = node(body, held=[])
    assert error[0] == "InputError"
    assert "damaged" in error[1]
    assert remaining_caches == [
        "quod HERE/sub/ 1",
        "quod https://other.example/ 1",
        "somebody else's",
    ]


def test_files_are_kept_under_the_name_of_the_site(node: Node) -> None:
    body = """
        const listeners = {};
        globalThis.addEventListener = (name, listener) => { listeners[name] = listener; };
        globalThis.registration = { scope: "https://here.example/site/" };
        globalThis.clients = { claim: async () => {} };
        let fetched = 0;
        globalThis.fetch = async () => (fetched++, new Response("new"));
        CACHES
        await import("./offline.js");
        let waited;
        listeners.activate({ waitUntil: (promise) => { waited = promise; } });
        await waited;
        const answers = [];
        for (const url of ["https://here.example/site/a", "https://here.example/site/a", "https://here.example/b"])
        {
            const respondWith = (answer) => answers.push(answer);
            listeners.fetch({ request: { method: "GET", url }, respondWith });
            await answers.at(-1);
            await new Promise((done) => setTimeout(done));
        }
        await Promise.all(answers);
        return [await caches.keys(), answers.length, fetched];
    """.replace("CACHES", CACHES)
    held = ["quod https://here.example/site/ old", "quod https://here.example/ 7", "mine"]
    keys, answered, fetched = node(body, held=held)
    assert keys == [
        "quod https://here.example/ 7",
        "mine",
        "quod https://here.example/site/ VERSION",
    ]
    assert (answered, fetched) == (2, 1)
