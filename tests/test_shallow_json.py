"""JSON whose nesting is counted before it is parsed."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

from quod import shallow_json


@pytest.mark.parametrize(
    "document",
    [
        [], {}, 1, "a", None, [{"a": [1, 2.5, "[[[{{{", '\\"[', "\\"]}], ["\n", "\u00e9[", "\\\\"],
        {"[": "]", "{" * 40: "}" * 40},
    ],
)  # fmt: skip
def test_valid_documents_match_json(document: object) -> None:
    for text in (json.dumps(document), json.dumps(document, indent=1).encode()):
        assert shallow_json.load(text) == document


def test_depth() -> None:
    assert shallow_json.load("[" * 32 + "]" * 32)
    # What ends is not counted further.
    assert len(shallow_json.load(f"[{','.join(['[]', '{}'] * 99)}]")) == 198
    for text in ("[" * 33 + "]" * 33, '{"a":' * 33, '["\\\\"' + ",[" * 40):
        with pytest.raises(ValueError, match="nested more than 32 times, at character"):
            shallow_json.load(text)


@pytest.mark.parametrize("text", ["", "[", '"', '"\\', "[]]", "{'a': 1}", b"\xff"])
def test_invalid_documents_are_rejected(text: str | bytes) -> None:
    with pytest.raises((json.JSONDecodeError, UnicodeDecodeError)):
        shallow_json.load(text)


def test_raised_recursion_limit_does_not_crash() -> None:
    """Python's own parser would overflow the stack and end the process."""
    code = (
        "import sys; sys.setrecursionlimit(10**7); from quod import shallow_json\n"
        "try: shallow_json.load('[' * 10**6)\n"
        "except ValueError as error: print(error)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.startswith("nested more than 32 times")


@pytest.mark.parametrize(
    "text", ['{"a": 1, "a": 1}', '[{"b": {"a": 1, "c": 2, "\\u0061": 3}}]', "[NaN]", "[-Infinity]"]
)
def test_ambiguous_documents_are_rejected(text: str) -> None:
    with pytest.raises(ValueError, match=r"two equal keys|is not a JSON number"):
        shallow_json.load(text)


def test_values_that_stay_text() -> None:
    text = (
        '{"k": "raw", "raw" : {"a": [1, {"raw": "}"}], "b": "\\"]"} , "x": '
        '[{"raw": null}, {"raw": 5}, {"raw": "a,}"}, {"raw":[]}]}'
    )
    document = shallow_json.load(text, raw=["raw"], max_values=20)
    assert document == {
        "k": "raw", "raw": '{"a": [1, {"raw": "}"}], "b": "\\"]"}',
        "x": [{"raw": None}, {"raw": "5"}, {"raw": '"a,}"'}, {"raw": "[]"}],
    }  # fmt: skip
    assert type(document["raw"]) is shallow_json.Text
    assert type(document["k"]) is str


@pytest.mark.parametrize(
    "text",
    ['{"raw": 1, "raw": 2}', '{"r\\u0061w": 0}', '{"r\\u0061w": 0, "raw": 5}', '{"raw": }',
     '{"raw": {"a": [1}}', '{"raw": "a', '{"raw": {', '["raw": 3]', '{"raw": {} {}}',
     '{"raw": [] x}', '{"raw": [' + "[" * 32 + "]" * 33 + "}"],
)  # fmt: skip
def test_invalid_raw_texts_are_rejected(text: str) -> None:
    with pytest.raises(ValueError, match=r"\S"):
        shallow_json.load(text, raw=["raw"])


def test_value_count_is_checked_before_parsing() -> None:
    assert shallow_json.load("[1, 2, [3]]", max_values=6)
    with pytest.raises(ValueError, match="more than 5 values"):
        shallow_json.load("[1, 2, [3], 4, 5]", max_values=5)
