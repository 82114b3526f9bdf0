"""Every public function accepts a proxy wherever it accepts a tensor, alone and in sequences, and records its own call."""

import inspect

import pytest

import flambeau as torch
import flambeau.nn.functional as F
from flambeau import fx
from flambeau.core.operator.arguments import MISSING
from flambeau.fx.calls import plain_signature
from flambeau.fx.names import _get_qualified_name, public_functions

OTHERS = frozenset(
    """is_tensor is_storage typename compile save load manual_seed seed initial_seed get_rng_state set_rng_state
    set_printoptions vmap tensor as_tensor asarray from_numpy boolean_dispatch handle_torch_function
    has_torch_function assert_int_or_pair described""".split()
)
LATE = (".namespace", ".dispatcher.schema", ".jit.ir.types", "._lobpcg")
DEFAULTS = (inspect.Parameter.empty, MISSING)


def recorded(function, *args, **kwargs) -> fx.Node:
    """The one node that the call makes."""
    graph = fx.Graph()
    proxy = fx.Proxy(graph.placeholder("x"))
    place = {"x": proxy, "xx": [proxy, (2, proxy)]}
    result = function(*[place.get(a, a) if isinstance(a, str) else a for a in args], **kwargs)
    assert isinstance(result, fx.Proxy), function
    assert [n.op for n in graph.nodes][:1] == ["placeholder"] and len(graph.nodes) == 2
    return result.node


def cases():
    for function, name in public_functions().items():
        short = name.rpartition(".")[2]
        if short in OTHERS or short.startswith("_") or function.__module__.endswith(LATE):
            continue  # the modules: names of torch that are loaded when a program, or another test, asks for them
        parameters = [p for p in plain_signature(function).parameters.values() if p.kind is p.POSITIONAL_OR_KEYWORD]
        required = sum(any(p.default is none for none in DEFAULTS) for p in parameters)
        for place in range(max(1, required)):
            yield function, name, max(1, required), place


def test_a_proxy_in_each_place_of_each_function() -> None:
    seen = 0
    held = fx.Proxy(fx.Graph().placeholder("held"))  # so that functions need not be told at each call
    for function, name, required, place in cases():
        if not plain_signature(function).parameters:
            continue
        for given in ("x", "xx") if place == 0 else ("x",):
            args = [torch.ones(1)] * required
            args[place] = given
            if name == "torch.functional.einsum":
                args = ["i->i", *args]
            try:
                node = recorded(function, *args)
            except Exception as error:
                raise AssertionError(f"{name}, argument {place}: {error!r}") from error
            seen += 1
            if node.op == "call_function":
                assert node.target is function or _get_qualified_name(node.target).startswith("torch.nn.functional."), name
            assert [n.name for n in node.all_input_nodes] == ["x"], name
    assert seen > 1500 and isinstance(held, fx.Proxy)


@pytest.mark.parametrize(
    ("call", "kind", "words"),
    [
        (lambda x: torch.tensor(x), TypeError, "`__cuda_array_interface__` must be a dict"),
        (lambda x: torch.as_tensor([1, x]), RuntimeError, "'len' is not supported in symbolic tracing by default"),
        (lambda x: torch.from_numpy(x), TypeError, r"expected np.ndarray \(got Proxy\)"),
        (lambda x: torch.ones(3, 3)[:x], TypeError, "slice indices must be integers or None or have an __index__ method"),
        (lambda x: torch.ones(3, 3)[0, x:], TypeError, "slice indices must be integers or None or have an __index__ method"),
    ],
)
def test_what_reads_values_is_refused(call, kind: type, words: str) -> None:
    with pytest.raises(kind, match=words):
        fx.symbolic_trace(call)


def test_questions_about_a_proxy_are_answered_with_modes_loaded_too() -> None:
    assert torch.ops.aten.relu.default(torch.ones(1)) == 1
    import flambeau.dispatcher.dispatch_modes  # noqa: F401 - modes have more functions exchanged

    traced = fx.symbolic_trace(lambda x: x + 1 if torch.is_tensor(x) else x - 1)
    assert "sub = x - 1" in traced.code and "is_tensor" not in traced.code


def test_operators_by_their_names_are_recorded_as_such() -> None:
    aten = torch.ops.aten
    traced = fx.symbolic_trace(lambda x: aten.add(aten.add.Tensor(aten.relu.default(x), x), 1))
    assert [n.name for n in traced.graph.nodes] == ["x", "relu_default", "add_tensor", "add", "output"]
    assert "add_tensor = torch.ops.aten.add.Tensor(relu_default, x);  relu_default = x = None" in traced.code
    assert torch.equal(traced(torch.tensor([-1.0, 2.0])), torch.tensor([0.0, 5.0]))


def test_arguments_are_as_they_were_written() -> None:
    node = recorded(torch.sum, "x", dim=1)
    assert len(node.args) == 1 and node.kwargs == {"dim": 1}
    node = recorded(torch.sum, "x", 1)
    assert node.args[1:] == (1,) and node.kwargs == {}
    node = recorded(torch.cat, "xx", dim=1)
    assert node.kwargs == {"dim": 1} and node.name == "cat"


@pytest.mark.parametrize(
    ("call", "text"),
    [
        (lambda x: F.batch_norm(x, x, x), "torch.nn.functional.batch_norm(x, x, x, weight = None, bias = None, training = False, "
         "momentum = 0.1, eps = 1e-05)"),
        (lambda x: F.max_pool2d(x, 2, return_indices=True), "torch.nn.functional.max_pool2d_with_indices(x, 2, stride = None, "
         "padding = 0, dilation = 1, ceil_mode = False, return_indices = True)"),
        (lambda x: torch.norm(x), "torch.functional.norm(x, p = 'fro', dim = None, keepdim = False, out = None, dtype = None)"),
        (lambda x: torch.split(x, 2), "torch.functional.split(x, 2, dim = 0)"),
        (lambda x: torch.linalg.norm(x), "torch._C._linalg.linalg_norm(x)"),
        (lambda x: torch.special.expit(x), "torch._C._special.special_expit(x)"),
        (lambda x: torch.arcsin(x), "torch.arcsin(x)"),
        (lambda x: torch.unravel_index(x, (2, 3)), "torch.functional.unravel_index(x, shape = (2, 3))"),
        (lambda x: F.sigmoid(x), "x.sigmoid()"),
        (lambda x: F.upsample_bilinear(x, scale_factor=2), "torch.nn.functional.interpolate(x, size = None, scale_factor = 2, "
         "mode = 'bilinear', align_corners = True, recompute_scale_factor = None, antialias = False)"),
        (lambda x: torch.einsum("i,j->ij", [x, x]), "torch.functional.einsum('i,j->ij', x, x)"),
        (lambda x: torch.arange(x), "torch.arange(x)"),
        (lambda x: torch.meshgrid(x, x), "torch.functional.meshgrid(x, x, indexing = None)"),
    ],
)  # fmt: skip
def test_the_code_of_calls(call, text: str) -> None:
    assert fx.symbolic_trace(call).code.splitlines()[4].partition(" = ")[2].partition(";")[0] == text


@pytest.mark.parametrize(
    ("call", "name", "target"),
    [
        (lambda t, x: t + x, "add", "add"),
        (lambda t, x: t / x, "div", "div"),
        (lambda t, x: t**x, "pow_1", "pow"),
        (lambda t, x: t @ x, "matmul", "matmul"),
        (lambda t, x: t == x, "eq", "eq"),
        (lambda t, x: t[x], "getitem", "__getitem__"),
        (lambda t, x: t.masked_fill(x, 0), "masked_fill", "masked_fill"),
        (lambda t, x: t.view(x, 2), "view", "view"),
        (lambda t, x: t.sum(x), "sum_1", "sum"),
    ],
)
def test_tensors_and_proxies(call, name: str, target: str) -> None:
    node = fx.symbolic_trace(lambda x: call(torch.ones(2), x)).graph.output_node().all_input_nodes[0]
    assert (node.op, node.name, node.target) == ("call_method", name, target)
    assert [str(n) for n in node.all_input_nodes] == ["_tensor_constant0", "x"]
