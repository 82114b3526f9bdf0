"""A text model whose next token depends on every token before it, their places and nothing else."""

import time

import torch

from flambeau.serve import TextModel

WORDS = 97
BASE = 32  # characters stand for tokens


class Counting(TextModel):
    end_tokens = frozenset({0})
    max_length = 200
    words = WORDS

    def encode(self, text):
        if text == "hang":
            time.sleep(600)
        text.encode()  # which half a character has no bytes for
        return [(ord(letter) - BASE) % WORDS for letter in text]

    def decode(self, tokens):
        return "".join(chr(token + BASE) for token in tokens)

    def forward(self, tokens, mask, positions, cache):
        keys, places = tokens[:, None, :, None].double(), positions[:, None, :, None].double()
        if cache is not None:
            keys, places = torch.cat([cache[0][0], keys], 2), torch.cat([cache[0][1], places], 2)
        terms = keys[:, 0, :, 0] * (places[:, 0, :, 0] + 1) * mask
        chosen = (terms.sum(1) * 31 + 7).remainder(WORDS).long()
        logits = torch.nn.functional.one_hot(chosen, WORDS).float()[:, None] * 30
        return logits, [(keys, places)]
