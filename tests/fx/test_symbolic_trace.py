"""Symbolic tracing: the graph and the code of functions and modules; expected texts are PyTorch's."""

import copy
import gc
import math
import pickle

import pytest

import flambeau as torch
import flambeau.nn.functional as F
from flambeau import fx, nn


def code(function, **options) -> str:
    return fx.symbolic_trace(function, **options).code.strip()


def lines(function) -> list[str]:
    return [line.strip() for line in code(function).splitlines()]


def test_code_and_graph_of_a_function() -> None:
    def function(x, y: torch.Tensor, z: int = 3):
        return torch.relu(x) + y * z

    traced = fx.symbolic_trace(function)
    assert traced.code == (
        "\n\n\ndef forward(self, x, y : torch.Tensor, z : int = 3):\n"
        "    relu = torch.relu(x);  x = None\n"
        "    mul = y * z;  y = z = None\n"
        "    add = relu + mul;  relu = mul = None\n"
        "    return add\n    "
    )
    assert str(traced.graph) == (
        "graph():\n"
        "    %x : [num_users=1] = placeholder[target=x]\n"
        "    %y : torch.Tensor [num_users=1] = placeholder[target=y]\n"
        "    %z : int [num_users=1] = placeholder[target=z](default=3)\n"
        "    %relu : [num_users=1] = call_function[target=torch.relu](args = (%x,), kwargs = {})\n"
        "    %mul : [num_users=1] = call_function[target=operator.mul](args = (%y, %z), kwargs = {})\n"
        "    %add : [num_users=1] = call_function[target=operator.add](args = (%relu, %mul), kwargs = {})\n"
        "    return add"
    )
    x, y = torch.randn(4), torch.randn(4)
    assert torch.equal(traced(x, y), function(x, y))


def test_functions_that_pytorch_writes_in_python_show_their_defaults() -> None:
    assert lines(lambda x: F.dropout(F.relu(x), 0.1))[1:3] == [
        "relu = torch.nn.functional.relu(x, inplace = False);  x = None",
        "dropout = torch.nn.functional.dropout(relu, p = 0.1, training = True, inplace = False);  relu = None",
    ]
    assert lines(lambda x: F.gelu(F.linear(x, x)))[1:3] == [
        "linear = torch._C._nn.linear(x, x);  x = None",
        "gelu = torch._C._nn.gelu(linear);  linear = None",
    ]


def test_sequences_of_proxies_and_shapes() -> None:
    def function(x):
        a, b = x.shape[0], x.size(1)
        return torch.cat([x, x]).view(a, b, -1)[:, 1:3, ..., None]

    assert code(function) == (
        "def forward(self, x):\n"
        "    getattr_1 = x.shape\n"
        "    getitem = getattr_1[0];  getattr_1 = None\n"
        "    size = x.size(1)\n"
        "    cat = torch.cat([x, x]);  x = None\n"
        "    view = cat.view(getitem, size, -1);  cat = getitem = size = None\n"
        "    getitem_1 = view[(slice(None, None, None), slice(1, 3, None), Ellipsis, None)];  view = None\n"
        "    return getitem_1"
    )


class Small(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.lin = nn.Linear(3, 3)
        self.p = nn.Parameter(torch.ones(3))
        self.register_buffer("b", torch.zeros(3))
        self.seq = nn.Sequential(nn.ReLU(), nn.Linear(3, 3))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.seq(self.lin(x)) + self.p + self.b + torch.ones(3)


SMALL = """def forward(self, x : torch.Tensor) -> torch.Tensor:
    lin = self.lin(x);  x = None
    seq_0 = getattr(self.seq, "0")(lin);  lin = None
    seq_1 = getattr(self.seq, "1")(seq_0);  seq_0 = None
    p = self.p
    add = seq_1 + p;  seq_1 = p = None
    b = self.b
    add_1 = add + b;  add = b = None
    _tensor_constant0 = self._tensor_constant0
    add_2 = add_1 + _tensor_constant0;  add_1 = _tensor_constant0 = None
    return add_2"""


def test_a_module_and_its_copies() -> None:
    module = Small()
    traced = fx.symbolic_trace(module)
    x = torch.randn(2, 3)
    assert traced.code.strip() == SMALL and type(traced).__name__ == "Small"
    assert torch.equal(traced(x), module(x)) and traced.lin is module.lin
    for other in (pickle.loads(pickle.dumps(traced)), copy.deepcopy(traced)):
        assert other.code == traced.code and torch.equal(other(x), module(x)) and other.lin is not module.lin
    assert [name for name, _ in traced.named_modules()] == ["", "lin", "seq", "seq.0", "seq.1"]


@pytest.mark.parametrize(
    ("function", "message"),
    [
        (lambda x: 1 if x.sum() > 0 else 2, "symbolically traced variables cannot be used as inputs to control flow"),
        (lambda x: tuple(x), "Proxy object cannot be iterated"),
        (lambda x: dict(**x), "Proxy object cannot be iterated"),
    ],
)
def test_control_flow_is_refused(function, message: str) -> None:
    with pytest.raises(fx.proxy.TraceError, match=message):
        fx.symbolic_trace(function)
    assert torch.relu(torch.tensor(-1.0)) == 0  # functions are themselves again


def test_math_is_wrapped() -> None:
    assert code(lambda x: math.sqrt(x)) == (
        'torch.fx._symbolic_trace.wrap("math_sqrt")\n\ndef forward(self, x):\n    sqrt = math_sqrt(x);  x = None\n    return sqrt'
    )


def test_nothing_is_exchanged_when_no_proxy_is_left() -> None:
    gc.collect()
    x = torch.ones(2)
    torch.add(x, torch.cat([x, x + x])[:2])
    before = torch.add.__code__, torch.cat.__code__, torch.Tensor.__add__.__code__
    traced = fx.symbolic_trace(lambda x: torch.add(x, 1, alpha=2))
    assert traced.graph.find_nodes(op="call_function", target=torch.add)[0].kwargs == {"alpha": 2}
    torch.add(x, torch.cat([x, x + x])[:2])
    assert (torch.add.__code__, torch.cat.__code__, torch.Tensor.__add__.__code__) == before
