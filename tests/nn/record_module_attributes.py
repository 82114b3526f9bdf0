"""Asks PyTorch again for module_attributes_recorded.json: python tests/nn/record_module_attributes.py, with a Python that has it.

The calls that make modules stay as they are; a new one is a key with any value. By each call: the module's attributes beyond
those of every Module, its parameters, buffers and submodules. `test_saved_modules` reads the file.
"""

from __future__ import annotations

import importlib
import json
import warnings
from pathlib import Path
from typing import Any

FILE = Path(__file__).with_name("module_attributes_recorded.json")


def held(nn: Any, call: str) -> list[list[str]]:
    """What a module holds."""
    module = eval("nn." + call, {"nn": nn})
    own = nn.Module().__dict__
    attributes = sorted(module.__reduce_ex__(2)[2].keys() - own.keys())
    return [attributes, list(module._parameters), list(module._buffers), list(module._modules)]


def main() -> None:
    """Write the file, a call per line."""
    nn = importlib.import_module("torch.nn")
    warnings.simplefilter("ignore")
    lines = [f"  {json.dumps(call)}: {json.dumps(held(nn, call))}" for call in json.loads(FILE.read_text())]
    FILE.write_text("{\n" + ",\n".join(lines) + "\n}\n")


if __name__ == "__main__":
    main()
