"""LLVM IR, for processors."""
