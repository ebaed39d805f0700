"""The verifier on a device.

It shares the description of the protocol (`quod.gkr.protocol`) with the prover and the reference
verifier, but no computation.
"""
