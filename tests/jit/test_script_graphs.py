"""Graphs and texts of compiled functions, as PyTorch prints them, and what running them gives."""

from __future__ import annotations

import re
import textwrap

import pytest

import flambeau as torch
from flambeau.jit.execution.calls import invoke
from flambeau.jit.frontend.functions import compile_function
from flambeau.jit.frontend.text import functions_of_text
from flambeau.jit.printing.code import code_of


def branches(x, n: int):
    if n > 0:
        x = x + 1
    else:
        x = x - 1
    return x


def counted(x, n: int):
    for i in range(n):
        x = x + i
    return x


def test_a_branch() -> None:
    made = compile_function(branches)
    assert re.sub(r" # .*", "", str(made.graph)) == textwrap.dedent("""\
        graph(%x.1 : Tensor,
              %n.1 : int):
          %3 : int = prim::Constant[value=0]()
          %7 : int = prim::Constant[value=1]()
          %4 : bool = aten::gt(%n.1, %3)
          %x : Tensor = prim::If(%4)
            block0():
              %x.5 : Tensor = aten::add(%x.1, %7, %7)
              -> (%x.5)
            block1():
              %x.11 : Tensor = aten::sub(%x.1, %7, %7)
              -> (%x.11)
          return (%x)
        """)
    assert code_of(made) == (
        "def branches(x: Tensor,\n    n: int) -> Tensor:\n  if torch.gt(n, 0):\n    x0 = torch.add(x, 1)\n  else:\n"
        "    x0 = torch.sub(x, 1)\n  return x0\n"
    )
    assert invoke(made, (torch.ones(1), 1), {}).item() == 2 and invoke(made, (torch.ones(1),), {"n": -1}).item() == 0


def test_a_text_gives_the_function_that_it_was_written_of() -> None:
    text = code_of(compile_function(counted))
    again = functions_of_text(text)["counted"]
    assert code_of(again) == text
    assert invoke(again, (torch.zeros(1), 4), {}).item() == 6


def test_arguments_must_fit() -> None:
    made = compile_function(counted)
    with pytest.raises(RuntimeError, match="Expected a value of type 'int' for argument 'n' but instead found type 'str'"):
        invoke(made, (torch.ones(1), "a"), {})
    with pytest.raises(RuntimeError, match="is missing value for argument 'n'"):
        invoke(made, (torch.ones(1),), {})
