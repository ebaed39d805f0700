"""Outputs of C1 in both encodings, and vanilla proofs: round trips and malformed files."""

from __future__ import annotations

import base64
import copy
import json
import random
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from quod.errors import InputError
from quod.filecoin import files, node_arrays
from quod.filecoin.files import (
    commit_to_bincode,
    commit_to_json,
    parse_commit,
    parse_post_sector,
    parse_update_partition,
    post_sector_to_bincode,
    read_commit,
    update_partition_to_bincode,
)
from quod.filecoin.node_arrays import NodeArrays
from quod.filecoin.nodes import P
from quod.filecoin.registered_proofs import SEAL_PROOFS
from quod.filecoin.sectors import sector_shape
from tests.filecoin.sealed import commit_output, post_sector, update_partition
from tests.support.thorough import one_and_others

SMALL = sector_shape(2 << 10)


@pytest.mark.parametrize("number", one_and_others([5, 0, 10, 15]))
def test_round_trips_of_commits(number: int, tmp_path: Path) -> None:
    output = commit_output(number)
    path = tmp_path / "c1"
    for data, sector_number in (
        (commit_to_bincode(output), None),
        (commit_to_json(output).encode(), None),
        (b"\n " + commit_to_json(output).encode(), None),
        (commit_to_json(output, 1 << 60).encode(), 1 << 60),
    ):
        path.write_bytes(data)
        file = read_commit(path)
        assert file.output == output
        assert file.sector_number == sector_number


@pytest.mark.fixtures
def test_a_real_output_of_c1(shared_fixtures: Path) -> None:
    """The 8 MiB sector of gevulot-fil, whose file has a tag before and the prover behind it."""
    data = (shared_fixtures / "filecoin" / "c2-input-8MiB.bincode").read_bytes()[4:-40]
    output = parse_commit(data).output
    assert output.registered_proof.name == "StackedDrg8MiBV1_1"
    nodes = [proof.comm_d_proofs.leaf_index for proof in output.vanilla_proofs[0]]
    assert nodes == [151786, 237493]
    assert commit_to_bincode(output) == data
    assert parse_commit(commit_to_json(output).encode()).output == output


@pytest.mark.fixtures
def test_a_real_proof_of_spacetime(shared_fixtures: Path) -> None:
    """A 32 GiB sector of Curio's tests."""
    data = (shared_fixtures / "filecoin" / "post.vproof").read_bytes()
    sector = sector_shape(32 << 30)
    proof = parse_post_sector(data, sector, 10)
    assert proof.sector_id == 1
    assert post_sector_to_bincode(proof, sector) == data
    with pytest.raises(InputError, match=r"inclusion_proofs, offset 48: must have 66 entries"):
        parse_post_sector(data, sector, 66, "post.vproof")
    with pytest.raises(InputError, match=r"\[0\]\.data, offset 56: must be Top, not Sub"):
        parse_post_sector(data, sector_shape(64 << 30), 10)


def test_round_trips_of_other_proofs() -> None:
    for count in (10, 66):
        proof = post_sector(count)
        data = post_sector_to_bincode(proof, SMALL)
        assert parse_post_sector(data, SMALL, count) == proof
    update = update_partition()[0]
    assert parse_update_partition(update_partition_to_bincode(update, SMALL), SMALL) == update


def test_truncated_and_extended_files() -> None:
    data = commit_to_bincode(commit_output())
    generator = random.Random(1)
    for length in (0, 1, 4, len(data) - 1, *generator.sample(range(len(data)), 100)):
        with pytest.raises(InputError, match=r"file, .*offset \d+: is cut off"):
            # A file shorter than a tag counts as JSON.
            parse_commit(data[:length] if length >= 4 else bytes(4), "file")
    with pytest.raises(InputError, match=f"offset {len(data)}: has 3 bytes after its end"):
        parse_commit(data + bytes(3))
    for short in (b"\0", b"\0\0\0"):
        with pytest.raises(InputError, match="is not JSON"):
            parse_commit(short)
    with pytest.raises(InputError, match="offset 0: is empty"):
        parse_commit(b"")


@pytest.mark.parametrize(
    ("offset", "change", "message"),
    [
        (0, b"\x14", r"registered_proof, offset 0: must be a whole number below 20, not 20"),
        (0, b"\x06", r"vanilla_proofs, offset 4: must be StackedDrg8MiBV1, not StackedDrg2KiBV1"),
        (4, b"\x09", r"vanilla_proofs, offset 4: must be StackedDrg2KiBV1, not the variant 9"),
        (8, b"\x02", r"StackedDrg2KiBV1, offset 8: must have 1 entries, not 2"),
        (15, b"\xff", r"must have 1 entries, not 18374686479671623681"),
        (16, b"\x03", r"StackedDrg2KiBV1\[0\], offset 16: must have 2 entries, not 3"),
        (24, b"\x01", r"\[0\]\[0\]\.comm_d_proofs\.data, offset 24: must be Single, not Sub"),
        (28 + 31, b"\x74", r"comm_d_proofs\.data\.Single\.root, offset 28: is not below"),
        (92, b"\x07", r"data\.Single\.path\.path, offset 92: must have 6 entries, not 7"),
        (100, b"\x02", r"path\.path\[0\]\.hashes, offset 100: must have 1 entries, not 2"),
        (140, b"\x02", r"path\.path\[0\]\.index, offset 140: must be a whole number below 2"),
        (108, P.to_bytes(32, "little"), r"hashes\[0\], offset 108: is not below the modulus"),
    ],
)
def test_wrong_fields_of_bincode(offset: int, change: bytes, message: str) -> None:
    data = bytearray(commit_to_bincode(commit_output()))
    data[offset : offset + len(change)] = change
    with pytest.raises(InputError, match=message):
        parse_commit(bytes(data), "c1.bin")


Change = Callable[[dict[str, Any]], object]


def proof_of(document: dict[str, Any]) -> Any:
    return document["vanilla_proofs"]["StackedDrg2KiBV1"][0][1]


WRONG_DOCUMENTS: dict[str, tuple[Change, str]] = {
    "no proof": (lambda d: d.pop("registered_proof"), "registered_proof: must be the name"),
    "unknown proof": (
        lambda d: d.update(registered_proof="StackedDrg3KiBV1"),
        "registered_proof: there is no registered seal proof 'StackedDrg3KiBV1'",
    ),
    "another proof": (
        lambda d: d.update(registered_proof=SEAL_PROOFS[1].name),
        'vanilla_proofs: must be StackedDrg8MiBV1, not "StackedDrg2KiBV1"',
    ),
    "no seed": (lambda d: d.pop("seed"), 'lacks the key "seed"'),
    "another key": (lambda d: d.update(speed=1), 'has an unknown key "speed"'),
    "a number": (lambda d: d.update(comm_r=5), "comm_r: must be a list of 32 bytes"),
    "a short list": (lambda d: d.update(comm_r=[0] * 31), "comm_r: must be a list of 32 bytes"),
    "a large byte": (lambda d: d["seed"].__setitem__(3, 256), "seed: must be a list of 32 bytes"),
    "true": (lambda d: d["seed"].__setitem__(3, True), "seed: must be a list of 32 bytes"),
    "text": (lambda d: d["seed"].__setitem__(3, "1"), "seed: must be a list of 32 bytes"),
    "not below p": (lambda d: d.update(comm_d=[255] * 32), "comm_d: is not below the modulus"),
    "partitions": (
        lambda d: d["vanilla_proofs"]["StackedDrg2KiBV1"].append([]),
        "vanilla_proofs.StackedDrg2KiBV1: must have 1 entries, not 2",
    ),
    "a column": (
        lambda d: proof_of(d)["replica_column_proofs"]["drg_parents"][5]["column"].update(index=-1),
        "[0][1].replica_column_proofs.drg_parents[5].column.index: must be a whole number below",
    ),
    "a layer": (
        lambda d: proof_of(d)["labeling_proofs"][1].update(layer_index="2"),
        "[0][1].labeling_proofs[1].layer_index: must be a whole number, not a string",
    ),
    "a list": (
        lambda d: proof_of(d).update(labeling_proofs={}),
        "[0][1].labeling_proofs: must be a list, not an object",
    ),
    "an object": (
        lambda d: proof_of(d).update(encoding_proof=[]),
        "[0][1].encoding_proof: must be an object, not a list",
    ),
    "a phantom": (lambda d: d.update(_h=0), 'has a value for "_h", which must be null'),
}


@pytest.mark.parametrize("name", WRONG_DOCUMENTS)
def test_wrong_json(name: str) -> None:
    change, message = WRONG_DOCUMENTS[name]
    document = json.loads(commit_to_json(commit_output()))
    change(document)
    with pytest.raises(InputError, match=re.escape(message)):
        parse_commit(json.dumps(document).encode(), "c1.json")


def test_phantom_fields_may_be_null_or_missing() -> None:
    document = json.loads(commit_to_json(commit_output()))
    other = copy.deepcopy(document)
    del proof_of(other)["replica_column_proofs"]["c_x"]["column"]["_h"]
    proof_of(other)["encoding_proof"]["_h"] = None
    assert parse_commit(json.dumps(other).encode()) == parse_commit(json.dumps(document).encode())


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"Phase1Out": 5}, "Phase1Out: must be text in base64"),
        ({"Phase1Out": "e30"}, "Phase1Out: must be text in base64"),
        ({"Phase1Out": "e30="}, "Phase1Out.registered_proof: must be the name"),
        ({"Phase1Out": "WzFd"}, "Phase1Out: must be an object, not a list"),
        ({"SectorSize": 1024}, "SectorSize: is not that of StackedDrg2KiBV1_1"),
        ({"SectorNum": 1 << 64}, "SectorNum: must be a whole number below"),
        ({"SectorNum": None}, "SectorNum: must be a whole number, not null"),
        ({"Miner": 5}, 'has an unknown key "Miner"'),
    ],
)
def test_wrong_wrappers(change: dict[str, object], message: str) -> None:
    document = json.loads(commit_to_json(commit_output(), 7))
    with pytest.raises(InputError, match=re.escape(message)):
        parse_commit(json.dumps(document | change).encode())


def test_the_wrapped_text_is_cut_out_of_no_other_document(monkeypatch: pytest.MonkeyPatch) -> None:
    """A document is read, or refused with the same message, as by the parser of the whole text."""
    text = commit_to_json(commit_output(), 7)
    wrapped = json.loads(text)["Phase1Out"]
    member = f'"Phase1Out": "{wrapped}"'
    documents = [
        text, f" {text}\n", text.replace(":", " : "), text.replace("=", ""), text[:-1], text + "}",
        text.replace(member, f"{member}, {member}"), text.replace("7", "7.5", 1), f"[{text}]",
        text.replace(member, f'"{wrapped}": "Phase1Out"'), f'{{"Phase1Out": {text}}}',
        text.replace(member, f'"nested": {{{member}}}'), text.replace(member, f"{member}"[:-1]),
        text.replace(member, f'"Phase1Out": 5, "other": {{{member}}}'), json.dumps(text),
        text.replace(member, f'"Phase1Out": "x", "Phase1Out": "{wrapped}"'), f"{text[1:-1]}",
    ]  # fmt: skip
    outcomes = []
    for _ in range(2):
        for document in documents:
            try:
                outcomes.append(repr(parse_commit(document.encode(), "c1.json")))
            except InputError as error:
                outcomes.append(str(error))
        monkeypatch.setattr(files, "_wrapper", lambda data, name: None)
    count = len(documents)
    assert outcomes[:count] == outcomes[count:]
    assert sum(outcome.startswith("CommitFile") for outcome in outcomes[:count]) == 4


def test_lists_of_nodes_that_are_not_canonical() -> None:
    """Each node of a list is checked, and so is the order of references."""
    document = json.loads(commit_to_json(commit_output()))
    rows = proof_of(document)["replica_column_proofs"]["c_x"]["column"]["rows"]
    for index, node in ((0, [255] * 32), (len(rows) - 1, [1] * 31 + [0x74])):
        other = copy.deepcopy(document)
        proof_of(other)["replica_column_proofs"]["c_x"]["column"]["rows"][index] = node
        with pytest.raises(InputError, match=rf"rows\[{index}\]: is not below the modulus"):
            parse_commit(json.dumps(other, separators=(",", ":")).encode())
    two = [[1] * 32, [2] * 32]
    arrays = NodeArrays(json.dumps(two, separators=(",", ":")).encode(), 9)
    first, second = json.loads(arrays.text)
    assert arrays.nodes([first, second]) == bytes(two[0] + two[1])
    for references in ([second, first], [first, first], [first, 5], [second, second], [5], []):
        assert arrays.nodes(references) is None


@pytest.mark.parametrize("text", ["[1]", "5", '{"a": 1', '{"seed": 1.5}', "9" * 5000, "\x7fELF"])
def test_other_documents(text: str) -> None:
    for data in (text.encode(), base64.b64encode(text.encode())):
        with pytest.raises(InputError):
            parse_commit(data, "c1.json")


def test_nodes_are_read_from_compact_lists_only() -> None:
    """Lists that are not 32 bytes, or not written as serde does, are left to the parser."""
    lists = [[7] * 32, [255, *range(31)], [0] * 31, [0] * 33, [256] * 32, [1000] * 32, [], [[]]]
    texts = [json.dumps(numbers, separators=(",", ":")) for numbers in lists]
    node = texts[0]
    texts += [
        node.replace("7,", "07,", 1), node.replace("7,", "-7,", 1), node.replace(",", ", ", 1),
        node.replace("7,", "7.0,", 1), node.replace("7,", ",", 1), node.replace("7,", "25555,", 1),
        node.replace(",", ",,", 1), node[:-1] + ",]", node[:-1], '"[7,7]"', "[7", "[7,",
    ]  # fmt: skip
    for count, text in enumerate(texts):
        arrays = NodeArrays(text.encode(), 9)
        is_node = count < 2
        assert (arrays.text != text.encode()) == is_node
        if is_node:
            assert arrays.node(json.loads(arrays.text)) == bytes(lists[count])
    arrays = NodeArrays(f'{{"a":[{node},{texts[1]}],"b":"x"}}'.encode(), 9)
    document = json.loads(arrays.text)
    assert [arrays.node(text) for text in document["a"]] == [bytes(row) for row in lists[:2]]
    assert arrays.node(document["b"]) is None
    assert NodeArrays(b"", 9).text == b""
    assert NodeArrays(f"[{node},{node}]".encode(), 1).text == f"[{node},{node}]".encode()


def test_short_lists_are_not_parsed(monkeypatch: pytest.MonkeyPatch) -> None:
    """A text of short lists would take minutes."""

    def refuse(rows: object) -> None:
        raise AssertionError("must not be called")

    monkeypatch.setattr(node_arrays, "_parsed", refuse)
    for text in (b"[1" * 1000, b"[" + b"[1]," * 1000 + b"[1]]"):
        assert NodeArrays(text, 2000).count == 0


@pytest.mark.parametrize("item", [b'{"a":1}', b"[]", b"300"])
def test_too_many_values(item: bytes) -> None:
    """A file with more values than the largest output is refused before it takes gigabytes."""
    text = b"[" + b",".join([item] * (1 << 20)) + b"]"
    wrapper = {"SectorNum": 1, "Phase1Out": base64.b64encode(text).decode(), "SectorSize": 2048}
    for data in (text, json.dumps(wrapper).encode()):
        with pytest.raises(InputError, match="more values than the limit for an output of C1"):
            parse_commit(data)
