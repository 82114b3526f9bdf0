"""Sizes and numbers that differ between calls: how many graphs there are, as in PyTorch, what they are given and give."""

from __future__ import annotations

import copy
import gc
import pickle
import weakref
from collections.abc import Callable
from typing import Any

import pytest

import flambeau as torch
from flambeau._dynamo.segments.sizes import SizeInt
from flambeau.fx.experimental.symbolic_shapes import ConstraintViolationError

F = torch.nn.functional
ones = torch.ones


def shapes(*sizes: tuple[int, ...]) -> list[tuple[Any, ...]]:
    return [(ones(*size),) for size in sizes]


def broken(x: Any) -> Any:
    y = x * 2
    torch._dynamo.graph_break()
    return y.view(y.shape[0] * 2, -1) + y.shape[1]


def counted(x: Any) -> Any:
    return x * x.numel() + len(x.shape)


def transposed(x: Any, times: int = 0) -> Any:
    y = x if times else x * 2
    n, m = y.shape[0], y.numel()
    y.t_()
    return y * n + m - y.shape[0]


THREE, MATRICES = shapes((3,), (4,), (5,)), shapes((3, 4), (5, 4), (6, 4))
#: A function, the arguments of its calls, torch.compile's `dynamic`, and the graphs that PyTorch 2.13 makes.
COUNTED: dict[str, tuple[Callable[..., Any], list[tuple[Any, ...]], bool | None, int]] = {
    "one dimension, 1 and 0 by themselves": (lambda x: x * 2 + 1, shapes((3,), (4,), (5,), (1,), (3,), (0,)), None, 4),
    "a size as a number": (lambda x: x.view(x.shape[0] * 2, -1) + x.shape[0], [*MATRICES, *shapes((6, 8), (7, 10))], None, 3),
    "of a result": (lambda x: torch.cat([x, x]).view(-1, x.size(0)).sum() + torch.cat([x, x]).shape[0], MATRICES, None, 2),
    "number as an argument": (lambda x, n: x * n, [(ones(3), n) for n in (2, 3, 4, 1)], None, 2),
    "narrow": (lambda x, n: x.narrow(0, 0, n), [(ones(9), n) for n in (3, 4, 5, 6)], None, 2),
    "arithmetic of numbers": (lambda x, n: x + n * 2 + (n // 2) - (7 - n) % 5, [(ones(9), n) for n in (3, 4, 5, 6)], None, 2),
    "dynamic=True": (lambda x: x.reshape(-1) * x.shape[1], shapes((3, 4), (5, 6), (5, 1), (5, 5)), True, 2),
    "dynamic=False": (lambda x: x * 2, THREE, False, 3),
    "a branch": (lambda x: x * 2 if x.shape[0] > 5 else x + 1, shapes((3,), (4,), (8,), (9,), (5,)), None, 3),
    "equal sizes": (lambda x, y: x + y, [(ones(a), ones(b)) for a, b in ((3, 3), (4, 4), (5, 5), (5, 1))], None, 3),
    "sizes that are equal by chance": (
        lambda x, y: x.sum() + y.sum(), [(ones(a), ones(b)) for a, b in ((3, 4), (4, 5), (5, 5), (6, 7))], None, 2
    ),
    "numel": (counted, shapes((3, 2), (4, 2), (5, 2)), None, 2),
    "range": (lambda x: sum(x[i] for i in range(x.shape[0])), THREE, None, 3),
    "a strided result": (lambda x: x.t().contiguous() + 1, MATRICES, None, 2),
    "factories": (lambda x: torch.zeros(x.shape[0], x.shape[1]) + torch.arange(x.shape[1]) + x, MATRICES, None, 2),
    "shapes": (lambda x: ones(1).expand(x.shape) + x.new_zeros(x.shape), MATRICES, None, 2),
    "parts of shapes": (lambda x: x.reshape(*x.shape[:-1], 2, -1).transpose(0, 1), MATRICES, None, 2),
    "slices": (lambda x: x[: x.shape[0] // 2], shapes((4,), (6,), (10,)), None, 2),
    "in lists": (lambda xs: xs[0] * 2 + xs[1].sum(), [([ones(a), ones(4)],) for a in (3, 4, 5)], None, 2),
    "behind a break": (broken, MATRICES, None, 4),
    "other ranks": (lambda x: x * 2, shapes((3,), (3, 4), (3, 4, 5), (4,)), None, 4),
    "attention": (lambda q: F.scaled_dot_product_attention(q, q, q), shapes((2, 2, 3, 4), (2, 2, 5, 4), (2, 2, 6, 4)), None, 2),
    "of a result that becomes another": (transposed, MATRICES, None, 2),
    "of an argument that becomes another": (lambda x: transposed(x, 1), [(ones(n, 4),) for n in (3, 5, 6)], None, 3),
    "number and tensor": (lambda x, a: x * a, [(ones(3), a) for a in (2, ones(3), 3, ones(1), 4)], None, 4),
    "loss": (lambda x, t: F.cross_entropy(x, t), [(ones(n, 5), torch.arange(n)) for n in (3, 4, 5)], None, 2),
}  # fmt: skip


@pytest.mark.parametrize("name", COUNTED)
def test_graphs_are_as_many_as_in_pytorch(name: str) -> None:
    function, calls, dynamic, count = COUNTED[name]
    counter = torch._dynamo.testing.CompileCounter()
    compiled = torch.compile(function, backend=counter, dynamic=dynamic)
    for args in calls:
        assert torch.equal(compiled(*copy.deepcopy(args)), function(*copy.deepcopy(args)))
    assert counter.frame_count == count


def recorded(function: Any, *calls: Any, **kwargs: Any) -> list[tuple[list[str], str, list[Any]]]:
    graphs = []

    def backend(gm: Any, inputs: list[Any]) -> Any:
        names = [str(node.target) for node in gm.graph.find_nodes(op="placeholder")]
        body = [line.strip().partition(";")[0] for line in gm.code.split("\n") if "=" in line and " = L_" not in line]
        graphs.append((names, "; ".join(body), [str(x) if isinstance(x, torch.SymInt) else tuple(x.shape) for x in inputs]))
        return gm.forward

    compiled = torch.compile(function, backend=backend, **kwargs)
    for call in calls:
        compiled(*call)
    return graphs


def test_what_a_backend_gets_of_sizes_that_differ() -> None:
    """Symbols are inputs, before the first tensor that has them, with PyTorch's names."""
    assert recorded(lambda x: x.view(x.shape[0] * 2, -1) + x.shape[0], *MATRICES)[1] == (
        ["s77", "L_x_"], "mul = s77 * 2; view = l_x_.view(mul, -1); add = view + s77", ["s77", (5, 4)]
    )  # fmt: skip
    assert recorded(lambda x, n: x * n, (ones(3), 2), (ones(3), 3))[1] == (["L_x_", "L_n_"], "mul = l_x_ * l_n_", [(3,), "s86"])
    own = recorded(lambda x: (y := x * 2).view(y.shape[1], y.shape[0]), *MATRICES)  # of a result: an input, or a number
    assert own[1][1].endswith("view = y.view(4, s77)") or own[1][1].endswith("view = mul.view(4, s77)")
    linear = recorded(torch.nn.Linear(4, 2), *MATRICES)
    assert [names for names, _, _ in linear] == [
        ["L_fn_parameters_weight_", "L_fn_parameters_bias_", "L_args_0_"],
        ["L_fn_parameters_weight_", "L_fn_parameters_bias_", "s33", "L_args_0_"],
    ]


def test_examples_have_symbols() -> None:
    backend = torch._dynamo.testing.EagerAndRecordGraphs()
    torch.compile(lambda x: torch.cat([x, x * 2]), backend=backend, dynamic=True)(ones(3, 4))
    (graph,) = backend.graphs
    shape = [node for node in graph.graph.nodes if node.op != "output"][-1].meta["example_value"].shape
    assert [str(n) for n in shape] == ["2*s77", "s27"]


def test_marks() -> None:
    def graphs(mark: Callable[[Any], None], *later: tuple[int, int]) -> int:
        x = ones(3, 4)
        mark(x)
        return len(recorded(lambda x: x * 2, (x,), *shapes(*later)))

    dynamo = torch._dynamo
    assert graphs(lambda x: dynamo.mark_dynamic(x, 0), (5, 4), (6, 4)) == 1
    assert graphs(lambda x: dynamo.mark_dynamic(x, 0), (5, 4), (6, 5)) == 2
    assert graphs(lambda x: dynamo.maybe_mark_dynamic(x, 0), (4, 4), (5, 4)) == 1
    assert graphs(lambda x: None, (5, 4), (6, 4)) == 2
    assert dynamo.mark_static(type("Own", (torch.nn.Linear,), {})).__name__ == "Own"  # a decorator of classes
    y = ones(5, 4)
    dynamo.mark_static(y, 0)
    assert len(recorded(lambda x: x * 2, (ones(3, 4),), (y,))) == 2
    x = ones(3, 4)
    dynamo.mark_dynamic(x, 0)
    with pytest.raises(ConstraintViolationError, match=r"You marked L\['x'\].size\(\)\[0\] as dynamic but your code specialized"):
        torch.compile(lambda x: x + ones(3, 4), backend="eager")(x)


def test_settings() -> None:
    config = torch._dynamo.config
    with config.patch(automatic_dynamic_shapes=False):
        assert len(recorded(lambda x: x * 2, *THREE)) == 3
    with config.patch(assume_static_by_default=False):
        assert len(recorded(lambda x: x * 2, *THREE)) == 1
    with config.patch(specialize_int=True):
        assert len(recorded(lambda x, n: x * n, *[(ones(3), n) for n in (2, 3, 4)])) == 3


def test_sizes_are_ints_to_the_program_and_to_who_calls_it() -> None:
    kept = []

    def f(x: Any) -> Any:
        n = x.shape[0]
        assert isinstance(n, int) and n == int(str(n)) and f"{n}" == str(n) and {n: 1}[int(n)] == 1
        kept.append(n)
        return x * n, n + 1, {"n": [x.size(), n]}

    compiled = torch.compile(f, backend="eager")
    for n in (3, 4, 5):
        made, after, held = compiled(ones(n))
        assert made.tolist() == [float(n)] * n and type(after) is int and after == n + 1
        assert type(held["n"][1]) is int and type(held["n"][0]) is torch.Size and type(held["n"][0][0]) is int
    assert kept == [3, 4, 5] and type(ones(3).shape[0]) is int
    inside = kept[-1]  # what the program kept behaves as the number
    assert type(inside) is SizeInt and type(copy.deepcopy(inside)) is int and type(pickle.loads(pickle.dumps(inside))) is int
    assert (ones(7) * inside).sum().item() == 35


def test_what_a_program_keeps_of_sizes_holds_no_tensors() -> None:
    class Seen:
        rows = 0

    seen, kept = Seen(), []

    def f(x: Any) -> Any:
        seen.rows += x.shape[0]
        kept.append(x.shape[0])
        return x * seen.rows

    counter = torch._dynamo.testing.CompileCounter()
    compiled = torch.compile(f, backend=counter)
    held = []
    for n in (3, 4, 5, 6):
        x = ones(n)
        held.append(weakref.ref(x))
        assert compiled(x).tolist() == [float(seen.rows)] * n
        del x
    gc.collect()
    assert seen.rows == 18 and kept == [3, 4, 5, 6] and all(ref() is None for ref in held)
    assert type(kept[-1] + 1) is int and type(2 * kept[-1]) is int


def test_an_argument_that_gets_other_data() -> None:
    def f(x: Any) -> Any:
        n = x.shape[0]
        x.data = ones(3)
        return x * n

    compiled = torch.compile(f, backend="eager", dynamic=True)
    for shape in ((3, 4), (5, 4), (3, 4), (7,)):
        assert compiled(ones(*shape)).tolist() == [float(shape[0])] * 3


def test_gradients_and_writes_of_sizes_that_differ() -> None:
    def f(x: Any, w: Any) -> Any:
        x.add_(1)
        return (x @ w).pow(2).sum() / x.shape[0]

    for backend in ("eager", "aot_eager"):
        compiled = torch.compile(f, backend=backend)
        for n in (3, 4, 5, 1):
            results = []
            for call in (f, compiled):
                x, w = torch.arange(float(n * 2)).reshape(n, 2), ones(2, requires_grad=True)
                call(x, w).backward()
                results.append((x.tolist(), w.grad.tolist()))
            assert results[0] == results[1]


def test_an_operator_without_rules_for_symbols_has_a_graph_for_each_size() -> None:
    pool = torch.nn.MaxPool2d(2)
    counter = torch._dynamo.testing.CompileCounter()
    compiled = torch.compile(pool, backend=counter)
    for n in (2, 3, 4, 3):
        x = torch.randn(n, 1, 4, 4)
        assert torch.equal(compiled(x), pool(x))
    assert counter.frame_count in (2, 3)


def test_a_number_where_no_symbol_can_be_has_a_graph_for_each() -> None:
    def f(x: Any, n: int) -> Any:
        return x**n * x.shape[0] + torch.tensor([n + 1])

    for backend in ("eager", "aot_eager"):
        counter = torch._dynamo.testing.CompileCounterWithBackend(backend)
        compiled = torch.compile(f, backend=counter)
        for m, n in ((3, 2), (4, 3), (5, 3), (5, 0), (5, 3)):
            assert torch.equal(compiled(ones(m) * 2, n), f(ones(m) * 2, n))
        assert counter.frame_count == 4
