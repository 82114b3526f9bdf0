"""What libraries write in their models: nn.Identity in traces, `torch._assert` and questions about traces in scripts."""

from __future__ import annotations

import io
from typing import Any

import pytest

import flambeau as torch

pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning")


def saved_and_loaded(program: Any) -> Any:
    content = io.BytesIO()
    torch.jit.save(program, content)
    content.seek(0)
    return torch.jit.load(content)


class Passed(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.same = torch.nn.Identity()

    def forward(self, x):
        y = self.same(x)
        return y + self.same(y)


def test_a_traced_module_that_makes_nothing_returns_none() -> None:
    traced = torch.jit.trace(Passed(), torch.ones(2))
    assert traced.same.code == "def forward(self) -> NoneType:\n  return None\n"
    assert traced.code == (
        "def forward(self,\n    x: Tensor) -> Tensor:\n  same = self.same\n  _0 = (same).forward()\n"
        "  _1 = (same).forward1()\n  return torch.add(x, x)\n"
    )
    loaded = saved_and_loaded(traced)
    assert loaded.code == traced.code and loaded(torch.ones(3)).tolist() == [2.0] * 3


def test_numbers_of_values_are_pytorchs() -> None:
    model = torch.nn.Sequential(torch.nn.Linear(3, 3), torch.nn.Identity(), torch.nn.ReLU())
    graph = str(torch.jit.trace(model, torch.ones(2, 3)).graph)
    assert '%30 : NoneType = prim::CallMethod[name="forward"](%_1)' in graph and graph.endswith("return (%31)\n")


def asserted(x):
    torch._assert(x.shape[0] > 1, f"{x.shape[0]} is too few")
    return x + 1


def traced_or_not(x):
    return x if torch.jit.is_tracing() else x * 2


def with_state(x):
    if torch._C._get_tracing_state():
        x = x + 1
    return x


def test_assertions_are_compiled() -> None:
    program = saved_and_loaded(torch.jit.script(asserted))
    assert program(torch.ones(2)).tolist() == [2.0, 2.0]
    with pytest.raises(torch.jit.Error, match="AssertionError: 1 is too few"):
        program(torch.ones(1))
    assert "# <string>:8:2" in str(torch.jit.script(asserted).graph)


def test_a_program_is_no_trace() -> None:
    script = torch.jit.script(traced_or_not)
    assert "_0 = __torch__.torch.jit._trace.is_tracing()" in script.code
    assert saved_and_loaded(script)(torch.ones(1)).item() == 2.0
    assert torch.jit.script(with_state).code == "def with_state(x: Tensor) -> Tensor:\n  return x\n"


def test_compiled_code_of_pytorch_is_no_program() -> None:
    def asks(x):
        return torch._C._is_tracing()

    with pytest.raises(RuntimeError, match=r"Python builtin .* is currently not supported in Torchscript"):
        torch.jit.script(asks)
