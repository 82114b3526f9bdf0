"""Asks PyTorch again for everyday_errors.txt: python tests/core/record_everyday_errors.py, with a Python that has it.

The file holds mistakes, one line of a program each, and below each what PyTorch says to it. The mistakes stay as they are; a new
one is a line of its own. Used by test_everyday_errors, which makes the same mistakes in flambeau.
"""

from __future__ import annotations

import importlib
import warnings
from pathlib import Path
from typing import Any

FILE = Path(__file__).with_name("everyday_errors.txt")
PROGRAM = "<program>"  # the file name that the lines are compiled under
SETUP = """
F, nn = torch.nn.functional, torch.nn
x = torch.arange(12.0).reshape(3, 4)
i = torch.arange(12).reshape(3, 4)
w = torch.ones(3, 4, requires_grad=True)
class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.first = nn.Linear(4, 2)
        self.second = nn.Linear(3, 1)
    def forward(self, x):
        return self.second(self.first(x))
net = Net()
class Half(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        return x / 2
    @staticmethod
    def backward(ctx, g):
        return g @ g
def twice():
    y = (w * w).sum()
    y.backward()
    y.backward()
def inplace_saved():
    y = w.exp()
    y.add_(1)
    y.sum().backward()
def hook():
    y = w * 2
    y.register_hook(lambda g: g.view(5))
    y.sum().backward()
class Data(torch.utils.data.Dataset):
    def __len__(self):
        return 4
    def __getitem__(self, at):
        return torch.ones(at)
"""


def recorded() -> dict[str, str]:
    """What PyTorch says, by the line that it says it to; nothing for a new line."""
    found: dict[str, str] = {}
    mistake = ""
    for line in FILE.read_text().splitlines():
        if not line.startswith("    "):
            mistake = line
            found[mistake] = ""
        else:
            found[mistake] += "\n" * bool(found[mistake]) + line[4:]
    return found


def said_of(error: BaseException) -> str:
    """The last lines that Python prints, without blanks at their ends."""
    lines = f"{type(error).__name__}: {error}".rstrip().split("\n")
    return "\n".join(line.rstrip() for line in lines)


def answer(torch: Any, line: str) -> str:
    """What an implementation says to a line. AssertionError if it takes it."""
    scope: dict[str, Any] = {"torch": torch}
    exec(compile(SETUP, PROGRAM, "exec"), scope)
    try:
        exec(compile(line, PROGRAM, "exec"), scope)
    except Exception as error:
        return said_of(error)
    raise AssertionError(f"PyTorch takes {line}")


def main() -> None:
    """Write the file."""
    torch = importlib.import_module("torch")
    warnings.simplefilter("ignore")
    lines = []
    for mistake in recorded():
        lines += [mistake, *(f"    {line}".rstrip() for line in answer(torch, mistake).split("\n"))]
    FILE.write_text("\n".join(lines) + "\n")


if __name__ == "__main__":
    main()
