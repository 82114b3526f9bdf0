"""What libraries write in their models: nn.Identity in traces, `torch._assert` and questions about traces in scripts."""

import io
from typing import Any, Optional

import pytest

import flambeau as torch
from flambeau.jit.annotations import BroadcastingList2
from flambeau.nn.modules.utils import _pair

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


def empty(names: list[str], sizes: dict[str, int], text: str):
    return not names, not sizes, bool(text)


def test_containers_are_true_unless_they_are_empty() -> None:
    program = torch.jit.script(empty)
    assert program([], {"a": 1}, "") == (True, False, False) and program(["a"], {}, "b") == (False, True, True)
    assert "_0 = torch.__not__(torch.gt(torch.len(names), 0))" in program.code


class Targets(torch.nn.Module):
    def forward(self, x: torch.Tensor, targets: Optional[list[dict[str, torch.Tensor]]] = None):  # noqa: UP045
        return x, targets


class Around(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.inner = Targets()

    def forward(self, x: torch.Tensor, targets: Optional[list[dict[str, torch.Tensor]]] = None):  # noqa: UP045
        x, targets = self.inner(x, targets)
        return x


def test_an_optional_list_is_handed_on_as_it_is() -> None:
    assert torch.jit.script(Around())(torch.ones(1), None).item() == 1.0


def pairs(x, size: BroadcastingList2[int]):
    return torch.unique(x), _pair(size)[1]


def test_unique_and_pairs() -> None:
    values, second = torch.jit.script(pairs)(torch.tensor([3, 1, 3]), [4, 5])
    assert values.tolist() == [1, 3] and second == 5


@torch.jit.script_if_tracing
def offsets(boxes, idxs):
    return boxes + idxs.to(boxes)[:, None] * (boxes.max() + torch.tensor(1).to(boxes))


def test_conversions_to_what_another_tensor_is_in_traces() -> None:
    boxes, idxs = torch.rand(3, 4), torch.tensor([0, 1, 0])
    traced = torch.jit.trace(lambda x, i: offsets(x, i), (boxes, idxs))
    assert torch.equal(traced(boxes[:2] * 2, idxs[:2]), offsets(boxes[:2] * 2, idxs[:2]))
