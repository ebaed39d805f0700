"""Circuits of Sapling and MASP."""
