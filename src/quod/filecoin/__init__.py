"""Filecoin's proofs of replication (PoRep), of spacetime (PoSt) and of updates (SnapDeals).

Nodes, commitments and ids are 32 bytes; a node is a canonical little-endian element of BLS12-381's
scalar field. The names below load on first use (PEP 562).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from quod.lazy import lazy_names

if TYPE_CHECKING:
    from quod.filecoin.challenges import porep_challenges as porep_challenges
    from quod.filecoin.challenges import update_challenges as update_challenges
    from quod.filecoin.challenges import window_challenges as window_challenges
    from quod.filecoin.challenges import winning_challenges as winning_challenges
    from quod.filecoin.challenges import winning_sector as winning_sector
    from quod.filecoin.checks import check_commit as check_commit
    from quod.filecoin.checks import check_post_sector as check_post_sector
    from quod.filecoin.checks import check_update_partition as check_update_partition
    from quod.filecoin.files import CommitFile as CommitFile
    from quod.filecoin.files import commit_to_bincode as commit_to_bincode
    from quod.filecoin.files import commit_to_json as commit_to_json
    from quod.filecoin.files import parse_commit as parse_commit
    from quod.filecoin.files import parse_post_sector as parse_post_sector
    from quod.filecoin.files import parse_update_partition as parse_update_partition
    from quod.filecoin.files import read_commit as read_commit
    from quod.filecoin.graph import StackedGraph as StackedGraph
    from quod.filecoin.labels import compute_layers as compute_layers
    from quod.filecoin.labels import label as label
    from quod.filecoin.nodes import comm_r as comm_r
    from quod.filecoin.nodes import encode as encode
    from quod.filecoin.nodes import replica_id as replica_id
    from quod.filecoin.poseidon import NodeHasher as NodeHasher
    from quod.filecoin.proving import Prover as Prover
    from quod.filecoin.proving import prove_commit as prove_commit
    from quod.filecoin.proving import prove_post as prove_post
    from quod.filecoin.proving import prove_update as prove_update
    from quod.filecoin.proving import verify_proof as verify_proof
    from quod.filecoin.proving import verify_proofs as verify_proofs
    from quod.filecoin.public_inputs import porep_inputs as porep_inputs
    from quod.filecoin.public_inputs import post_inputs as post_inputs
    from quod.filecoin.public_inputs import update_inputs as update_inputs
    from quod.filecoin.records import CommitOutput as CommitOutput
    from quod.filecoin.records import MerkleProof as MerkleProof
    from quod.filecoin.records import PoRepProof as PoRepProof
    from quod.filecoin.records import PoStSectorProof as PoStSectorProof
    from quod.filecoin.records import UpdatePartitionProof as UpdatePartitionProof
    from quod.filecoin.registered_proofs import ApiVersion as ApiVersion
    from quod.filecoin.registered_proofs import Challenges as Challenges
    from quod.filecoin.registered_proofs import PoRepConfig as PoRepConfig
    from quod.filecoin.registered_proofs import PoStProof as PoStProof
    from quod.filecoin.registered_proofs import SealProof as SealProof
    from quod.filecoin.registered_proofs import porep_id as porep_id
    from quod.filecoin.registered_proofs import post_proof as post_proof
    from quod.filecoin.registered_proofs import prover_id as prover_id
    from quod.filecoin.registered_proofs import seal_proof as seal_proof
    from quod.filecoin.seal_records import SealRecord as SealRecord
    from quod.filecoin.seal_records import read_seal_records as read_seal_records
    from quod.filecoin.sectors import SectorShape as SectorShape
    from quod.filecoin.sectors import sector_named as sector_named
    from quod.filecoin.sectors import sector_shape as sector_shape
    from quod.filecoin.statement_files import StatementFile as StatementFile
    from quod.filecoin.statement_files import parse_statement as parse_statement
    from quod.filecoin.statement_files import read_statement as read_statement
    from quod.filecoin.statements import PoStSector as PoStSector
    from quod.filecoin.statements import PoStStatement as PoStStatement
    from quod.filecoin.statements import SealStatement as SealStatement
    from quod.filecoin.statements import UpdateStatement as UpdateStatement
    from quod.filecoin.trees import MerkleTree as MerkleTree
    from quod.filecoin.trees import encode_replica as encode_replica
    from quod.filecoin.trees import tree_c as tree_c
    from quod.filecoin.trees import tree_d as tree_d
    from quod.filecoin.trees import tree_r_last as tree_r_last
else:
    __getattr__, __dir__ = lazy_names(__name__)
