"""Graphs that are read from their text, run, and rewritten by torch._C's passes; types that say what is known of tensors."""

from __future__ import annotations

import pytest

import flambeau as torch
from flambeau import _C

TEXT = """
graph(%x.1 : Float(2, 3, strides=[3, 1], requires_grad=0, device=cpu), %y : Tensor, %n : int[]):
  %k : int = prim::Constant[value=2]()
  %s : str = prim::Constant[value="a, \\"b\\""]()
  %none : NoneType = prim::Constant()
  %l : int[] = prim::Constant[value=[1, 2]]()
  %c : bool = aten::eq(%n, %l)
  %z : Tensor = prim::If(%c)
    block0():
      %a : Tensor = aten::add(%x.1, %y, %k)
      -> (%a)
    block1():
      -> (%y)
  return (%z, %s)
"""


def test_a_graph_is_read_from_text_and_run() -> None:
    graph = _C.parse_ir(TEXT)
    assert [node.kind() for node in graph.nodes()][-1] == "prim::If"
    graph.makeMultiOutputIntoTuple()
    run = _C._create_function_from_graph("forward", graph)
    made, text = run(torch.ones(2, 3), torch.ones(2, 3), [1, 2])
    assert made.tolist() == [[3.0] * 3] * 2 and text == 'a, "b"'
    assert run(torch.ones(2, 3), torch.zeros(1), [])[0].tolist() == [0.0]
    again = _C.parse_ir(str(graph))
    assert str(_C._jit_pass_canonicalize(again)) == str(_C._jit_pass_canonicalize(graph))


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("graph(%x):\n return (%y)", "Cannot find a variable with name 'y'"),
        ("graph(%x : Foo):\n return (%x)", "unknown type specifier"),
        ("graph(%x)\n return (%x)", "expected :"),
        ("graph():\n %1 : Long(2) = prim::Constant[value={3}]()\n return (%1)", "parse_tensor_constants=True"),
    ],
)
def test_what_is_no_graph_is_refused(text: str, words: str) -> None:
    with pytest.raises(RuntimeError, match=words):
        _C.parse_ir(text)


def test_constants_that_are_tensors_have_the_type_that_is_written() -> None:
    graph = _C.parse_ir("graph():\n %1 : Long(2, 2) = prim::Constant[value={-3}]()\n return (%1)", True)
    assert _C._create_function_from_graph("f", graph)().tolist() == [[-3, -3]] * 2


def test_types_say_what_is_known() -> None:
    inputs = list(_C.parse_ir("graph(%x : Float(2, *, device=cpu), %y : Long(), %z):\n return (%x)").inputs())
    x, y, z = (value.type() for value in inputs)
    assert (x.dtype(), x.dim(), x.sizes(), x.varyingSizes(), x.device()) == (torch.float, 2, None, [2, None], torch.device("cpu"))
    assert x.symbolic_sizes()[1] < 0 and x.symbolic_sizes() != x.with_sizes([2, None]).symbolic_sizes()
    assert (y.sizes(), y.scalarType(), z.sizes(), z.dtype()) == ([], "Long", None, None)
    assert z.with_sizes([3, 2]).contiguous().strides() == [2, 1]
    assert x == z and x.isSubtypeOf(z)  # to every question of the compiler, both are tensors


def test_equal_nodes_become_one_unless_something_may_change_them() -> None:
    def common(x):
        a, b = x + 1, x + 1
        return a * b

    def written(x):
        a, b = x + 1, x + 1
        a.add_(1)
        return a * b

    def given(x):
        return x + 1, x + 1

    def random(x):
        return torch.rand_like(x) + torch.rand_like(x)

    graphs = [torch.jit.script(f).graph for f in (common, written, given, random)]
    assert [_C._jit_pass_cse(graph) for graph in graphs] == [True, False, False, False]
    assert len(graphs[0].findAllNodes("aten::add")) == 1 and len(graphs[1].findAllNodes("aten::add")) == 2


def test_what_is_told_by_looking_goes() -> None:
    def told(x: torch.Tensor, n: int):
        parts = [x, x + n]
        table = {"a": 1, "b": 2}
        return len(parts), parts[-1], table["b"], n + 0, n == n, x is None, (n == 1) and True

    graph = torch.jit.script(told).graph
    assert _C._jit_pass_peephole(graph)
    kinds = {node.kind() for node in graph.nodes()}
    assert not kinds & {"aten::len", "aten::__getitem__", "prim::If", "prim::ListConstruct", "aten::__is__"}

    def changed(x: torch.Tensor):
        parts = [x]
        parts.append(x)
        return len(parts), x + 0

    graph = torch.jit.script(changed).graph
    assert not _C._jit_pass_peephole(graph) and graph.findNode("aten::len") is not None


def test_constants_are_worked_out_where_nothing_writes_to_them() -> None:
    def known(x):
        return x + torch.tensor([1, 2]).sum()

    def written(x):
        t = torch.tensor([1, 2])
        t.add_(1)
        return x + t

    graphs = [torch.jit.script(f).graph for f in (known, written)]
    changed = [_C._jit_pass_constant_propagation(graph) for graph in graphs]
    assert changed[0]
    assert graphs[0].findNode("aten::tensor") is None and graphs[1].findNode("aten::tensor") is not None


def test_shapes_and_dtypes_follow_from_inputs() -> None:
    def product(x, y, flag: bool):
        z = torch.mm(x, y)
        if flag:
            z = z * 2
        return z.to(torch.float64), z.sum(1)

    graph = torch.jit.script(product).graph
    x, y, _ = graph.inputs()
    x.setType(x.type().with_sizes([3, None]))
    y.setType(y.type().with_sizes([x.type().symbolic_sizes()[1], 5]))
    _C._jit_pass_propagate_shapes_on_graph(graph)
    sizes = [graph.findNode(kind).output().type().varyingSizes() for kind in ("aten::to", "aten::sum")]
    assert sizes == [[3, 5], [3]]
    _C._jit_pass_complete_shape_analysis(graph, (torch.ones(3, 4), torch.ones(4, 5), True), False)
    assert str(graph.findNode("aten::to").output().type().dtype()) == "torch.float64"
    _C._jit_pass_erase_shape_information(graph)
    assert graph.findNode("aten::to").output().type().sizes() is None


def test_parts_of_a_graph_that_look_like_a_pattern_are_exchanged() -> None:
    product = "graph(%a, %b, %c):\n %q = aten::mul(%a, %b)\n %r = aten::mul(%q, %c)\n return (%r)"
    fused = "graph(%a, %b, %c):\n %r = my::product(%a, %b, %c)\n return (%r)"

    def exchanged(lines: str, result: str) -> list[str]:
        graph = _C.parse_ir(f"graph(%x, %y):\n{lines}\n return ({result})")
        _C._jit_pass_custom_pattern_based_rewrite_graph(product, fused, graph)
        return [node.kind() for node in graph.nodes()]

    three = "%t = aten::mul(%x, %y)\n %u = aten::mul(%t, %x)\n %v = aten::mul(%u, %y)\n"
    assert exchanged(three, "%v") == ["my::product", "aten::mul"]  # matches don't overlap
    assert exchanged(three, "%t, %v") == ["aten::mul", "my::product"]  # what others read stays
    graph = _C.parse_ir("graph(%x, %y):\n %t = aten::add(%x, %y)\n %u = aten::mul(%t, %y)\n return (%u)")
    _C._jit_pass_custom_pattern_based_rewrite_graph(product, fused, graph)
    assert graph.findNode("my::product") is None


def test_a_frozen_program_is_reached_by_its_inner_name() -> None:
    class Model(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.linear, self.a = torch.nn.Linear(2, 2), 3

        def forward(self, x):
            return self.linear(x) + self.a

    model = torch.jit.script(Model().eval())
    x = torch.ones(1, 2)
    frozen = _C._freeze_module(model._c)
    assert not frozen.hasattr("linear") and frozen.forward(x).equal(model(x))
    assert _C._freeze_module(model._c, ["linear"]).linear.hasattr("weight")
    with pytest.raises(AttributeError, match="does not have a field with name 'other'"):
        frozen.getattr("other")
    wanted = model(x)
    model._c = frozen
    assert not hasattr(model, "a") and model(x).equal(wanted)
