"""The verifier on a device, which shares nothing with the prover and the plain verifier."""
