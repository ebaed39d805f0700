"""Commands of language models: text, plans and proofs of answers."""
