"""Asks PyTorch again for bad_input_recorded.json: python tests/programs/record_bad_input.py, with a Python that has it and NumPy.

The calls stay as they are; a new one is an entry with any exception and words. `test_bad_input`
reads the file.
"""

from __future__ import annotations

import importlib
import json
import re
import warnings
from pathlib import Path
from typing import Any

FILE = Path(__file__).with_name("bad_input_recorded.json")


def write(target: Any, index: Any, value: Any) -> None:
    """An assignment, as an expression."""
    target[index] = value


def in_order(members: str) -> str:
    """The members of a set, which Python prints in an order that differs from run to run."""
    return ", ".join(sorted(members.split(", ")))


def raised(call: str, names: dict[str, Any]) -> tuple[str, str]:
    """The exception's name and the first line of its words. AssertionError if there is none."""
    try:
        eval(call, names)
    except BaseException as error:
        first = str(error).split("\n")[0]
        return type(error).__name__, re.sub(r"{('\w+'(?:, '\w+')*)}", lambda found: f"{{{in_order(found[1])}}}", first)
    raise AssertionError(f"PyTorch takes {call}")


def main() -> None:
    """Write the file, a call per line."""
    torch = importlib.import_module("torch")
    warnings.simplefilter("ignore")
    names = {"torch": torch, "nn": torch.nn, "F": torch.nn.functional, "np": importlib.import_module("numpy"), "write": write}
    entries = [[call, *raised(call, names)] for call, _, _ in json.loads(FILE.read_text())]
    FILE.write_text("[\n" + ",\n".join(" " + json.dumps(entry, ensure_ascii=False) for entry in entries) + "\n]\n")


if __name__ == "__main__":
    main()
