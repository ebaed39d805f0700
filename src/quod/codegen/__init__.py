"""Emitters: a traced kernel to the text of one target, one module a target."""
