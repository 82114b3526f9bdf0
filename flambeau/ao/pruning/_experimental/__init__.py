"""Pruning of whole rows. Its modules have the names of PyTorch's."""
