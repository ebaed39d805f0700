"""The layout of a calculator's memory."""

from __future__ import annotations

from quod.r1cs.calculator.assembler import Module

# Address 0 stays unused.
_FIRST_ADDRESS = 16


class Memory:
    """An allocator of a module's memory; `size` is the number of bytes up to the last one."""

    def __init__(self, module: Module) -> None:
        self._module, self.size = module, _FIRST_ADDRESS

    def reserve(self, size: int, alignment: int = 8) -> int:
        """Reserve bytes that are 0 at first, and return their address."""
        address = -(-self.size // alignment) * alignment
        self.size = address + size
        return address

    def add(self, content: bytes, alignment: int = 8) -> int:
        """Reserve memory with this initial content, and return its address."""
        address = self.reserve(len(content), alignment)
        self._module.data(address, content)
        return address
