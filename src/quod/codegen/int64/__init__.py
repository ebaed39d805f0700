"""64-bit integers where a language may have none: pairs of words, or its own.

Where it has them, a number may be known both ways: halves that come from memory need no joining if
only halves are asked for again, as where field elements are unpacked.
"""
