"""What chooses masks. Its modules have the names of PyTorch's."""
