"""torch.compile's face: backends by name and callable, limits, stances, disable, fullgraph, explain, export, models."""

from __future__ import annotations

from typing import Any

import pytest

import flambeau as torch
from flambeau import nn
from flambeau._dynamo import exc, testing
from flambeau._dynamo.backends import registry

compiler = torch.compiler


def branching(x):
    y = x * 2
    if y.sum() > 0:
        return y + 1
    return y - 1


@pytest.fixture(autouse=True)
def fresh():
    torch._dynamo.reset()


def test_backends_by_name() -> None:
    x = torch.ones(3)
    for name in ("inductor", "eager", "aot_eager", "eager_noexcept"):
        assert torch.compile(branching, backend=name)(x).tolist() == [3, 3, 3]
    assert torch._dynamo.list_backends() == ["inductor"]
    assert {"aot_eager", "eager", "ts"} <= set(torch._dynamo.list_backends(None))
    with pytest.raises(exc.InvalidBackend, match=r"Invalid backend: 'nonsense', see `torch._dynamo.list_backends\(\)`"):
        torch.compile(branching, backend="nonsense")


def test_a_registered_backend_is_found_by_its_name(monkeypatch) -> None:
    monkeypatch.setattr(registry, "_registered", dict(registry._registered))
    seen = []

    @torch._dynamo.register_backend(name="of_the_test")
    def backend(gm, example_inputs):
        seen.append(len(example_inputs))
        return gm.forward

    assert torch.compile(lambda x: x + 1, backend="of_the_test")(torch.ones(2)).tolist() == [2, 2] and seen == [1]
    assert "of_the_test" in torch._dynamo.list_backends() and torch._dynamo.lookup_backend("of_the_test") is backend


def test_an_installed_package_offers_a_backend(monkeypatch) -> None:
    class Point:
        name = "installed"

        def load(self):
            return lambda gm, example_inputs: gm.forward

    monkeypatch.setattr(registry, "_registered", dict(registry._registered))
    monkeypatch.setattr(registry, "_entry_points", lambda: {"installed": Point()})
    assert torch.compile(lambda x: x + 1, backend="installed")(torch.ones(1)).tolist() == [2]


def test_gradients_flow_through_graphs_of_aten() -> None:
    m = nn.Sequential(nn.Linear(3, 4), nn.Tanh(), nn.Linear(4, 2))
    x = torch.randn(5, 3)
    m(x).square().sum().backward()
    wanted = [p.grad.clone() for p in m.parameters()]
    m.zero_grad()
    backend = testing.AotEagerAndRecordGraphs()
    torch.compile(m, backend=backend)(x).square().sum().backward()
    assert all(torch.allclose(p.grad, g) for p, g in zip(m.parameters(), wanted))
    assert [len(graphs) for graphs in (backend.graphs, backend.fw_graphs, backend.bw_graphs)] == [1, 1, 1]


def test_what_a_backend_raises_is_told_or_suppressed() -> None:
    def broken(gm, example_inputs):
        raise ValueError("no")

    with pytest.raises(exc.BackendCompilerFailed, match="backend='broken' raised:\nValueError: no"):
        torch.compile(branching, backend=broken)(torch.ones(2))
    with torch._dynamo.config.patch(suppress_errors=True):
        assert torch.compile(branching, backend=broken)(torch.ones(2)).tolist() == [3, 3]


def test_graphs_are_compiled_once_per_shape_and_number() -> None:
    counter = testing.CompileCounter()
    compiled = torch.compile(lambda x, n: x * n + 1, backend=counter)
    for args in ((torch.ones(2), 2), (torch.zeros(2), 2), (torch.ones(3), 2), (torch.ones(2), 3), (torch.ones(2), 2)):
        assert compiled(*args).tolist() == (args[0] * args[1] + 1).tolist()
    assert counter.frame_count == 3 and counter.op_count == 6
    torch._dynamo.reset()
    compiled(torch.ones(2), 2)
    assert counter.frame_count == 4


def test_limits_of_recompilation() -> None:
    counter = testing.CompileCounter()
    with torch._dynamo.config.patch(recompile_limit=2):
        compiled = torch.compile(lambda x, n: x + [0, 1, 2, 3, 4][n], backend=counter)
        with pytest.warns(UserWarning, match="recompile_limit"):
            assert [compiled(torch.ones(1), n).item() for n in range(5)] == [1, 2, 3, 4, 5]
        assert counter.frame_count == 2
        whole = torch.compile(lambda x, n: x + [0, 1, 2, 3, 4][n], backend=counter, fullgraph=True)
        with pytest.raises(exc.FailOnRecompileLimitHit):
            for n in range(5):
                whole(torch.ones(1), n)
    with torch._dynamo.config.patch(error_on_recompile=True), pytest.raises(exc.RecompileError):
        compiled = torch.compile(lambda x, n: x + [0, 1, 2, 3, 4][n], backend=counter)
        for n in range(2):
            compiled(torch.ones(1), n)


def test_fullgraph_refuses_what_pytorch_refuses() -> None:
    def breaks(x):
        torch._dynamo.graph_break()
        return x + 1

    for function in (branching, breaks, lambda x: compiler.disable(torch.sin)(x + 1) + 1, lambda x: (x + 1, print(x + 1))):
        with pytest.raises(exc.Unsupported):
            torch.compile(function, backend="eager", fullgraph=True)(torch.ones(2))
    assert torch.compile(lambda x: x * x.sum().item(), backend="eager", fullgraph=True)(torch.ones(2)).tolist() == [2, 2]
    assert torch.compile(lambda x: x[x > 0], backend="eager", fullgraph=True)(torch.ones(2)).tolist() == [1, 1]

    def forgiven(x):
        with torch._dynamo.error_on_graph_break(False):
            return breaks(x)

    assert torch.compile(forgiven, backend="eager", fullgraph=True)(torch.ones(1)).item() == 2


def test_disabled_functions_run_outside_of_graphs() -> None:
    asked = []

    @compiler.disable
    def aside(x):
        asked.append(compiler.is_compiling())
        return x * 3

    counter = testing.CompileCounter()
    compiled = torch.compile(lambda x: (aside(x + 1) - 1, compiler.is_compiling()), backend=counter)
    made, inside = compiled(torch.ones(2))
    assert made.tolist() == [5, 5] and inside and asked == [False] and counter.frame_count == 2
    assert not compiler.is_compiling() and torch.compile(compiler.is_compiling)()


def test_stances() -> None:
    counter = testing.CompileCounter()
    compiled = torch.compile(lambda x: x + 1, backend=counter)
    with compiler.set_stance("force_eager"):
        compiled(torch.ones(2))
    assert counter.frame_count == 0
    compiled(torch.ones(2))
    with compiler.set_stance("eager_on_recompile"):
        assert compiled(torch.ones(3)).tolist() == [2, 2, 2]
    with compiler.set_stance("fail_on_recompile"):
        compiled(torch.ones(2))
        with pytest.raises(RuntimeError, match="fail_on_recompile"):
            compiled(torch.ones(4))
    assert counter.frame_count == 1
    with pytest.raises(RuntimeError, match="invalid torch"):
        compiler.set_stance("surely not")


def test_modules() -> None:
    m = nn.Sequential(nn.Linear(2, 2), nn.ReLU())
    x, counter = torch.randn(3, 2), testing.CompileCounter()
    compiled = torch.compile(m, backend=counter)
    assert torch.equal(compiled(x), m(x)) and counter.frame_count == 1
    assert isinstance(compiled, torch._dynamo.OptimizedModule) and list(compiled.state_dict()) == [
        "_orig_mod.0.weight",
        "_orig_mod.0.bias",
    ]
    handle = m.register_forward_hook(lambda module, args, result: result + 1)
    assert torch.equal(compiled(x), m(x))
    handle.remove()
    m.compile(backend=counter)
    assert torch.equal(m(x), m.forward(x)) and counter.frame_count == 3


def test_a_compiled_function_inside_another_is_a_part_of_it() -> None:
    outer, inner = testing.CompileCounter(), testing.CompileCounter()
    within = torch.compile(lambda x: x * 2, backend=inner)
    assert torch.compile(lambda x: within(x + 1), backend=outer)(torch.ones(1)).item() == 4
    assert (outer.frame_count, inner.frame_count) == (1, 0)


def test_explain_tells_why_there_are_several_graphs() -> None:
    def function(x):
        y = x * 2
        torch._dynamo.graph_break()
        return branching(y + 1)

    told = torch._dynamo.explain(function)(torch.ones(3))
    assert (told.graph_count, told.graph_break_count, told.op_count) == (3, 2, 5)
    assert "graph_break()" in told.break_reasons[0].reason and "branching" in told.break_reasons[1].reason
    assert told.break_reasons[1].user_stack[-1].name == "branching" and str(told).startswith("Graph Count: 3\n")


def test_export_is_one_graph_with_the_functions_arguments() -> None:
    m = nn.Linear(2, 3)
    x = torch.randn(4, 2)
    made = torch._dynamo.export(lambda a, b: {"y": m(a["x"]) + b, "b": b})({"x": x}, torch.ones(3)).graph_module
    got = made({"x": x + 1}, torch.ones(3) * 2)
    assert torch.equal(got["y"], m(x + 1) + 2) and got["b"].tolist() == [2, 2, 2]
    with pytest.raises(exc.Unsupported):
        torch._dynamo.export(branching)(x)


def test_notes_of_nodes() -> None:
    backend = testing.EagerAndRecordGraphs()
    m = nn.Sequential(nn.Linear(2, 2))
    torch.compile(lambda x: m(x) * 2, backend=backend)(torch.randn(3, 2))
    linear, mul = [n for n in backend.graphs[0].graph.nodes if n.op == "call_function"]
    assert tuple(mul.meta["example_value"].shape) == (3, 2) and isinstance(
        mul.meta["example_value"], torch._subclasses.FakeTensor
    )
    assert "test_notes_of_nodes" not in linear.meta["stack_trace"] and "in <lambda>" in linear.meta["stack_trace"]
    assert [cls for _, cls in linear.meta["nn_module_stack"].values()] == [nn.Linear] or "0" in str(
        linear.meta["nn_module_stack"]
    )
    assert mul.meta["source_fn_stack"][-1][1] is mul.target


def test_what_a_program_holds_elsewhere_becomes_real_too() -> None:
    held = {}

    def function(x):
        held["a"] = x * 2
        if held["a"].sum() > 0:
            held["b"] = held["a"] + 1
        return x

    torch.compile(function, backend="eager")(torch.ones(2))
    assert held["a"].tolist() == [2, 2] and held["b"].tolist() == [3, 3] and type(held["b"]) is torch.Tensor


def test_an_exception_leaves_what_was_done_before() -> None:
    def function(x):
        x.add_(1)
        raise ValueError("stop")

    x = torch.ones(2)
    with pytest.raises(ValueError, match="stop"):
        torch.compile(function, backend="eager")(x)
    assert x.tolist() == [2, 2]


def test_helpers_for_tests() -> None:
    assert testing.same([torch.ones(2), {"a": 1.0}], [torch.ones(2), {"a": 1.0}]) and not testing.same(
        torch.ones(2), torch.zeros(2)
    )
    assert testing.rand_strided((2, 3), (1, 2)).stride() == (1, 2)
    assert testing.remove_optimized_module_prefix("_orig_mod.a") == "a"


def test_functions_that_no_graph_has() -> None:
    def f(x: Any) -> Any:
        return torch.add(torch.sub(torch.add(x, 1), 1), 2)

    counter = torch._dynamo.testing.CompileCounter()
    torch._dynamo.disallow_in_graph(torch.sub)
    try:
        assert torch.equal(torch.compile(f, backend=counter)(torch.ones(2)), torch.full((2,), 3.0))
        assert counter.frame_count == 2 and counter.op_count == 2
        with pytest.raises(torch._dynamo.exc.Unsupported, match="disallowed"):
            torch.compile(f, backend="eager", fullgraph=True)(torch.ones(2))
    finally:
        torch._dynamo.allow_in_graph(torch.sub)
    torch.compile(f, backend="eager", fullgraph=True)(torch.ones(2))
    with pytest.raises(RuntimeError, match="already allowed"):
        torch._dynamo.disallow_in_graph(f)
    torch._dynamo.disallow_in_graph(torch._dynamo.allow_in_graph(f))


def test_places_with_equal_operators_have_a_graph_each() -> None:
    def helper(x: Any) -> Any:
        y = x.cos()
        torch._dynamo.graph_break()
        return y

    def f(x: Any) -> Any:
        x = helper(helper(x)).cos()
        torch._dynamo.graph_break()
        for _ in range(3):
            x = x.cos()
            torch._dynamo.graph_break()
        return x

    counter = torch._dynamo.testing.CompileCounter()
    compiled = torch.compile(f, backend=counter)
    for _ in range(2):
        compiled(torch.ones(2))
    assert counter.frame_count == 4


def test_classes_and_forced_backends() -> None:
    counter = torch._dynamo.testing.CompileCounter()

    @torch.compile(backend=counter)
    class Compiled(torch.nn.Linear):
        pass

    @torch._dynamo.disable
    class Disabled(torch.nn.Module):
        def forward(self, x: Any) -> Any:
            return x.sigmoid()

    class Both(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.inner = Disabled()

        def forward(self, x: Any) -> Any:
            return self.inner(x.sin()).cos()

    x = torch.randn(2, 3)
    module = Compiled(3, 3)
    assert torch.equal(module(x), torch.nn.functional.linear(x, module.weight, module.bias)) and counter.frame_count == 1
    counter.clear()
    assert torch.equal(torch.compile(Both(), backend=counter)(x), x.sin().sigmoid().cos()) and counter.frame_count == 2
    counter.clear()
    replayed = torch.compile(lambda x: x + 1)
    with torch.compiler.set_stance("default", force_backend=counter):
        assert torch.equal(replayed(x), x + 1) and counter.frame_count == 1
    assert torch.equal(replayed(x), x + 1) and counter.frame_count == 1
    with pytest.raises(AssertionError, match="Attempt to trace forbidden callable"):
        torch.compile(lambda x: torch.compiler.set_stance("force_eager"), backend="eager")(x)


def test_marks_of_inputs_are_at_placeholders() -> None:
    graphs = []
    x = torch.ones(2)
    torch._dynamo.mark_static_address(x)
    torch.compile(lambda x: x + 1, backend=lambda gm, inputs: graphs.append(gm) or gm.forward)(x)
    (node,) = graphs[0].graph.find_nodes(op="placeholder")
    assert node.meta["tensor_dict"] == {"_dynamo_static_input_type": "unguarded"}
