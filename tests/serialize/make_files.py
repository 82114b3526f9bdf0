"""Writes files/pytorch_2_13.pt and its legacy twin: python tests/serialize/make_files.py, with a Python that has PyTorch.

`check_sample` in test_files says what is in them. The archive comes out the same to the byte, the legacy file but for its keys of
storages, which are addresses.
"""

from __future__ import annotations

import importlib
from collections import OrderedDict
from pathlib import Path
from typing import Any

FILES = Path(__file__).with_name("files")


def sample(torch: Any) -> dict[str, Any]:
    """Tensors over one memory, and something of every other kind that files of weights may hold."""
    whole = torch.arange(6.0).reshape(2, 3)
    return {
        "a": whole,
        "b": whole.t(),
        "c": whole[1:],
        "p": torch.nn.Parameter(torch.ones(2)),
        "h": torch.tensor([1.5, -2.0], dtype=torch.bfloat16),
        "size": torch.Size([1, 2]),
        "dtype": torch.float32,
        "device": torch.device("cpu"),
        "od": OrderedDict(a=1, b=[1, (2, 3)]),
        "empty": torch.zeros(0, 3),
        "set": {1},
        "ex": torch.ones(1).expand(3, 4),
        "ints": [torch.arange(5), torch.tensor(7, dtype=torch.int8), torch.tensor([True, False])],
        "text": "é",
        "none": None,
        "big": 10**30,
        "rg": torch.ones(2, requires_grad=True),
    }


def main() -> None:
    """Write both files."""
    torch = importlib.import_module("torch")
    without_an_old_name = {"u16": torch.tensor([1, 65535], dtype=torch.uint16), "meta": torch.empty(2, device="meta")}
    torch.save(sample(torch) | without_an_old_name, FILES / "pytorch_2_13.pt")
    torch.save(sample(torch), FILES / "legacy_pytorch_2_13.pt", _use_new_zipfile_serialization=False)


if __name__ == "__main__":
    main()
