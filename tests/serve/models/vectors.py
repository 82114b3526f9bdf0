"""Vectors of texts, from their letters."""

import torch


class Vectors:
    def encode(self, texts):
        return torch.tensor([[float(len(text)), float(sum(map(ord, text)) % 1000), float(len(texts) > 0)] for text in texts])
