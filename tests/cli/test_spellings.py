"""snarkjs's other names of commands."""

from __future__ import annotations

from pathlib import Path

import pytest

from quod.cli import entry
from quod.cli.spellings import OLD, PAIRS, SHORT, quod_spelling


def _exists(words: tuple[str, ...]) -> bool:
    from quod.cli.app import app

    command: object = app.built
    for word in words:
        inner = getattr(command, "commands", None)
        if inner is None:
            # A word that the command takes itself: what is prepared or verified.
            return word in ("phase2", "r1cs", "init")
        if word not in inner:
            return False
        command = inner[word]
    return True


def test_aliases_name_commands_and_shadow_none() -> None:
    from quod.cli.app import app

    targets = [*SHORT.values(), *PAIRS.values(), *(tuple(name.split()) for name, _ in OLD.values())]
    assert [words for words in targets if not _exists(words)] == []
    taken = set(app.built.commands)
    assert not taken & {*SHORT, *OLD, *(first for first, _ in PAIRS)}


@pytest.mark.parametrize(
    ("snarkjs_words", "quod_words"),
    [
        ("ptn bn128 4 a", "powersoftau new bn128 4 a"),
        ("pt2 a b", "powersoftau prepare phase2 a b"),
        ("ptc a b -e=x=y -n=me", "powersoftau contribute a b --entropy=x=y --name=me"),
        ("zkey contribute a b -n me", "zkey contribute a b -n me"),
        ("zkvi a b c", "zkey verify init a b c"),
        ("zksnark proof a b", "groth16 prove a b"),
        ("witness verify a b", "wtns check a b"),
        ("calculatewitness -i=x", "wtns calculate circuit.wasm x witness.wtns"),
        (
            "verify --vk k --proof p --public q -q",
            "groth16 verify k q p -q",
        ),
        ("verify -vk", "groth16 verify verification_key.json public.json proof.json -vk"),
        ("groth16 prove -n=x", "groth16 prove --name=x"),
        ("groth16", "groth16"),
        ("", ""),
        ("submit -n=1 a", "submit -n=1 a"),
    ],
)
def test_words(snarkjs_words: str, quod_words: str) -> None:
    assert quod_spelling(snarkjs_words.split()) == quod_words.split()


def test_a_ceremony_by_short_names(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    new, done, ready = (str(tmp_path / name) for name in ("0.ptau", "1.ptau", "2.ptau"))
    assert entry.run(["ptn", "bn128", "2", new, "-q"]) == 0
    assert entry.run(["ptc", new, done, "-n=me", "-e=text", "-q"]) == 0
    assert entry.run(["pt2", done, ready, "-q"]) == 0
    capsys.readouterr()
    assert entry.run(["ptv", ready, "-q"]) == 0
    assert ": me" in (shown := capsys.readouterr().out) or "me" in shown
    assert "=me" not in shown
