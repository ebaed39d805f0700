"""The op table: signatures, type rules and meaning of every op."""
