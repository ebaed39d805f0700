"""Benchmarks of Sapling's and MASP's proofs: from a note to 192 bytes, batches, verification."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from quod.bench.measure.harness import Case, Parameter
from quod.bench.measure.settings import StagedSettings
from quod.cli.display.terminal import warn
from quod.cli.parameters import Option, WrongUsage

if TYPE_CHECKING:
    from quod.zcash.keys import ProofGenerationKey
    from quod.zcash.note import Note
    from quod.zcash.proofs.infos import ConvertInfo, OutputInfo, ProofInfo, SpendInfo
    from quod.zcash.proofs.prover import Prover
    from quod.zcash.tree import MerklePath

CIRCUITS = ("sapling-output", "masp-output", "sapling-spend", "masp-spend", "masp-convert")

_KEY_SEED = 1
_WITNESSES, _PROOFS, _VERIFIED = 256, 32, 1000
_SIGNATURES = "signatures"

# A diversifier with a point in both protocols.
_DIVERSIFIER = bytes.fromhex("f19d9b797e39f337445839")
_SEED = bytes(range(32))
_RCV, _ALPHA = 1 << 200, 7


def zcash(
    settings: StagedSettings,
    proof: Annotated[
        list[str] | None,
        Option(metavar="KIND", help=f"{', '.join(CIRCUITS)}; may be repeated. Default: all."),
    ] = None,
    params: Annotated[
        Path | None,
        Option(
            metavar="DIR",
            help="The folder of the ceremonies' files. Default: make INSECURE keys in memory.",
        ),
    ] = None,
    only: Annotated[
        str | None,
        Option(metavar="WHAT", help="Only witnesses, proofs, verification or signatures."),
    ] = None,
) -> None:
    """Sapling's and MASP's proofs: witnesses, proofs from notes, batches, verification, signatures.

    Signatures, RedJubjub's, are of no kind of proof, and are left out with --proof.
    """
    for name in proof or []:
        if name not in CIRCUITS:
            raise WrongUsage(f"--proof must be one of {', '.join(CIRCUITS)}, not {name!r}")
    if only not in (None, *_CASES, _SIGNATURES):
        raise WrongUsage(f"--only must be one of {', '.join((*_CASES, _SIGNATURES))}, not {only!r}")
    if only == _SIGNATURES and (proof or params):
        raise WrongUsage("--only signatures takes neither --proof nor --params")
    settings.measure("zcash", _selected_cases(settings.device, proof, params, only))


def _selected_cases(
    device: str, names: Sequence[str] | None, folder: Path | None, only: str | None
) -> Iterator[Case]:
    if only != _SIGNATURES:
        yield from cases(device, names or CIRCUITS, folder, only)
    if only in (None, _SIGNATURES) and not names:
        yield from signature_cases(device)


def cases(
    device: str, names: Sequence[str], folder: Path | None, only: str | None = None
) -> Iterator[Case]:
    """Yield the cases of kinds of proofs.

    folder: the folder of the ceremonies' files; None stands for test keys.
    only: a name of `_CASES`; default: all.
    """
    from quod.zcash.proofs.kinds import KINDS
    from quod.zcash.proofs.parameters import make_test_parameters
    from quod.zcash.proofs.prover import Prover

    with tempfile.TemporaryDirectory(prefix="quod-bench-") as directory:
        for name in names:
            kind, info = KINDS[name], info_of(name)
            path = (Path(directory) if folder is None else folder) / kind.file_name
            if folder is None:
                make_test_parameters(kind, path, _KEY_SEED)
            # Nobody relies on the proofs of a benchmark.
            with Prover(kind, path, device, checked=False, allow_insecure=True) as prover:
                parameters: dict[str, Parameter] = {
                    "proof": name, "constraints": prover.circuit.constraints,
                }  # fmt: skip
                for what, cases_of in _CASES.items():
                    if only in (None, what):
                        yield from cases_of(prover, info, parameters)
            if folder is None:
                path.unlink()


def _witness_cases(
    prover: Prover, info: ProofInfo, parameters: dict[str, Parameter]
) -> Iterator[Case]:
    """Yield cases of witnesses alone, unchecked: one, and a batch, on a GPU in its memory."""
    from quod.bench.peers.v8 import calculator_in_v8
    from quod.device.protocol import in_host_memory

    circuit, inputs, device = prover.circuit, info.inputs, prover.key.device
    yield Case({"what": "inputs", **parameters}, lambda: info.inputs, unit="ms")
    yield Case(
        {"what": "witness", **parameters},
        partial(circuit.witness, inputs, check=False),
        unit="ms",
    )
    with calculator_in_v8(circuit, inputs) as run:
        if run is None:
            warn("node is not on the PATH, so the calculator in V8 is not measured")
        else:
            yield Case({"what": "witness in V8", **parameters}, run, unit="ms")
    batch = [inputs] * _WITNESSES
    yield Case(
        {"what": f"witnesses of {_WITNESSES}", **parameters},
        partial(circuit.witnesses, batch, check=False),
        unit="ms/witness", operations=_WITNESSES,
    )  # fmt: skip
    if not in_host_memory(device):
        yield Case(
            {"what": f"witnesses of {_WITNESSES}, in the device's memory", **parameters},
            partial(circuit.witnesses, batch, check=False, device=device),
            unit="ms/witness", operations=_WITNESSES,
        )  # fmt: skip


def _proof_cases(
    prover: Prover, info: ProofInfo, parameters: dict[str, Parameter]
) -> Iterator[Case]:
    """Yield cases of proofs with the key resident: alone, from a note, and of many notes."""
    from quod.device.runtime.timeline import Timeline

    witness = prover.circuit.witness(info.inputs, check=False)
    yield Case(
        {"what": "prove", **parameters},
        partial(prover.key.prove, witness),
        unit="ms",
        traced=lambda timeline: prover.key.prove(witness, timeline=timeline),
    )

    def to_bytes(timeline: Timeline | None = None) -> tuple[bytes, ...]:
        return prover.prove(info, timeline=timeline).to_bytes()

    yield Case({"what": "inputs to 192 bytes", **parameters}, to_bytes, unit="ms", traced=to_bytes)
    yield Case(
        {"what": f"inputs to 192 bytes, {_PROOFS} in a row", **parameters},
        lambda: [each.to_bytes() for each in prover.prove_many([info] * _PROOFS)],
        unit="ms/proof", operations=_PROOFS,
    )  # fmt: skip


def _verification_cases(
    prover: Prover, info: ProofInfo, parameters: dict[str, Parameter]
) -> Iterator[Case]:
    """Yield cases of verification from bytes: one proof, and a batch of many."""
    from quod.groth16 import VerifyingKey
    from quod.zcash.proofs.description import decode_descriptions
    from quod.zcash.proofs.verification import VerifyingKeys
    from quod.zcash.proofs.verification import verify_descriptions as verify

    description = prover.prove(info)
    parts = description.to_bytes()
    key: VerifyingKey = prover.key.self_check_key
    name = prover.kind.name.partition("-")[2]
    keys, statement = VerifyingKeys(**{name: key}), prover.kind.statement

    def run(count: int) -> None:
        decoded = decode_descriptions([(statement, parts)] * count)
        assert all(verify(keys, decoded))

    for count, unit in ((1, "ms"), (_VERIFIED, "s")):
        yield Case(
            {"what": f"verify {count} from bytes", **parameters}, partial(run, count), unit=unit
        )


_CASES: dict[str, Callable[[Prover, ProofInfo, dict[str, Parameter]], Iterator[Case]]] = {
    "witnesses": _witness_cases, "proofs": _proof_cases, "verification": _verification_cases,
}  # fmt: skip


def signature_cases(device: str) -> Iterator[Case]:
    """Yield cases of RedJubjub: signing, verification of one signature, and of a batch."""
    from quod.zcash.scalars import encoded
    from quod.zcash.signatures.batch import SignatureClaim, verify_signatures
    from quod.zcash.signatures.redjubjub import spend_auth_scheme

    scheme, secrets = spend_auth_scheme(), range(7, 7 + _VERIFIED)
    messages = [number.to_bytes(32, "little") for number in range(_VERIFIED)]
    keys = [encoded(scheme.verification_key(secret)) for secret in secrets]
    claims = [
        SignatureClaim(scheme, key, message, scheme.sign(secret, message))
        for secret, key, message in zip(secrets, keys, messages, strict=True)
    ]
    first = claims[0]

    def verify_one() -> None:
        assert scheme.verify(first.key, first.message, first.signature)

    def verify_all() -> None:
        assert all(verify_signatures(claims, device))

    parameters: dict[str, Parameter] = {"signature": "spendAuthSig"}
    yield Case({"what": "sign", **parameters}, lambda: scheme.sign(7, messages[0]), unit="ms")
    yield Case({"what": "verify 1", **parameters}, verify_one, unit="ms")
    yield Case({"what": f"verify {_VERIFIED}", **parameters}, verify_all, unit="ms")


# --- notes that no chain has


def info_of(name: str) -> ProofInfo:
    """Return the private information of a kind of proof, for a note or conversion of no chain."""
    if name == "masp-convert":
        return _convert_info()
    info_for = _spend_info if name.endswith("-spend") else _output_info
    return info_for(is_masp=name.startswith("masp-"))


def _output_info(*, is_masp: bool) -> OutputInfo:
    from quod.zcash.note import ephemeral_secret
    from quod.zcash.proofs.infos import OutputInfo

    note = _key_and_note(is_masp=is_masp)[1]
    return OutputInfo(note, ephemeral_secret(_SEED, note.protocol), _RCV)


def _spend_info(*, is_masp: bool) -> SpendInfo:
    from quod.zcash.proofs.infos import SpendInfo

    key, note = _key_and_note(is_masp=is_masp)
    path = _path()
    return SpendInfo(key, note, path, _ALPHA, _RCV, path.root(note.cmu, note.protocol))


def _convert_info() -> ConvertInfo:
    from quod.zcash.assets import asset_identifier
    from quod.zcash.conversion import AllowedConversion
    from quod.zcash.proofs.infos import ConvertInfo
    from quod.zcash.protocol import MASP

    conversion = AllowedConversion({asset_identifier(b"a"): -1, asset_identifier(b"b"): 1})
    path = _path()
    return ConvertInfo(conversion, 5000, path, _RCV, path.root(conversion.leaf, MASP))


def _key_and_note(*, is_masp: bool) -> tuple[ProofGenerationKey, Note]:
    from quod.zcash.assets import asset_identifier
    from quod.zcash.keys import ExpandedSpendingKey
    from quod.zcash.note import Note
    from quod.zcash.protocol import MASP, SAPLING

    key = ExpandedSpendingKey.from_spending_key(_SEED, MASP if is_masp else SAPLING)
    address = key.full_viewing_key.address(_DIVERSIFIER)
    asset = asset_identifier(b"default") if is_masp else None
    return key.proof_generation_key, Note.from_seed(address, 5000, _SEED, asset)


def _path() -> MerklePath:
    """Return a path with a position of many bits."""
    from quod.zcash.tree import MerklePath

    return MerklePath(range(1000, 1032), 0x5A5A5A5A)
