"""Circuits of the size and shape of a partition of Filecoin's PoRep, with keys made on a device."""
