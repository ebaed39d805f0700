"""quod filecoin: proofs of replication, of spacetime and of updates from vanilla proofs."""
