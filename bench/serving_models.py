"""The models that bench/serving.py serves, the same file for every server: plain torch, weights from a seed.

`python serving_models.py FOLDER mlp embedder` writes their weights, requests, and the answers that are expected.
Used by bench/serving.py, by its comparison servers, and as a handler by `flambeau serve`.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

import torch
from torch import nn

INPUTS, HIDDEN, OUTPUTS = 64, 512, 16
TOKENS, WIDTH, HEADS, LAYERS = 64, 768, 12, 12  # of BERT's base size; a text of more bytes is cut
ROWS = 256  # different requests


class MLP(nn.Sequential):
    """(rows, 64) to (rows, 16)."""

    def __init__(self) -> None:
        super().__init__(nn.Linear(INPUTS, HIDDEN), nn.ReLU(), nn.Linear(HIDDEN, HIDDEN), nn.ReLU(), nn.Linear(HIDDEN, OUTPUTS))


class Embedder(nn.Module):
    """Texts to vectors of 768: their bytes as tokens, 12 layers of BERT's base size, the mean over tokens."""

    def __init__(self) -> None:
        super().__init__()
        self.tokens, self.places = nn.Embedding(257, WIDTH), nn.Embedding(TOKENS, WIDTH)
        layer = nn.TransformerEncoderLayer(WIDTH, HEADS, 4 * WIDTH, activation="gelu", batch_first=True)
        self.layers = nn.TransformerEncoder(layer, LAYERS, enable_nested_tensor=False)

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        absent = tokens == 0
        hidden = self.tokens(tokens) + self.places(torch.arange(tokens.shape[1]))
        hidden = self.layers(hidden, src_key_padding_mask=absent)
        there = (~absent).unsqueeze(-1).to(hidden.dtype)
        return (hidden * there).sum(1) / there.sum(1)


def tokenized(texts: list[str]) -> torch.Tensor:
    """Bytes of texts plus one, (texts, the longest), filled up with 0."""
    rows = [[1 + byte for byte in text.encode()[:TOKENS]] for text in texts]
    most = max(map(len, rows))
    return torch.tensor([row + [0] * (most - len(row)) for row in rows])


def loaded(kind: str, folder: str | Path) -> nn.Module:
    """The `mlp` or the `embedder` of a folder that was written by this file."""
    with torch.device("meta"):
        model = MLP() if kind == "mlp" else Embedder()
    weights = torch.load(Path(folder) / f"{kind}.pt", weights_only=True, mmap=True)
    model.load_state_dict(weights, assign=True)
    return model.eval()


class Vectors:
    """The handler of the embedder for `flambeau serve`."""

    def initialize(self, context) -> None:
        self.model = loaded("embedder", context.system_properties["model_dir"])

    def encode(self, texts: list[str]) -> torch.Tensor:
        return self.model(tokenized(texts))


def written(kind: str, folder: Path) -> None:
    """Weights, requests and expected answers of a model."""
    torch.manual_seed(1)
    model = (MLP() if kind == "mlp" else Embedder()).eval()
    torch.save(model.state_dict(), folder / f"{kind}.pt")
    if kind == "mlp":
        rows = torch.randn(ROWS, INPUTS)
        inputs = [[round(x, 4) for x in row] for row in rows.tolist()]
        with torch.no_grad():
            found = model(torch.tensor(inputs))
        program = torch.export.export(model, (rows[:2],), dynamic_shapes=({0: torch.export.Dim("rows", min=1, max=64)},))
        torch.export.save(program, folder / "mlp.pt2")
    else:
        words = "a model server answers each of its clients with the vector of the text that this client has sent".split()
        order = [[(7 * at + 3 * place * (at % 11)) % len(words) for place in range(2 + at % 8)] for at in range(ROWS)]
        inputs = [f"{at} " + " ".join(words[place] for place in places) for at, places in enumerate(order)]
        with torch.no_grad():
            found = torch.cat([model(tokenized([text])) for text in inputs])
    apart = torch.cdist(found, found).fill_diagonal_(torch.inf).min().item()
    if apart < 100 * tolerance(found):
        raise SystemExit(f"two expected answers of {kind} are {apart:.1e} apart: a mixed-up answer would pass for the right one")
    (folder / f"{kind}.json").write_text(json.dumps({"inputs": inputs, "answers": found.tolist()}))


def tolerance(answers: torch.Tensor) -> float:
    """How far a right answer may be from the expected one, in the Euclidean norm: batches and libraries sum in other orders."""
    return 1e-5 * float(answers.norm(dim=1).max())


if __name__ == "__main__":
    for name in sys.argv[2:]:
        written(name, Path(sys.argv[1]))
