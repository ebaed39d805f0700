"""Ligero: commitments by a code and a Merkle tree, without a set-up.

`code` defines the code; `encode`, `tree` and `combine` have kernels; `shape` has the computations
that `prover` and `verifier` share; `scheme` has the class that users construct.
"""
