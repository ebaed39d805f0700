"""Groth16 proving keys of snarkjs (`.zkey`)."""
