"""Commands of Groth16: proofs, verification and keys."""
