"""Ceremonies: powers of tau that many contribute to, and what their second phase shares with them.

Nobody knows a key's secrets unless everyone who contributed to it keeps his. docs/ceremony.md says
how one is held, and what it does not promise.
"""
