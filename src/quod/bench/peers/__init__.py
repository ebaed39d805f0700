"""Peers: programs and libraries that Quod is compared with."""
