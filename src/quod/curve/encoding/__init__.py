"""Points as bytes, and the maps from bytes and field elements to points."""
