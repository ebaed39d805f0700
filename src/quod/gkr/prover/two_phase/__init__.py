"""The prover of the two-phase reduction: sumchecks over the gates and the instances."""
