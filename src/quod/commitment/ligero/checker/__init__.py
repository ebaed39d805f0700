"""The check of Ligero's openings on a device; its kernels share no code with the prover's."""
