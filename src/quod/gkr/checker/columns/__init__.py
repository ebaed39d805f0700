"""The checks of proofs whose sumchecks are over the instances alone."""
