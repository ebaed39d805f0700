"""The prover of Groth16 on devices with memory of their own."""
