"""Plain-integer models: slow, short, and the oracle that everything else is checked against."""
