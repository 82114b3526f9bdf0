"""Small programs for torch.compile: what graphs a backend gets of each, and what each gives.

`record(name)` runs one under the implementation under test; `record_graphs.py` has PyTorch's answers written into
`graphs_recorded.json`, with which `test_recorded_graphs` compares.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from implementation import torch

F = torch.nn.functional
PROGRAMS: dict[str, tuple[Callable[..., Any], tuple[Any, ...]]] = {}
WEIGHT = torch.linspace(-1, 1, 4)
SCALE = 2.5


def values(*shape: int, grad: bool = False) -> Any:
    """The same numbers every time."""
    count = 1
    for n in shape:
        count *= n
    return (((torch.arange(count) * 7 % 11).float() - 5) / 4).reshape(shape).requires_grad_(grad)


def program(*args: Any) -> Callable[..., Any]:
    """Decorate a program that is called with these arguments; a function among them makes one."""

    def add(function: Callable[..., Any]) -> Callable[..., Any]:
        PROGRAMS[function.__name__] = function, args
        return function

    return add


X, M = (lambda: values(4)), (lambda: values(3, 4))


@program(X)
def two_operators(x):
    return x * 2 + 1


@program(X)
def named_results(x):
    doubled = x * 2
    shifted = doubled - 1
    return shifted / 3


@program(X)
def same_name_again(x):
    x = x + 1
    x = x * 2
    return x


@program(X)
def reflected(x):
    return 2 - x, 1 / (x + 3), 2**x


@program(X)
def methods_and_functions(x):
    return torch.relu(x), x.relu(), F.relu(x), torch.sin(x).cos()


@program(X)
def comparisons(x):
    return x > 0, x == 1, x != 2, x <= 3


@program(X)
def unary(x):
    return -x, ~(x > 0), abs(x)


@program(M, M)
def two_inputs_by_use(a, b):
    return b.t() @ a


@program(X)
def unused_result(x):
    x.sin()
    return x.cos()


@program(X)
def global_tensor(x):
    return x * WEIGHT


@program(X)
def global_number(x):
    return x * SCALE


@program(lambda: [values(4), values(4) + 1])
def list_argument(pair):
    return pair[0] * pair[1]


@program(lambda: {"a": values(4), "b": {"c": values(4)}})
def dict_argument(d):
    return d["a"] + d["b"]["c"]


@program(X, lambda: 3)
def number_argument(x, n):
    return x * n


@program(X)
def default_argument(x, scale=2.0):
    return x * scale


@program(M)
def several_results(x):
    largest, places = torch.max(x, 1)
    return largest * 2, places


@program(M)
def one_of_several(x):
    return x.chunk(2, 1)[1] + 1


@program(M)
def sizes(x):
    n, m = x.shape
    return x.reshape(m, n) * x.size(0)


@program(M)
def views(x):
    return x.view(-1)[2:5], x.unsqueeze(0).expand(2, 3, 4)


@program(M)
def indexing(x):
    return x[0], x[:, 1], x[..., None], x[1:, ::2]


@program(M)
def indexing_by_tensor(x):
    return x[torch.tensor([0, 2])]


@program(X)
def factories(x):
    return x + torch.ones(4), torch.arange(4), torch.zeros_like(x)


@program(X)
def write_to_input(x):
    x.add_(1)
    return x * 2


@program(X)
def augmented_write(x):
    x += 1
    return x * 2


@program(X)
def write_to_result(x):
    y = x.clone()
    y.mul_(3)
    return y + 1


@program(X)
def assignment_to_item(x):
    y = x.clone()
    y[0] = 7
    return y


@program(X)
def returns_its_input(x):
    return x, x + 1


@program(X)
def returns_nothing(x):
    x.add_(1)


@program(X)
def nested_results(x):
    return {"a": x + 1, "b": [x * 2, (x - 1, 3)]}


@program(X)
def without_gradients(x):
    with torch.no_grad():
        y = x * 2
    return y + 1


@program(lambda: values(4, grad=True))
def gradients(x):
    return (x * x).sum()


@program(lambda: values(4, grad=True))
def without_gradients_inside(x):
    with torch.no_grad():
        y = x * 2
    return (x * y).sum()


@program(X)
def loop(x):
    for i in range(3):
        x = x * i + 1
    return x


@program(X)
def comprehension(x):
    return torch.stack([x * i for i in range(3)])


@program(X)
def branch_on_size(x):
    if x.shape[0] > 3:
        return x + 1
    return x - 1


@program(X)
def branch_on_value(x):
    if x.sum() > 0:
        return x + 1
    return x - 1


@program(X)
def branch_between(x):
    y = x * 2
    if y.sum() > 100:
        return y + 1
    return y - 1


@program(X)
def number_of_tensor(x):
    t = x.sum().item()
    return x * t


@program(X)
def explicit_break(x):
    y = x * 2
    torch._dynamo.graph_break()
    return y + x


@program(X)
def two_breaks(x):
    y = x + 1
    torch._dynamo.graph_break()
    z = y * 2
    torch._dynamo.graph_break()
    return z - y


def helper(x, y):
    """A function that the program calls."""
    total = x + y
    return total * 2


@program(X)
def called_function(x):
    return helper(x, x + 1)


@torch.compiler.disable
def aside(x):
    """A function that no graph has."""
    return x * 3


@program(X)
def disabled_function(x):
    y = x + 1
    return aside(y) - 1


@program(X)
def cat_and_stack(x):
    return torch.cat([x, x + 1]), torch.stack((x, x), dim=1)


@program(M)
def reductions(x):
    return x.sum(), x.mean(dim=1, keepdim=True), x.std(0), x.argmax()


@program(M)
def functional(x):
    return F.softmax(x, dim=-1), F.gelu(x), F.layer_norm(x, (4,)), F.dropout(x, 0.5, training=False)


@program(M)
def matrices(x):
    return x @ x.T, torch.matmul(x, x.t()), torch.einsum("ij,kj->ik", x, x)


@program(X)
def types(x):
    return x.to(torch.float64), x.double(), x.int(), x.type_as(x)


@program(X)
def random_numbers(x):
    return x + torch.rand(4), torch.randn(2)


@program(X)
def iterates(x):
    total = 0
    for part in x:
        total = total + part
    return total


@program(X)
def where_and_masks(x):
    return torch.where(x > 0, x, -x), x.masked_fill(x < 0, 0.0), x.clamp(min=0)


@program(X, X)
def keywords(x, y):
    return torch.add(x, y, alpha=2), x.sum(dim=0)


@program(X)
def detached(x):
    return x.detach() + 1


@program(X)
def constants(x):
    return x + torch.tensor([1.0, 2.0, 3.0, 4.0])


# ---------------------------------------------------------------- modules


def filled(module: Any) -> Any:
    """A module with the same numbers every time."""
    with torch.no_grad():
        for p in module.parameters():
            p.copy_(values(*p.shape))
    return module


class Block(torch.nn.Module):
    """Parameters, buffers and submodules."""

    def __init__(self) -> None:
        super().__init__()
        self.fc = torch.nn.Linear(4, 4)
        self.norm = torch.nn.BatchNorm1d(4)
        self.bias = torch.nn.Parameter(torch.zeros(4))
        self.register_buffer("scale", torch.ones(4))

    def forward(self, x):
        y = F.relu(self.norm(self.fc(x)))
        return y * self.scale + self.bias


class Stack(torch.nn.Module):
    """A list of modules."""

    def __init__(self) -> None:
        super().__init__()
        self.layers = torch.nn.ModuleList([torch.nn.Linear(4, 4) for _ in range(2)])

    def forward(self, x):
        for layer in self.layers:
            x = layer(x).tanh()
        return x


class Keeps(torch.nn.Module):
    """A module that keeps what it computed, and counts."""

    def __init__(self) -> None:
        super().__init__()
        self.calls = 0
        self.last = None

    def forward(self, x):
        self.calls += 1
        self.last = x * self.calls
        return self.last + 1


def _module(name: str, make: Callable[[], Any], *args: Any) -> None:
    PROGRAMS[name] = make, args


_module("module_block", lambda: filled(Block()), M)
_module("module_block_eval", lambda: filled(Block()).eval(), M)
_module("module_stack", lambda: filled(Stack()), M)
_module("module_keeps", Keeps, X)
_module("module_sequential", lambda: filled(torch.nn.Sequential(torch.nn.Linear(4, 2), torch.nn.ReLU())), M)
_module("module_convolution", lambda: filled(torch.nn.Conv2d(1, 2, 3)), lambda: values(1, 1, 5, 5))
_module("module_embedding", lambda: filled(torch.nn.Embedding(5, 3)), lambda: torch.tensor([1, 4]))
_module("module_layer_norm", lambda: torch.nn.LayerNorm(4), M)
_module("module_dropout", lambda: torch.nn.Dropout(0.5), X)


# ---------------------------------------------------------------- running


# ---------------------------------------------------------------- modes and operators of the program


@program(M)
def autocast_block(x):
    y = x + 1
    with torch.autocast("cpu", dtype=torch.bfloat16):
        z = y @ x.t()
    return z.float() * 2


@program(M)
def autocast_twice(x):
    with torch.autocast("cpu", dtype=torch.bfloat16):
        y = x @ x.t()
    with torch.autocast("cpu", dtype=torch.float16):
        z = x @ x.t()
    return y.float() + z.float()


@program(M)
def autocast_that_is_off(x):
    with torch.autocast("cpu", enabled=False):
        y = x @ x.t()
    return y + 1


@program(lambda: values(3, 4, grad=True))
def autocast_with_gradients(x):
    with torch.autocast("cpu", dtype=torch.bfloat16):
        y = torch.mm(x, x.t())
    return y.float().sum()


@program(X)
def inference_block(x):
    with torch.inference_mode():
        y = x * 2
    return y


@program(lambda: values(4, grad=True))
def no_grad_and_back(x):
    with torch.no_grad():
        y = x * 2
        with torch.enable_grad():
            z = x * 3
    return y * z


@program(lambda: values(4, grad=True))
def grad_mode_by_function(x):
    torch.set_grad_enabled(False)
    y = x * 2
    torch.set_grad_enabled(True)
    return x * y


@torch.library.custom_op("graph_programs::scaled", mutates_args=())
def scaled(x: torch.Tensor, by: float) -> torch.Tensor:
    """A program's own operator."""
    return x * by


@scaled.register_fake
def _(x: torch.Tensor, by: float) -> torch.Tensor:
    return torch.empty_like(x)


@program(X)
def custom_operator(x):
    return scaled(x + 1, 2.0) * 3


@torch.library.custom_op("graph_programs::halves", mutates_args=())
def halves(x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """One with two results."""
    return x[:2].clone(), x[2:].clone()


@halves.register_fake
def _(x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    return x.new_empty(2), x.new_empty(x.shape[0] - 2)


@program(X)
def custom_operator_with_two_results(x):
    first, second = halves(x * 2)
    return first + second


@program(X)
def custom_operator_behind_a_break(x):
    y = scaled(x, 3.0)
    torch._dynamo.graph_break()
    return scaled(y, 0.5) + 1


def plain(result: Any) -> Any:
    """A result as JSON has it, floats rounded."""
    if isinstance(result, torch.Tensor):
        result = result.detach()
        return [str(result.dtype).rpartition(".")[2], list(result.shape), rounded(result.tolist())]
    if isinstance(result, dict):
        return {key: plain(x) for key, x in result.items()}
    return [plain(x) for x in result] if isinstance(result, (list, tuple)) else result


def rounded(x: Any) -> Any:
    """Floats with four digits behind the point."""
    if isinstance(x, list):
        return [rounded(y) for y in x]
    return round(x, 4) + 0.0 if isinstance(x, float) else x


def record(name: str) -> dict[str, Any]:
    """The graphs of a program: placeholders, inputs' shapes, code; and what it gives, with gradients."""
    make, given = PROGRAMS[name]
    graphs: list[dict[str, Any]] = []

    def backend(gm: Any, example_inputs: list[Any]) -> Any:
        inputs = [str(node.target) for node in gm.graph.nodes if node.op == "placeholder"]
        body = [line.strip() for line in gm.code.split("\n") if line.strip()]
        lines = [line for line in body if not line.startswith("def ") and not any(line.endswith(f" = {name}") for name in inputs)]
        graphs.append({"inputs": inputs, "shapes": [list(x.shape) for x in example_inputs], "code": lines})
        return gm.forward

    torch._dynamo.reset()
    torch.manual_seed(0)
    args = [x() if callable(x) else x for x in given]
    function = make() if name.startswith("module_") else make
    result = torch.compile(function, backend=backend)(*args)
    recorded = {"graphs": graphs, "result": plain(result), "arguments": plain(args)}
    if isinstance(result, torch.Tensor) and result.requires_grad:
        result.sum().backward()
        leaves = [*args, *(function.parameters() if isinstance(function, torch.nn.Module) else ())]
        recorded["gradients"] = [plain(x.grad) for x in leaves if isinstance(x, torch.Tensor) and x.requires_grad]
    return recorded
