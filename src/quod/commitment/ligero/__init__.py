"""Ligero: commitments by a code and a Merkle tree, without a set-up.

`code` says what a word is, `encode`, `tree` and `combine` are kernels, `prover` and `verifier` the
two sides of `shape`, and `scheme` what users take.
"""
