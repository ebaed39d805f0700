"""snarkjs's aliases of commands that Quod has too: short names and historical ones.

They are rewritten before any other parsing, and help does not list them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

_SHORT_NAMES: Mapping[str, str] = {
    "powersoftau new": "ptn",
    "powersoftau contribute": "ptc",
    "powersoftau export challenge": "ptec",
    "powersoftau import response": "ptir",
    "powersoftau beacon": "ptb",
    "powersoftau prepare phase2": "pt2",
    "powersoftau truncate": "ptt",
    "powersoftau verify": "ptv",
    "r1cs info": "ri",
    "r1cs print": "rp",
    "r1cs export json": "rej",
    "wtns calculate": "wc",
    "wtns check": "wchk wv",
    "wtns export json": "wej",
    "zkey contribute": "zkc",
    "zkey beacon": "zkb",
    "zkey verify": "zkv",
    "zkey verify r1cs": "zkvr",
    "zkey verify init": "zkvi",
    "zkey export verificationkey": "zkev",
    "zkey export bellman": "zkeb",
    "zkey import bellman": "zkib",
    "zkey export json": "zkej",
    "zkey export solidityverifier": "zkesv",
    "zkey export soliditycalldata": "zkesc",
    "groth16 setup": "g16s zkn",
    "groth16 prove": "g16p zpw",
    "groth16 fullprove": "g16f g16i",
    "groth16 verify": "g16v",
}
SHORT: Mapping[str, tuple[str, ...]] = {
    short: tuple(name.split()) for name, shorts in _SHORT_NAMES.items() for short in shorts.split()
}
"""The words of each short name."""

PAIRS: Mapping[tuple[str, str], tuple[str, str]] = {
    ("zksnark", "proof"): ("groth16", "prove"),
    ("witness", "verify"): ("wtns", "check"),
}
"""Commands of two words with historical names."""

OLD: Mapping[str, tuple[str, Sequence[tuple[str, str]]]] = {
    "info": ("r1cs info", [("r r1cs", "circuit.r1cs")]),
    "print": ("r1cs print", [("r r1cs", "circuit.r1cs"), ("s sym", "circuit.sym")]),
    "calculatewitness": (
        "wtns calculate",
        [("ws wasm", "circuit.wasm"), ("i input", "input.json"), ("wt witness", "witness.wtns")],
    ),
    "proof": (
        "groth16 prove",
        [
            ("pk provingkey", "circuit_final.zkey"),
            ("wt witness", "witness.wtns"),
            ("p proof", "proof.json"),
            ("pub public", "public.json"),
        ],
    ),
    "verify": (
        "groth16 verify",
        [
            ("vk verificationkey", "verification_key.json"),
            ("pub public", "public.json"),
            ("p proof", "proof.json"),
        ],
    ),
    "generateverifier": (
        "zkey export solidityverifier",
        [("vk verificationkey", "circuit_final.zkey"), ("v verifier", "verifier.sol")],
    ),
    "generatecall": (
        "zkey export soliditycalldata",
        [("pub public", "public.json"), ("p proof", "proof.json")],
    ),
}
"""Historical commands of one word whose files were options.

Each has its present name, and for each file the option's names and the default file.
"""

_CEREMONIES = ("powersoftau", "zkey", "groth16")
_OPTIONS_WITH_VALUE = ("-n=", "-name=", "-e=", "-entropy=")


def quod_spelling(words: Sequence[str]) -> list[str]:
    """Rewrite a command line to Quod's spelling."""
    if not words:
        return []
    first, operands = words[0], list(words[1:])
    if first in OLD:
        return _from_options(first, operands)
    if first in SHORT:
        rewritten = [*SHORT[first], *operands]
    else:
        second = operands[0] if operands else ""
        rewritten = (
            [*PAIRS[first, second], *operands[1:]]
            if (first, second) in PAIRS
            else [first, *operands]
        )
    return _options(rewritten) if rewritten[0] in _CEREMONIES else rewritten


def _options(words: list[str]) -> list[str]:
    """Rewrite options such as -n=x, which other parsers would read as the value "=x"."""
    rewritten = []
    for word in words:
        if word.startswith(_OPTIONS_WITH_VALUE):
            name, value = word[1:].split("=", 1)
            rewritten.append(f"--{'name' if name.startswith('n') else 'entropy'}={value}")
        else:
            rewritten.append(word)
    return rewritten


def _from_options(command: str, words: list[str]) -> list[str]:
    name, options = OLD[command]
    file_index = {
        option: index for index, (names, _) in enumerate(options) for option in names.split()
    }
    files = [default for _, default in options]
    remaining = list(words)
    remaining_options = []
    while remaining:
        word = remaining.pop(0)
        option, equals, value = word.lstrip("-").partition("=")
        if not word.startswith("-") or option not in file_index or not (equals or remaining):
            remaining_options.append(word)
            continue
        files[file_index[option]] = value if equals else remaining.pop(0)
    return [*name.split(), *files, *remaining_options]
