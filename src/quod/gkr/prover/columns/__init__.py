"""The prover by columns: sumchecks over the instances alone, the values of all places sent."""
