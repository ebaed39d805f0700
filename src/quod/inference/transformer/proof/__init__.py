"""Proofs that a language model, run as the integer program of its plan, chose the tokens of a text.

docs/design/verified-transformer.md states the protocol.
"""
