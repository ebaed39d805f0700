"""The checks of proofs whose sumchecks are over the places of layers."""
