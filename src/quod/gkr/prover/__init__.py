"""The prover: a circuit in a device's memory, its launches, and the kernels between sumchecks."""
