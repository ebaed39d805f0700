"""The Groth16 prover on a device whose memory is the host's."""
