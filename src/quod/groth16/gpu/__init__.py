"""The Groth16 prover on devices with separate memory."""
