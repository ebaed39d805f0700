"""The prover of the data-parallel reduction: sumchecks over the instances alone."""
