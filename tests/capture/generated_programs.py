"""Programs made of random pieces, each with ways to change what it looks at: for the fuzzer of captured functions.

`pieces.txt` has them: what stands around the function, what the function does with `y`, and statements that change the former,
one a line; `{n}` is the piece's number, `V` a random value, `r` a random.Random. Programs are files, since capture reads sources.
"""

from __future__ import annotations

import ast
import random
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import flambeau as torch
from tests.capture.mutated_programs import Case


class Piece(NamedTuple):
    """Text of a program: around the function, in it, and changes, one a line."""

    around: str
    inside: str
    changes: str


_VALUES = "r.choice([1.0, 2.0, 2, 3, True, -0.0, 0.0, 0.5, float('nan'), 1.25])"
PIECES = [
    Piece(*(part.strip("\n") for part in piece.split("\n---\n")))
    for piece in (Path(__file__).parent / "pieces.txt").read_text().split("===\n")[1:]
]
_HEAD = """\
import collections
import functools
import types

import flambeau as torch
from flambeau import nn
from flambeau.nn import functional as F

"""
_ENDS = ["return y", "return y, x, {'first': y[0]}", "return [y, y.sum(), y * 2]", "x.mul_(0.5)\nreturn y + other"]


def program(seed: int, folder: Path) -> Case:
    """A program with its changes."""
    r = random.Random(seed)
    chosen = [(n, r.choice(PIECES)) for n in range(r.randrange(2, 6))]
    body = "\n".join(piece.inside.replace("{n}", str(n)) for n, piece in chosen) + "\n" + r.choice(_ENDS)
    text = _HEAD + "\n".join(piece.around.replace("{n}", str(n)) for n, piece in chosen)
    text += "\n\n\ndef f(x, other, k=1.0):\n    y = x * k + other\n    " + body.replace("\n", "\n    ") + "\n"
    bound = {at.id for at in ast.walk(ast.parse(text)) if isinstance(at, ast.Name) and isinstance(at.ctx, ast.Store)}
    bound |= {at.name for at in ast.parse(text).body if isinstance(at, (ast.FunctionDef, ast.ClassDef))}
    declared = ", ".join(sorted(name for name in bound if name[-1].isdigit()))
    statements = [
        change.replace("V", _VALUES).replace("{n}", str(n))
        for n, piece in chosen
        for change in piece.changes.split("\n")
        if change
    ]
    for i, statement in enumerate(statements):
        text += f"\n\ndef change_{i}():\n" + (f"    global {declared}\n" if declared else "") + f"    {statement}\n"
    file = folder / f"generated_{seed}.py"
    file.write_text(text)
    names: dict[str, Any] = {"__name__": f"generated_{seed}", "r": r}
    exec(compile(text, str(file), "exec"), names)

    def arguments() -> tuple[Any, ...]:
        x = torch.randn(r.choice([3, 3, 3, 2]), 4)
        match r.randrange(8):
            case 0:
                return x, x
            case 1:
                return x, x[:1]
            case 2:
                return torch.randn(4, 3).t(), x
            case 3:
                return x, torch.randn(3, 4).resize_(1, 4), 2
            case 4:
                return x, torch.randn(4).requires_grad_()
        return x, torch.randn(4)

    def doing(change: Callable[[], Any]) -> Callable[[Any], Any]:
        def do(_: Any) -> None:
            def run() -> None:
                try:
                    change()
                except (RuntimeError, TypeError, IndexError, ValueError, AttributeError, NotImplementedError):
                    pass  # what the program's state doesn't allow now

            if r.random() < 0.1:
                thread = threading.Thread(target=run)
                thread.start()
                thread.join()
            else:
                run()

        return do

    return Case(names["f"], arguments, [doing(names[f"change_{i}"]) for i in range(len(statements))])
