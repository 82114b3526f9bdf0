"""Writes recorded.json: what PyTorch answers to the expressions of cases.txt. Run it with a Python that has PyTorch.

cases.txt has groups of cases: a title behind `==`, what is made first, and behind `--` the expressions.
"""

from __future__ import annotations

import json
import warnings
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent


def groups() -> dict[str, tuple[str, list[str]]]:
    """What is made first, and the expressions, by title."""
    made = {}
    for group in (HERE / "cases.txt").read_text(encoding="utf-8").split("== ")[1:]:
        title, _, rest = group.partition("\n")
        setup, _, expressions = rest.partition("\n--\n")
        made[title] = setup, expressions.strip().splitlines()
    return made


def answers(torch: Any, setup: str, expressions: list[str]) -> dict[str, str]:
    """The repr of each expression's result, or the exception's type and the first 100 characters of its words."""
    scope = {"torch": torch}
    exec(setup, scope)
    made = {}
    for expression in expressions:
        try:
            made[expression] = repr(eval(expression, scope))
        except Exception as error:
            made[expression] = f"{type(error).__name__}: " + str(error).split("\n")[0][:100]
    return made


if __name__ == "__main__":
    import torch

    warnings.simplefilter("ignore")
    recorded = {title: answers(torch, *cases) for title, cases in groups().items()}
    (HERE / "recorded.json").write_text(json.dumps(recorded, indent=0) + "\n", encoding="utf-8")
