"""64-bit integers for languages that may lack them: pairs of words, or native integers.

With native integers a number may have both forms, so halves loaded from memory are not joined if
only halves are used, as when field elements are unpacked.
"""
