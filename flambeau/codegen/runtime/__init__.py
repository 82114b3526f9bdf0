"""What compiled code runs on: storage, threads, the words they share, and plans, which launch kernels."""
