"""Which operators public calls are to a tracer, and what those that PyTorch makes of others are made of below autograd."""

from __future__ import annotations

from typing import Any

import pytest

import flambeau as torch
from flambeau.utils._python_dispatch import TorchDispatchMode

X, V = torch.ones(4, 5), torch.ones(3)
CELL = (X, (X, X), torch.ones(20, 5), torch.ones(20, 5))
#: What torch.export records, as PyTorch does: operators with the arguments that are no nodes.
RECORDED = {
    "7 // x": ["floor_divide.default(7)"],
    "torch.atleast_3d(v)": ["atleast_3d.default()"],
    "torch.tensordot(x, x.t(), 1)": ["t.default()", "tensordot.default([-1], [0])"],
    "torch.lstm_cell(x, (x, x), *weights)[0]": ["lstm_cell.default()"],
    "x.unsafe_chunk(2)[0]": ["unsafe_chunk.default(2)"],
    "x.split([1, 3])[0]": ["split_with_sizes.default([1, 3])"],
    "x.to(torch.float64, copy=True)": ["_assert_tensor_metadata.default()", "to.dtype(torch.float64, False, True)"],
}
#: What a mode below autograd sees, as PyTorch's does.
MADE_OF = {
    "torch.lstm_cell(x, (x, x), *weights)": "t mm t mm add_ unsafe_split sigmoid_ sigmoid_ tanh_ sigmoid_ mul mul add_ tanh mul",
    "torch.rnn_tanh_cell(x, x, square, square)": "t mm t mm add_ tanh",
    "torch.nn.functional.margin_ranking_loss(x, x, x)": "sub neg mul add clamp_min_ mean",
    "torch.cosine_similarity(x, x)": (
        "linalg_vector_norm clone linalg_vector_norm clone scalar_tensor clamp_min_ clamp_min_ div div mul sum"
    ),
    "torch.max(x, x)": "maximum",
    "torch.nanmean(x, 1)": "detach ne logical_not_ sum nansum div",
    "torch.diff(x)": "slice slice sub",
    "torch.where(x > 0, 1, 0)": "gt scalar_tensor scalar_tensor where",
}


def _scope() -> dict[str, Any]:
    return {"torch": torch, "x": X.clone(), "v": V.clone(), "weights": CELL[2:], "square": torch.ones(5, 5)}


@pytest.mark.parametrize("call", RECORDED)
def test_export_records_pytorchs_operators(call: str) -> None:
    scope = _scope()

    class Module(torch.nn.Module):
        def forward(self, x: Any, v: Any) -> Any:
            return eval(call, {**scope, "x": x, "v": v})

    seen = []
    for node in torch.export.export(Module(), (X, V)).graph.nodes:
        if node.op != "call_function" or "getitem" in str(node.target):
            continue
        plain = [x for x in node.args if not isinstance(x, torch.fx.Node) and not _has_nodes(x)]
        seen.append(f"{str(node.target).removeprefix('aten.')}({', '.join(map(str, plain))})")
    assert seen == RECORDED[call]


def _has_nodes(x: Any) -> bool:
    return isinstance(x, (list, tuple)) and any(isinstance(item, torch.fx.Node) for item in x)


class _Log(TorchDispatchMode):
    def __init__(self) -> None:
        self.names: list[str] = []

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        self.names.append(func.overloadpacket.__name__)
        return func(*args, **(kwargs or {}))


@pytest.mark.parametrize("call", MADE_OF)
def test_a_mode_sees_what_a_composite_is_made_of(call: str) -> None:
    expected = eval(call, _scope())
    scope = _scope()
    with _Log() as log:
        found = eval(call, scope)
    assert log.names == MADE_OF[call].split()
    torch.testing.assert_close(found, expected)


def test_gradients_of_cells_pass_through_a_mode() -> None:
    x, weight = torch.rand(2, 3), torch.rand(12, 3)
    found = []
    for mode in (torch.enable_grad(), _Log()):
        given = [t.clone().requires_grad_() for t in (x, weight)]
        with mode:
            hidden, cell = torch.lstm_cell(given[0], (given[0], given[0]), given[1], given[1])
            (hidden + cell).sum().backward()
        found.append([t.grad for t in given])
    torch.testing.assert_close(*found)


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_a_trace_records_what_a_cell_is_made_of() -> None:
    def step(x: Any, h: Any, w: Any) -> Any:
        return torch.rnn_tanh_cell(x, h, w, w)

    graph = torch.jit.trace(step, (X, X.clone(), torch.ones(5, 5)), check_trace=False).graph
    kinds = [node.kind() for node in graph.nodes() if node.kind() != "prim::Constant"]
    assert kinds == ["aten::linear", "aten::linear", "aten::add_", "aten::tanh"]
