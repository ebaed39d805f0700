"""quod inspect: descriptions of files."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated

from quod.cli.display.terminal import one_line, show, show_json
from quod.cli.parameters import Argument, AsJson

_MAX_VALUE_LENGTH = 76


def inspect(
    # The command reads it and reports unreadable files as other commands do.
    file: Annotated[Path, Argument("FILE", "File that Quod can read.", check_readable=False)],
    as_json: AsJson = False,
) -> None:
    """Describe a file: its kind, curve, constraints, domain, public inputs and sizes.

    Reads zkey, wtns, r1cs and ptau files and snarkjs's proofs, public inputs and verifying keys,
    bellman's keys, layered circuits, their keys, proofs and inputs, Expander's circuits and
    witnesses, models (gguf), keys and proofs of inferences and of answers of language models, and
    checks them as the other commands would.
    """
    from quod.errors import InputError
    from quod.filecoin.describe import kind_by_start
    from quod.formats.inspect import contents, describe_bytes
    from quod.gkr.files.describe import describe_file
    from quod.inference.files.describe import describe_file as describe_inference
    from quod.inference.transformer.proof.files.describe import describe_file as describe_answer

    # Read once, as a pipe cannot be read again.
    data, name = contents(file), os.fspath(file)
    if (kind := kind_by_start(data)) is not None:
        raise InputError(f"is {kind}: use quod filecoin inspect", path=name)
    description = (
        describe_file(data, name) or describe_inference(data, name) or describe_answer(data, name)
    )
    if description is None:
        description = describe_bytes(data, name)
        description |= _weakness(data, name, str(description["kind"]))
    if as_json:
        show_json(description)
    else:
        show_description(description)


def show_description(description: Mapping[str, object]) -> None:
    """Print a description, one line for each field."""
    width = max(map(len, description)) + 2
    for key, value in description.items():
        label = key.replace("_", " ").ljust(width)
        if isinstance(value, dict):
            show(f"{label.rstrip()} (bytes)" if key == "sections" else label.rstrip())
            names_and_values = [
                (_shortened(str(name)), inner_value) for name, inner_value in value.items()
            ]
            inner_width = max((len(name) for name, _ in names_and_values), default=0) + 2
            for name, inner_value in names_and_values:
                show(f"  {name.ljust(inner_width)}{_shown(inner_value)}")
        else:
            show(label + _shown(value))


def _weakness(data: memoryview, name: str, kind: str) -> dict[str, object]:
    """Report whether a Groth16 key is known to be insecure, and why."""
    from quod.formats import Zkey, parse_verification_key
    from quod.formats.iden3 import Iden3File
    from quod.formats.zkey import file as zkey
    from quod.groth16.soundness import weakness_of

    if kind.startswith("groth16 proving key"):
        weakness = weakness_of(Zkey.of(Iden3File.parse(data, name, zkey.KIND, zkey.VERSION)))
    elif kind.startswith("verifying key"):
        weakness = weakness_of(parse_verification_key(bytes(data), name=name))
    elif kind.startswith("bellman"):
        # The test keys in this format are those of Filecoin.
        from quod.filecoin.parameters.files import weakness_in
        from quod.formats.bellman import BellmanVerifyingKey

        weakness = weakness_in(BellmanVerifyingKey.parse(data, name))
    else:
        return {}
    return {"insecure": False if weakness is None else weakness.reason}


def _shown(value: object) -> str:
    if value is None:
        return "none"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, int) and abs(value) < 1 << 64:
        return f"{value:,}"
    if isinstance(value, list | tuple):
        return ", ".join(map(_shown, value))
    if isinstance(value, dict):
        return ", ".join(f"{name} {_shown(part)}" for name, part in value.items())
    return _shortened(str(value))


def _shortened(text: str) -> str:
    """Shorten untrusted text to one line by omitting its middle."""
    text = one_line(text)
    return text if len(text) <= _MAX_VALUE_LENGTH else f"{text[:32]}…{text[-32:]}"
