"""The Groth16 prover on devices that compute in host memory."""
