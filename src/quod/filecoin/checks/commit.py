"""The check of an output of C1: the statement of the circuit and of its public inputs.

The challenges follow from the randomness and the parents from the graph. Each path leads to its
commitment, and each column, label and encoding is right.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from quod.device.protocol import AnyDevice
from quod.errors import InputError, MismatchError
from quod.filecoin.challenges import porep_challenges
from quod.filecoin.checks.paths import PathChecker
from quod.filecoin.files import check_commit_record
from quod.filecoin.graph import DRG_PARENTS, PARENTS, StackedGraph
from quod.filecoin.labels import label, repeated_parents
from quod.filecoin.nodes import encode, replica_id
from quod.filecoin.records import CommitOutput, LabelingProof, PoRepProof
from quod.filecoin.registered_proofs import prover_id
from quod.filecoin.sectors import NODE_BYTES


def check_commit(
    output: CommitOutput, *, miner: int | None = None, sector_number: int | None = None,
    device: AnyDevice | None = None, paths: bool = True,
) -> None:  # fmt: skip
    """Check an output of C1 against its statement.

    output: the field `output` of the result of `read_commit`.
    miner, sector_number: those of the replica id, which is checked with both and otherwise trusted.
        The output has neither; lotus's c1.json has the sector's number.
    device: computes the Poseidon hashes; None stands for pure Python, in which a sector of 32 GiB
        takes a minute.
    paths: whether the hashes of paths and of comm_r are checked.
    Raises InputError with the field that is wrong, such as
    ``vanilla_proofs[0][1].replica_column_proofs.drg_parents[3].inclusion_proof``, and for only one
    of miner and sector_number.
    """
    check_commit_record(output)
    _check_statement(output, miner, sector_number)
    config = output.registered_proof.config()
    graph, checker = StackedGraph.of(config), PathChecker(config.sector, device)
    first = output.vanilla_proofs[0][0]
    comm_c = first.replica_column_proofs.c_x.inclusion_proof.root
    comm_r_last = first.comm_r_last_proof.root
    challenged = list(_challenged(output))
    parents = graph.parents([challenge for *_, challenge in challenged]).tolist()
    for (field, proof, challenge), parents_of_challenge in zip(challenged, parents, strict=True):
        nodes = (challenge, *parents_of_challenge)
        checker.check_data_path(
            f"{field}.comm_d_proofs", proof.comm_d_proofs, challenge, output.comm_d, "comm_d"
        )
        checker.add(
            f"{field}.comm_r_last_proof", proof.comm_r_last_proof, challenge, comm_r_last,
            "comm_r_last of vanilla_proofs[0][0]",
        )  # fmt: skip
        _add_columns(checker, field, proof, nodes, comm_c)
        _check_labels(field, proof, output.replica_id, challenge)
    checker.add_pair("comm_r", (comm_c, comm_r_last), output.comm_r)
    checker.check(paths=paths)


def _check_statement(output: CommitOutput, miner: int | None, sector_number: int | None) -> None:
    """Check the fields that are not vanilla proofs."""
    for name in ("comm_d", "comm_r", "seed"):
        if getattr(output, name) == bytes(NODE_BYTES):
            raise InputError("must not be zero", section=name)
    if miner is not None and sector_number is not None:
        check_replica_id(output, miner, sector_number)
    elif miner is not None or sector_number is not None:
        raise InputError("the check of the replica id needs both miner and sector_number")


def check_replica_id(output: CommitOutput, miner: int, sector_number: int) -> None:
    """Raise MismatchError unless the replica id of an output of C1 is that of a miner's sector."""
    identity = replica_id(
        prover_id(miner), sector_number, output.ticket, output.comm_d,
        output.registered_proof.config().porep_id,
    )  # fmt: skip
    if identity != output.replica_id:
        raise MismatchError(
            f"is not that of miner {miner} and sector {sector_number} with this ticket, comm_d and "
            "registered proof",
            section="replica_id",
        )


def _challenged(output: CommitOutput) -> Iterator[tuple[str, PoRepProof, int]]:
    """Yield the field of each challenge's proof, the proof and the challenged node."""
    config = output.registered_proof.config()
    for partition, proofs in enumerate(output.vanilla_proofs):
        challenges = porep_challenges(
            config, output.replica_id, output.comm_r, output.seed, partition
        )
        for index, (proof, challenge) in enumerate(zip(proofs, challenges, strict=True)):
            yield f"vanilla_proofs[{partition}][{index}]", proof, challenge


def _add_columns(
    checker: PathChecker, field: str, proof: PoRepProof, nodes: Sequence[int], comm_c: bytes
) -> None:
    """Add the columns of the challenged node and of its parents, whose indices `nodes` has."""
    columns = proof.replica_column_proofs.columns
    for (name, column), node in zip(columns.items(), nodes, strict=True):
        section = f"{field}.replica_column_proofs.{name}"
        if column.column.index != node:
            raise InputError(
                f"must be {node}, not {column.column.index}: the registered proof determines the "
                "parents of a challenge",
                section=f"{section}.column.index",
            )
        checker.add_column(section, column, node, comm_c, "comm_c of vanilla_proofs[0][0]")


def _check_labels(field: str, proof: PoRepProof, identity: bytes, node: int) -> None:
    """Check the label of the challenged node in each layer, and the encoding of its data node."""
    columns = proof.replica_column_proofs
    drg, expander = (
        [column.column.rows for column in parents]
        for parents in (columns.drg_parents, columns.exp_parents)
    )
    labels = columns.c_x.column.rows
    for layer, record in enumerate(proof.labeling_proofs, 1):
        preceding = [rows[layer - 2] for rows in expander] if layer > 1 else []
        parents = repeated_parents([rows[layer - 1] for rows in drg], preceding)
        _check_labeling(f"{field}.labeling_proofs[{layer - 1}]", record, parents, layer, node)
        if label(identity, layer, node, parents) != labels[layer - 1]:
            raise InputError(
                f"is not the label of node {node} in layer {layer}, which is the hash of "
                "replica_id, the layer, the node and its parents' labels",
                section=f"{field}.replica_column_proofs.c_x.column.rows[{layer - 1}]",
            )
        if layer == len(labels):
            _check_labeling(f"{field}.encoding_proof", proof.encoding_proof, parents, layer, node)
    if encode(labels[-1], proof.comm_d_proofs.leaf) != proof.comm_r_last_proof.leaf:
        raise InputError(
            "is not the sum of the last layer's label and the data node",
            section=f"{field}.comm_r_last_proof.leaf",
        )


def _check_labeling(
    section: str, record: LabelingProof, parents: Sequence[bytes], layer: int, node: int
) -> None:
    """Check a labelling proof: its parents' labels are rows of the parents' columns."""
    for name, expected in (("layer_index", layer), ("node", node)):
        value = getattr(record, name)
        if value != expected:
            raise InputError(f"must be {expected}, not {value}", section=f"{section}.{name}")
    for index, (actual, row) in enumerate(zip(record.parents, parents, strict=True)):
        if actual != row:
            raise InputError(
                f"is not row {_row(index, layer)}, the label of the parent",
                section=f"{section}.parents[{index}]",
            )


def _row(index: int, layer: int) -> str:
    """Return the field of the column row that equals parent `index` of a labelling proof."""
    if layer == 1:
        return f"drg_parents[{index % DRG_PARENTS}].column.rows[0]"
    parent = index % PARENTS
    if parent < DRG_PARENTS:
        return f"drg_parents[{parent}].column.rows[{layer - 1}]"
    return f"exp_parents[{parent - DRG_PARENTS}].column.rows[{layer - 2}]"
