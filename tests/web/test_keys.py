"""The loading of keys in pieces: damaged and partial pieces, and the browser's storage."""

from __future__ import annotations

import base64
import hashlib
import itertools
from typing import Any

import numpy as np
import pytest

from quod.device.export.device import ExportDevice
from quod.web.data_files import DataFiles
from tests.web.runtime import Node

pytestmark = pytest.mark.node

PIECES = {
    "data-000.bin": b"first piece",
    "data-001.bin": b"second piece",
    "data-002.bin": b"x" * 99,
}
DIGESTS = {name: hashlib.sha256(content).hexdigest() for name, content in PIECES.items()}
TABLE = {name: {"bytes": len(content), "sha256": DIGESTS[name]} for name, content in PIECES.items()}

# A storage of pages that holds `room` bytes, and a site whose answers are listed by file.
LOAD = """
    const { pieces, table, stored, room, refused, answers } = given;
    const held = new Map(Object.entries(stored).map(([name, text]) => [name, Buffer.from(text)]));
    const named = (name) => Object.assign(new Error(`${name} happened`), { name });
    const folder = {
        getDirectoryHandle: async () => folder,
        async getFileHandle(name, { create } = {}) {
            if (!held.has(name) && !create) throw named("NotFoundError");
            let parts = [];
            return {
                getFile: async () => new Blob([held.get(name)]),
                createWritable: async () => ({
                    write: async (bytes) => parts.push(bytes),
                    async close() {
                        const content = Buffer.concat(parts);
                        const total = [...held.values()].reduce((sum, b) => sum + b.length, 0);
                        if (total + content.length > room) throw named("QuotaExceededError");
                        held.set(name, content);
                    },
                }),
            };
        },
        removeEntry: async (name) => void held.delete(name),
        async *keys() { yield* [...held.keys()]; },
    };
    const storage = { getDirectory: async () => {
        if (refused) throw named(refused);
        return folder;
    } };
    Object.defineProperty(globalThis, "navigator", { value: { storage }, configurable: true });
    const requests = [];
    const read = async (name, onBytes, afresh) => {
        requests.push([name, Boolean(afresh)]);
        const answer = answers[name]?.shift() ?? pieces[name];
        onBytes(answer.length);
        if (answer === "stops") throw new errors.InputError(`the download of ${name} stopped`);
        return new Uint8Array(Buffer.from(answer));
    };
    const notices = [];
    const site = new URL("https://a.example/b/");
    let done = 0;
    const reader = new keys.PieceReader(read, table, {
        site, onBytes: (count) => { done += count; }, onNotice: (notice) => notices.push(notice),
    });
    const ranges = Object.values(pieces).map(
        (text, i) => ({ buffer: i, offset: 0, bytes: text.length }));
    const written = ranges.map(() => "");
    const outcome = await tried(() => keys.loadConstants(
        reader, { parts: Object.keys(pieces), ranges },
        ({ buffer }, _, bytes) => { written[buffer] += Buffer.from(bytes).toString(); }));
    return { outcome, written, requests, notices, done, held: [...held.keys()] };
"""


def load(
    node: Node, *, stored: dict[str, str] | None = None, room: int = 1 << 20, refused: str = "",
    answers: dict[str, list[str]] | None = None,
) -> dict[str, Any]:  # fmt: skip
    pieces = {name: content.decode() for name, content in PIECES.items()}
    result: dict[str, Any] = node(
        LOAD, pieces=pieces, table=TABLE, stored=stored or {}, room=room, refused=refused,
        answers=answers or {},
    )  # fmt: skip
    return result


def check_loaded(result: dict[str, Any]) -> None:
    assert result["outcome"][0] == "ok", result["outcome"]
    assert result["written"] == [content.decode() for content in PIECES.values()]
    assert result["done"] == sum(map(len, PIECES.values()))


def test_pieces_are_stored_for_the_next_visit(node: Node) -> None:
    """Pieces of an earlier version of the site are removed."""
    first = load(node, stored={"old": "old"})
    check_loaded(first)
    assert [name for name, _ in first["requests"]] == [*PIECES]
    assert set(first["held"]) == {*DIGESTS.values()}
    assert first["notices"] == []
    contents = {DIGESTS[name]: content.decode() for name, content in PIECES.items()}
    second = load(node, stored=contents)
    check_loaded(second)
    assert second["requests"] == second["notices"] == []


def test_a_write_that_did_not_end_is_no_damage(node: Node) -> None:
    """A page that is closed while it stores a piece leaves an empty file."""
    result = load(node, stored={DIGESTS["data-001.bin"]: ""})
    check_loaded(result)
    assert result["notices"] == []
    assert set(result["held"]) == {*DIGESTS.values()}


def test_a_piece_that_does_not_arrive_is_no_damage(node: Node) -> None:
    result = load(node, answers={"data-001.bin": [""]})
    check_loaded(result)
    assert result["notices"] == ["data-001.bin did not arrive, so it is fetched again."]


@pytest.mark.parametrize("answer", ["second piecf", "second pi", "stops"])
def test_damaged_pieces_are_fetched_again(node: Node, answer: str) -> None:
    result = load(node, answers={"data-001.bin": [answer, answer]})
    check_loaded(result)
    assert result["requests"] == [
        ["data-000.bin", False], ["data-001.bin", False], ["data-001.bin", True],
        ["data-001.bin", True], ["data-002.bin", False],
    ]  # fmt: skip
    notice = "data-001.bin arrived damaged or in part, so it is fetched again."
    assert result["notices"] == [notice, notice]


@pytest.mark.parametrize(
    ("answer", "message"),
    [
        ("second piecf", "data-001.bin is damaged: its SHA-256 differs"),
        ("second pi", "data-001.bin has 9 bytes instead of 12"),
        ("stops", "the download of data-001.bin stopped"),
    ],
)
def test_a_piece_that_stays_damaged_is_named(node: Node, answer: str, message: str) -> None:
    result = load(node, answers={"data-001.bin": [answer] * 3})
    kind, said = result["outcome"]
    assert (kind, message in said) == ("InputError", True), said
    # What arrived whole is kept for the next attempt.
    assert result["held"] == [DIGESTS["data-000.bin"]]


def test_a_damaged_copy_is_replaced(node: Node) -> None:
    result = load(node, stored={DIGESTS["data-001.bin"]: "second piecf"})
    check_loaded(result)
    assert result["notices"] == [
        "The stored copy of data-001.bin is damaged, so it is fetched again."
    ]
    assert set(result["held"]) == {*DIGESTS.values()}


def test_a_full_storage(node: Node) -> None:
    """The pieces that fit stay; the user is told once."""
    result = load(node, room=40)
    check_loaded(result)
    assert result["notices"] == [
        "The browser's storage is full, so the key stays in memory and is loaded again on the next "
        "visit."
    ]
    assert set(result["held"]) == {DIGESTS["data-000.bin"], DIGESTS["data-001.bin"]}


@pytest.mark.parametrize("error", ["SecurityError", "QuotaExceededError"])
def test_a_storage_that_is_refused(node: Node, error: str) -> None:
    result = load(node, refused=error)
    check_loaded(result)
    (notice,) = result["notices"]
    assert "so the key stays in memory and is loaded again" in notice or "(SecurityError" in notice
    assert result["held"] == []


def test_constants_in_the_shorter_form(node: Node) -> None:
    """The page computes the words again, over the boundaries of pieces; GPUs take whole words."""
    draw = np.random.default_rng(1)
    noise = draw.integers(0, 1 << 32, 500, dtype=np.uint64).astype(np.uint32)
    steps = np.arange(7, 3007, dtype=np.uint32)
    # Few distinct rows of 32 bytes, whose indices have two bytes.
    elements = draw.integers(0, 1 << 32, (300, 8), dtype=np.uint64).astype(np.uint32)
    rows = elements[np.arange(2000) * 7 % 300].reshape(-1)
    tables = [np.arange(1000, dtype=np.uint32), noise, steps, rows, noise]
    device = ExportDevice()
    data = DataFiles(device, [device.upload(table) for table in tables])
    assert ["deflated" in row for row in data.ranges] == [True, False, True, True, False]
    assert [row.get("rows") for row in data.ranges] == [None, None, None, 300, None]
    cuts = [0, 4, 40, 1000, 2204, 3000, data.nbytes]
    parts = [b"".join(map(bytes, data.pieces(*cut))) for cut in itertools.pairwise(cuts)]
    written = node(
        """const written = [];
        const piece = async (name) => new Uint8Array(Buffer.from(given.parts[name], "base64"));
        const data = { parts: given.parts.map((_, i) => i), ranges: given.ranges };
        await keys.loadConstants({ piece }, data, (range, offset, bytes) =>
            written.push([range.buffer, offset, Buffer.from(bytes).toString("hex")]));
        return written;""",
        parts=[base64.b64encode(part).decode() for part in parts], ranges=data.ranges,
    )  # fmt: skip
    contents = [bytearray(table.nbytes) for table in tables]
    for buffer, offset, content in written:
        assert len(content) % 8 == offset % 4 == 0
        contents[buffer - 1][offset : offset + len(content) // 2] = bytes.fromhex(content)
    assert contents == [table.tobytes() for table in tables]
