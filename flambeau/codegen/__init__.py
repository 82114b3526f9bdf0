"""From loop nests and declared kernels to machine code; the only room that knows LLVM."""
