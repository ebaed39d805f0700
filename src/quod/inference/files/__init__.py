"""Files of keys and of proven inferences, and their descriptions."""
