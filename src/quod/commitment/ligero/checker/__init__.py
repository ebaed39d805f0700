"""The check of Ligero's openings on a device, whose kernels share nothing with the prover's."""
