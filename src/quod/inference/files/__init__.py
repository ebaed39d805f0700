"""Files of keys and of proven inferences, and what is told about them."""
