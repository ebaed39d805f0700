"""Files of proven answers: keys of models, answers with their proofs, and tokens to prove."""
