"""The proofs of a bundle: all proofs of a kind are one batch."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from quod.errors import InputError, MismatchError
from quod.validation import in_order, instance
from quod.zcash.bundle.balance import binding_signing_key
from quod.zcash.bundle.statements import BundleEntry, entry_name
from quod.zcash.bundle.unsigned import UnsignedBundle
from quod.zcash.proofs.infos import ConvertInfo, OutputInfo, SpendInfo
from quod.zcash.proofs.prover import Prover


def prove_bundle(content: UnsignedBundle, provers: Iterable[Prover]) -> UnsignedBundle:
    """Prove all statements of a bundle, and return the bundle of their descriptions.

    content: its entries are infos, such as `SpendInfo`.
    provers: one for each kind of proof in the bundle; others are not used.
    Raises InputError for other entries, MismatchError for a missing prover, and the errors of
    `Prover.prove_many`.
    """
    instance("the content of a bundle", content, UnsignedBundle, "make an UnsignedBundle")
    provers_by_kind = {
        instance("a prover", prover, Prover, "make a Prover").kind: prover
        for prover in in_order("the provers", provers)
    }
    batches = [_infos(entries) for entries in (content.spends, content.outputs, content.converts)]
    for info in (batch[0] for batch in batches if batch):
        if info.kind not in provers_by_kind:
            raise MismatchError(f"there is no prover of {info.kind.name}")
    spends, outputs, converts = (
        list(provers_by_kind[batch[0].kind].prove_many(batch)) if batch else [] for batch in batches
    )
    return content.with_entries(spends, outputs, converts)


def bundle_signing_key(content: UnsignedBundle) -> int:
    """Return bsk of a bundle whose entries are infos; see `binding_signing_key`."""
    spends, outputs, converts = (
        [info.rcv for info in _infos(entries)]
        for entries in (content.spends, content.outputs, content.converts)
    )
    return binding_signing_key([*spends, *converts], outputs)


def _infos(entries: Sequence[BundleEntry]) -> list[SpendInfo | OutputInfo | ConvertInfo]:
    """Return entries that are infos; raise InputError for others."""
    infos = []
    for index, entry in enumerate(entries):
        if not isinstance(entry, SpendInfo | OutputInfo | ConvertInfo):
            name = entry_name(type(entry.statement), index)
            raise InputError(f"{name} must be an info, such as SpendInfo, to be proved")
        infos.append(entry)
    return infos
