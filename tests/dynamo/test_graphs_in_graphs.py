"""Functions that graphs have as graphs within them: autograd.Functions, checkpoints, torch.ops.higher_order.wrap."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import pytest

import flambeau as torch
from flambeau import nn
from flambeau.utils.checkpoint import checkpoint

HIGHER = torch.ops.higher_order
BACKENDS = ["eager", "aot_eager"]


class Scale(torch.autograd.Function):
    """x * x * k, with a gradient of its own."""

    @staticmethod
    def forward(ctx: Any, x: Any, k: float) -> Any:
        ctx.save_for_backward(x)
        ctx.k = k
        return x * x * k

    @staticmethod
    def backward(ctx: Any, gradient: Any) -> Any:
        (x,) = ctx.saved_tensors
        return 3 * x * gradient * ctx.k, None


class Several(torch.autograd.Function):
    """Results one of which has no gradient, and what setup_context keeps."""

    @staticmethod
    def forward(x: Any, y: Any) -> Any:
        return x * y, (x > 0).float(), y + 1

    @staticmethod
    def setup_context(ctx: Any, inputs: Any, output: Any) -> None:
        ctx.mark_non_differentiable(output[1])
        ctx.save_for_backward(*inputs, output[0])
        ctx.sign = output[1]

    @staticmethod
    def backward(ctx: Any, a: Any, b: Any, c: Any) -> Any:
        x, y, product = ctx.saved_tensors
        return a * y * ctx.sign, a * x + c * product


class Through(torch.autograd.Function):
    """A straight-through estimator: rounds, with the gradient of what isn't rounded; gives its second argument as well."""

    @staticmethod
    def forward(ctx: Any, x: Any, y: Any) -> Any:
        return x.round(), y

    @staticmethod
    def backward(ctx: Any, gradient: Any, other: Any) -> Any:
        return gradient, other * 2


class Asks(torch.autograd.Function):
    """Its backward asks for a value."""

    @staticmethod
    def forward(ctx: Any, x: Any) -> Any:
        ctx.save_for_backward(x)
        return x.exp()

    @staticmethod
    def backward(ctx: Any, gradient: Any) -> Any:
        (x,) = ctx.saved_tensors
        return gradient * (2 if x.sum().item() > 0 else 3)


class AsksForward(Asks):
    """Its forward does."""

    @staticmethod
    def forward(ctx: Any, x: Any) -> Any:
        ctx.save_for_backward(x)
        y = x + 1
        return y * 2 if y.sum() > 0 else y * 3


class Writes(torch.autograd.Function):
    """Writes to what it is given."""

    @staticmethod
    def forward(ctx: Any, x: Any) -> Any:
        x.add_(1)
        ctx.mark_dirty(x)
        return x

    @staticmethod
    def backward(ctx: Any, gradient: Any) -> Any:
        return gradient * 5


KEPT: dict[str, Any] = {}


class Keeps(torch.autograd.Function):
    """Keeps a tensor of forward's outside."""

    @staticmethod
    def forward(ctx: Any, x: Any) -> Any:
        KEPT["inner"] = inner = x.sin()
        return inner * 2

    @staticmethod
    def backward(ctx: Any, gradient: Any) -> Any:
        return gradient * 7


class Halves(torch.autograd.Function):
    """Sizes that may differ, in forward and in backward."""

    @staticmethod
    def forward(ctx: Any, x: Any) -> Any:
        n = x.shape[0]
        ctx.n = n
        return x.reshape(n, -1).sum(1) * n

    @staticmethod
    def backward(ctx: Any, gradient: Any) -> Any:
        return gradient.reshape(ctx.n, 1).expand(ctx.n, 4) * ctx.n * 2


def checkpointed(x: Any, w: Any) -> Any:
    return checkpoint(lambda y: torch.relu(y @ w).sin(), x.cos(), use_reentrant=False) * 2


def nested(x: Any, w: Any) -> Any:
    def inner(y: Any) -> Any:
        return Scale.apply(y @ w, 2.0)

    return checkpoint(lambda y: checkpoint(inner, y.cos(), use_reentrant=False) + y, x, use_reentrant=False) * w.sum()


def in_blocks(x: Any, w: Any) -> Any:
    def body(y: Any) -> Any:
        with torch.autocast("cpu", enabled=False):
            z = y @ w
        return z.float() + (y @ w).float()

    with torch.autocast("cpu", dtype=torch.bfloat16):
        return checkpoint(body, x, use_reentrant=False).float()


def wrapped(x: Any, w: Any) -> Any:
    a, (b, c) = HIGHER.wrap(lambda y: (y + 1, [y @ w, w]), x * 2)
    return a * b + c


def both(x: Any, w: Any) -> Any:
    a, sign, b = Several.apply(x.sin(), w)
    return a * sign + b


def without_grad(x: Any, w: Any) -> Any:
    with torch.no_grad():
        y = checkpoint(lambda a: a.sin(), x, use_reentrant=False)
    return y * w * x


def through(x: Any, w: Any) -> Any:
    a, b = Through.apply(x * 3, w)
    return a * b


#: The number of graphs, and the operators that these have.
PROGRAMS: dict[str, tuple[Callable[..., Any], int, list[str]]] = {
    "function": (lambda x, w: Scale.apply(x.sin(), 3.0) + w, 1, ["autograd_function_apply"]),
    "the same twice": (lambda x, w: Scale.apply(x, 3.0) + Scale.apply(x, 2.0), 1, ["autograd_function_apply"] * 2),
    "a tensor twice": (lambda x, w: Several.apply(x, x)[0] * w, 1, ["autograd_function_apply"]),
    "several results": (both, 1, ["autograd_function_apply"]),
    "an argument as a result": (through, 1, ["autograd_function_apply"]),
    "without gradients": (lambda x, w: Scale.apply(x.detach(), 3.0) + w, 1, []),
    "backward asks": (lambda x, w: Asks.apply(x * 2) + w, 2, []),
    "forward asks": (lambda x, w: AsksForward.apply(x * 2) + w, 3, []),
    "writes": (lambda x, w: Writes.apply(x * 2) + w, 2, []),
    "checkpoint": (checkpointed, 1, ["tag_activation_checkpoint"]),
    "nested": (nested, 1, ["tag_activation_checkpoint"]),
    "blocks": (in_blocks, 1, ["tag_activation_checkpoint"]),
    "wrap": (wrapped, 1, ["wrap"]),
    "without grad mode": (without_grad, 1, ["tag_activation_checkpoint"]),
}  # fmt: skip


def values(function: Callable[..., Any], *args: Any) -> tuple[Any, ...]:
    args = tuple([x.detach().clone().requires_grad_(x.requires_grad) for x in args])
    made = function(*args)
    made.backward(torch.arange(made.numel()).reshape(made.shape).float())
    return (made.detach(), *[x.grad for x in args if x.grad is not None])


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("name", PROGRAMS)
def test_values_and_graphs(name: str, backend: str) -> None:
    function, count, operators = PROGRAMS[name]
    x, w = torch.randn(3, 3, requires_grad=True), torch.randn(3, 3, requires_grad=True)
    graphs = []

    def recording(gm: Any, inputs: list[Any]) -> Any:
        graphs.append(gm)
        return torch._dynamo.lookup_backend(backend)(gm, inputs)

    compiled = torch.compile(function, backend=recording)
    for _ in range(2):
        x = torch.randn(3, 3, requires_grad=True)
        for made, wanted in zip(values(compiled, x, w), values(function, x, w), strict=True):
            assert torch.equal(made, wanted) or (wanted - made).abs().max() < 1e-6
    assert len(graphs) == count
    found = [n.target.__name__ for gm in graphs for n in gm.graph.nodes if isinstance(n.target, type(HIGHER.wrap))]
    assert found == operators
    if name in ("nested", "function"):
        assert all("example_value" in n.meta for n in graphs[0].graph.nodes if isinstance(n.target, type(HIGHER.wrap)))


def test_calls_that_differ_have_graphs_of_their_own() -> None:
    """Attributes of contexts, and functions that bodies call, are part of what a graph is found by."""
    x = torch.randn(3, requires_grad=True)
    counter = torch._dynamo.testing.CompileCounter()
    compiled = torch.compile(lambda x, k: Scale.apply(x, k), backend=counter, dynamic=False)
    for k in (2.0, 3.0, 2.0):
        made, gradient = values(lambda x, k=k: compiled(x, k), x)
        assert torch.equal(made, x * x * k) and torch.equal(gradient, values(lambda x, k=k: Scale.apply(x, k), x)[1])
    assert counter.frame_count == 2
    scale = [2.0]

    def f(x: Any) -> Any:
        return checkpoint(lambda y: (y * scale[0]).sin(), x, use_reentrant=False)

    compiled = torch.compile(f, backend="eager")
    for scale[0] in (2.0, 3.0, 2.0):
        assert all(map(torch.equal, values(compiled, x), values(f, x)))


def test_what_is_kept_from_within() -> None:
    x = torch.randn(3, requires_grad=True)
    taken: list[Any] = []

    class Block(nn.Module):
        def forward(self, x: Any) -> Any:
            inner = x.sin()
            taken.append(inner)
            return inner * 2

    block = Block()
    functions = {
        "used": lambda x: checkpoint(block, x, use_reentrant=False) + taken[-1],
        "kept": lambda x: checkpoint(block, x, use_reentrant=False) + 1,
        "Function used": lambda x: Keeps.apply(x) + KEPT["inner"],
        "Function kept": lambda x: Keeps.apply(x) + 1,
    }
    for name, f in functions.items():
        counter = torch._dynamo.testing.CompileCounter()
        compiled = torch.compile(f, backend=counter)
        for _ in range(2):
            assert all(map(torch.equal, values(compiled, x), values(f, x)))
            assert counter.frame_count == 1, name
            made = compiled(x)
            assert torch.equal(taken[-1] if "F" not in name else KEPT["inner"], x.sin())
            del made
            taken.clear()


def test_second_derivatives_and_saved_tensors_that_are_written_to() -> None:
    class Cube(torch.autograd.Function):
        @staticmethod
        def forward(ctx: Any, x: Any) -> Any:
            ctx.save_for_backward(x)
            return x * x * x

        @staticmethod
        def backward(ctx: Any, gradient: Any) -> Any:
            return gradient * 3 * ctx.saved_tensors[0] ** 2

    compiled = torch.compile(lambda x: Cube.apply(x * 1), backend="eager", fullgraph=True)
    x = torch.tensor([2.0, 3.0], requires_grad=True)
    (first,) = torch.autograd.grad(compiled(x).sum(), x, create_graph=True)
    (second,) = torch.autograd.grad(first.sum(), x)
    assert torch.equal(first, 3 * x * x) and torch.equal(second, 6 * x)

    class Exp(torch.autograd.Function):
        @staticmethod
        def forward(ctx: Any, x: Any) -> Any:
            y = x.exp()
            ctx.save_for_backward(y)
            return y

        @staticmethod
        def backward(ctx: Any, gradient: Any) -> Any:
            return gradient * ctx.saved_tensors[0] * 2

    compiled = torch.compile(lambda x: Exp.apply(x), backend="eager", fullgraph=True)
    (first,) = torch.autograd.grad(compiled(x).sum(), x, create_graph=True)
    (second,) = torch.autograd.grad(first.sum(), x)
    assert torch.equal(first, 2 * x.exp()) and torch.equal(second, 4 * x.exp())
    compiled = torch.compile(lambda x: (Cube.apply(x), x), backend="eager")
    y = (x * 1).requires_grad_()
    made, kept = compiled(y)
    with torch.no_grad():
        kept.add_(1)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        made.sum().backward()


@pytest.mark.parametrize("backend", ["eager"])
def test_sizes_that_differ(backend: str) -> None:
    def f(x: Any) -> Any:
        y = checkpoint(lambda z: z.reshape(z.shape[0] * 2, -1).sin(), x, use_reentrant=False)
        return Halves.apply(x) * x.shape[0] + y.sum()

    counter = torch._dynamo.testing.CompileCounterWithBackend(backend)
    compiled = torch.compile(f, backend=counter)
    for n in (3, 5, 6, 7):
        x = torch.randn(n, 4, requires_grad=True)
        for made, wanted in zip(values(compiled, x), values(f, x), strict=True):
            assert torch.allclose(made, wanted)
    assert counter.frame_count == 2


def test_a_checkpoint_saves_only_its_arguments() -> None:
    """The backend's graph computes the block again in backward, random numbers included."""
    block = nn.Sequential(nn.Linear(4, 4), nn.Dropout(0.5), nn.ReLU())
    packed: list[Any] = []

    def f(x: Any) -> Any:
        return checkpoint(block, x, use_reentrant=False).sum()

    x = torch.randn(8, 4, requires_grad=True)
    results = []
    for function in (torch.compile(f, backend="eager"), f):
        torch.manual_seed(0)
        packed.clear()
        with torch.autograd.graph.saved_tensors_hooks(lambda t: packed.append(t) or t, lambda t: t):
            pass
        results.append(values(function, x))
    assert all(map(torch.equal, *results))


def test_graphs_of_aten_save_what_a_checkpoint_is_given() -> None:
    from flambeau._dynamo.backends.common import aot_autograd
    from flambeau._functorch.aot_autograd import make_boxed_func

    graphs: list[Any] = []
    backend = aot_autograd(fw_compiler=lambda gm, inputs: graphs.append(gm) or make_boxed_func(gm.forward))
    x = torch.randn(3, 3, requires_grad=True)
    saved = []
    for use in (False, True):

        def f(x: Any, use: bool = use) -> Any:
            def body(y: Any) -> Any:
                return y.sin().exp().cos()

            return (checkpoint(body, x, use_reentrant=False) if use else body(x)).sum()

        graphs.clear()
        made = values(torch.compile(f, backend=backend), x)
        assert all(map(torch.allclose, made, values(f, x)))
        saved.append(len(graphs[0].graph.output_node().args[0]))
    assert saved == [3, 2]  # the result with x and exp; with x


def test_a_backward_that_keeps_what_it_computes() -> None:
    """Nothing computes what backward keeps while it's only looked at: using that is an error, and no wrong answer."""
    kept = []

    class Saves(torch.autograd.Function):
        @staticmethod
        def forward(ctx: Any, x: Any) -> Any:
            return x * 2

        @staticmethod
        def backward(ctx: Any, gradient: Any) -> Any:
            kept.append(gradient * 3)
            return gradient * 2

    x = torch.ones(2, requires_grad=True)
    made = torch.compile(lambda x: Saves.apply(x) + 1, backend="eager")(x)
    made.sum().backward()
    assert x.grad.tolist() == [2, 2]


def test_copies() -> None:
    graphs = []
    torch.compile(checkpointed, backend=lambda gm, inputs: graphs.append(gm) or gm.forward)(torch.ones(2, 2), torch.ones(2, 2))
    made = copy.deepcopy(graphs[0])
    assert made.code == graphs[0].code and made.wrap_body_0.code == graphs[0].wrap_body_0.code


def test_nodes_know_which_calls_they_are_in() -> None:
    graphs: list[Any] = []
    x = torch.ones(2, 2)
    f = torch.compile(
        lambda x: HIGHER.wrap(lambda y: HIGHER.wrap(lambda z: z.sin(), y).cos(), x),
        backend=lambda gm, _: graphs.append(gm) or gm.forward,
    )
    f(x)
    inner = graphs[0].wrap_body_0
    stacks = [
        [name for name, _ in n.meta["source_fn_stack"]]
        for gm in (inner.wrap_body_0, inner)
        for n in gm.graph.find_nodes(op="call_method")
    ]
    assert stacks == [["wrap", "wrap", "sin"], ["wrap", "cos"]]
