"""Asks PyTorch again for the answers in geometry_recorded.json: python tests/base/record_geometry.py, with a Python that has it.

The cases stay as they are: shapes and strides of one tensor, of two operands, of a view. `test_geometry` reads the file.
"""

from __future__ import annotations

import importlib
import json
from pathlib import Path
from typing import Any

FILE = Path(__file__).with_name("geometry_recorded.json")
FORMATS = {4: "channels_last", 5: "channels_last_3d"}


def main() -> None:
    """Write the file."""
    torch = importlib.import_module("torch")

    def made(shape: list[int], strides: list[int]) -> Any:
        return torch.empty_strided(shape, strides)

    def single(shape: list[int], strides: list[int]) -> list[Any]:
        x = made(shape, strides)
        name = FORMATS.get(x.dim())
        last = name is not None and x.is_contiguous(memory_format=getattr(torch, name))
        dense = torch.ops.aten.is_non_overlapping_and_dense(x)
        return [x.is_contiguous(), dense, last, list(x.neg().stride()), list(torch.empty_like(x).stride())]

    def viewed(shape: list[int], strides: list[int], new: list[int]) -> list[int] | None:
        try:
            return list(made(shape, strides).view(new).stride())
        except RuntimeError:
            return None

    cases = json.loads(FILE.read_text())
    pairs = []
    for a, a_strides, b, b_strides, *_ in cases["pair"]:
        total = made(a, a_strides) + made(b, b_strides)
        pairs.append([a, a_strides, b, b_strides, list(total.shape), list(total.stride())])
    answers = {
        "single": [[shape, strides, *single(shape, strides)] for shape, strides, *_ in cases["single"]],
        "pair": pairs,
        "view": [[shape, strides, new, viewed(shape, strides, new)] for shape, strides, new, _ in cases["view"]],
    }
    FILE.write_text(json.dumps(answers, separators=(",", ":")))


if __name__ == "__main__":
    main()
