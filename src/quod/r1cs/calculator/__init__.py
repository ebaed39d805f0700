"""Witness calculators of circuits in Python: WebAssembly modules with circom's interface."""
