"""Graphs node by node: names, arguments, order, printing, modules made of them; expected texts are PyTorch's."""

import collections
import enum
import io
import operator
import pathlib
import warnings

import pytest

import flambeau as torch
import flambeau.nn.functional as F
from flambeau import fx, nn

Pair = collections.namedtuple("Pair", "a b")


class Colour(enum.Enum):
    RED = 1


def chain() -> fx.Graph:
    return fx.symbolic_trace(lambda x, y: torch.relu(x) + y).graph


def test_names() -> None:
    graph = fx.Graph()
    wanted = {"x": "x", "x_1": "x_1", "x_5": "x_5", "1a": "_1a", "a.b": "a_b", "": "_unnamed", "Foo": "foo", "and": "and_1",
              "input": "input_1", "torch": "torch_1", "fooBar": "foo_bar", "x_01": "x_01"}  # fmt: skip
    assert [graph.placeholder(name).name for name in wanted] == list(wanted.values())
    assert [graph.placeholder(name).name for name in ("x", "x", "x_5")] == ["x_2", "x_3", "x_4"]
    assert graph.call_function(nn.ReLU).name == "re_lu" and graph.call_function(operator.and_).name == "and_"
    assert graph.call_function(len).name == "len_1" and graph.call_method("__call__", (1,)).name == "call"


def test_arguments_in_code_and_text() -> None:
    graph = fx.Graph()
    p = graph.placeholder("p")
    for arg in (Colour.RED, Pair(p, 2), torch.float32, slice(1, p), {"a": p, 1: [p]}, (p,), float("inf"), 'a"b', ...):
        graph.call_function(torch.relu, (arg,))
    assert [line.strip() for line in graph.python_code("self").src.splitlines()[4:]] == [
        "relu = torch.relu(Colour.RED);  relu = None",
        f"relu_1 = torch.relu({__name__.replace('.', '_')}_Pair(p, 2));  relu_1 = None",
        "relu_2 = torch.relu(torch.float32);  relu_2 = None",
        "relu_3 = torch.relu(slice(1, p, None));  relu_3 = None",
        "relu_4 = torch.relu({'a': p, 1: [p]});  relu_4 = None",
        "relu_5 = torch.relu((p,));  p = relu_5 = None",
        "relu_6 = torch.relu(inf);  relu_6 = None",
        "relu_7 = torch.relu('a\"b');  relu_7 = None",
        "relu_8 = torch.relu(Ellipsis);  relu_8 = None",
        "",
    ]
    assert graph.find_nodes(op="call_function", target=torch.relu)[4].format_node() == (
        "%relu_4 : [num_users=0] = call_function[target=torch.relu](args = ({a: %p, 1: [%p]},), kwargs = {})"
    )


def test_uses_are_counted_and_containers_refuse_changes() -> None:
    graph = chain()
    x, y, relu, add, output = graph.nodes
    assert list(relu.users) == [add] and add.all_input_nodes == [relu, y] and x < relu < output
    add.args = ([relu, {"k": x}], y)
    assert list(x.users) == [relu, add]
    for change in (lambda: add.args[0].append(1), lambda: add.args[0][1].update(a=1)):
        with pytest.raises(TypeError, match=r"object does not support mutation\. If you are attempting to modify the kwargs"):
            change()
    relu.replace_all_uses_with(y)
    assert not relu.users and add.args == ([y, {"k": x}], y)
    graph.erase_node(relu)
    with pytest.raises(RuntimeError, match="Tried to erase Node y but it still had 1 users in the graph: "):
        graph.erase_node(y)
    assert [n.name for n in reversed(graph.nodes)] == ["output", "add", "y", "x"] and len(graph.nodes) == 4


def test_where_nodes_are_inserted() -> None:
    graph = fx.Graph()
    x = graph.placeholder("x")
    with graph.inserting_after(x):
        graph.call_function(torch.relu, (x,))
        graph.call_function(torch.sin, (x,))
    with graph.inserting_before(None):
        graph.placeholder("first")
    assert [n.name for n in graph.nodes] == ["first", "x", "sin", "relu"]
    graph.find_nodes(op="call_function", target=torch.relu)[0].append(x)
    assert [n.name for n in graph.nodes] == ["first", "sin", "relu", "x"]
    with pytest.raises(RuntimeError, match="Argument 'x' of Node 'sin' was used before it has been defined!"):
        graph.lint()


def test_dead_code() -> None:
    def function(x):
        torch._assert(x, "no")
        torch.rand(2)
        torch.sin(x)
        return x.neg()

    graph = fx.symbolic_trace(function).graph
    assert graph.eliminate_dead_code()
    assert [n.name for n in graph.nodes] == ["x", "_assert", "neg", "output"]
    assert graph.create_node("call_function", torch.rand, (2,)).is_impure()


def test_a_table(capsys) -> None:
    fx.symbolic_trace(nn.Sequential(nn.ReLU())).graph.print_tabular()
    assert capsys.readouterr().out == (
        "opcode       name     target    args        kwargs\n"
        "-----------  -------  --------  ----------  --------\n"
        "placeholder  input_1  input     ()          {}\n"
        "call_module  _0       0         (input_1,)  {}\n"
        "output       output   output    (_0,)       {}\n"
    )


def test_tables_show_functions_as_pytorchs(capsys) -> None:
    fx.symbolic_trace(lambda x: F.relu(F.gelu(torch.sin(x)))).graph.print_tabular()
    lines = capsys.readouterr().out.splitlines()
    assert "<built-in method sin of type object at 0x" in lines[3] and "<built-in function gelu>" in lines[4]
    assert "<function relu at 0x" in lines[5]


def test_containers_of_inputs() -> None:
    class Two(nn.Module):
        def forward(self, xs, y: torch.Tensor = None, z: int = 3):
            return {"a": xs[0] + z, "b": [xs[1], y]}

    traced = fx.symbolic_trace(Two(), concrete_args={"xs": [fx.PH, fx.PH]})
    assert traced.code.strip() == (
        "def forward(self, xs, y, z):\n"
        "    y : torch.Tensor = None; z : int = 3; \n\n"
        "    self, xs_1, xs_2, y , z , = fx_pytree.tree_flatten_spec([self, xs, y, z], self._in_spec)\n"
        "    add = xs_1 + z;  xs_1 = z = None\n"
        "    return pytree.tree_unflatten([add, xs_2, y], self._out_spec)"
    )
    assert traced([1, 2], None, 3) == {"a": 4, "b": [2, None]}


def test_concrete_arguments() -> None:
    def function(x, d, flag=True):
        return d["a"] + x if flag else d["b"]

    traced = fx.symbolic_trace(function, concrete_args={"flag": False})
    assert traced.code.strip().splitlines()[:4] == [
        "def forward(self, x, d, flag_1 = True):",
        "    eq = flag_1 == False;  flag_1 = None",
        "    _assert = torch._assert(eq, 'flag has been specialized to have value False but got another value');  "
        "eq = _assert = None",
        "    getitem = d['b'];  d = None",
    ]
    with pytest.raises(AssertionError, match="flag has been specialized"):
        traced(1, {"b": 2}, True)
    tree = fx.symbolic_trace(function, concrete_args={"d": {"a": fx.PH, "b": 3}, "flag": True})
    assert tree(2, {"a": 5, "b": 3}, True) == 7


def test_print_readable_says_where_nodes_come_from() -> None:
    traced = fx.symbolic_trace(lambda x: torch.relu(x) + 1)
    for number, node in enumerate(traced.graph.nodes):
        node.stack_trace = f'File "a.py", line {number}, in f\n    code{number}'
        node.meta["val"] = torch.ones(2, 3)
    assert traced.print_readable(print_output=False, include_stride=True, include_device=True) == (
        "class <lambda>(torch.nn.Module):\n"
        '    def forward(self, x: "f32[2, 3][3, 1]cpu"):\n'
        "        # File: a.py:1 in f, code: code1\n"
        '        relu: "f32[2, 3][3, 1]cpu" = torch.relu(x);  x = None\n\n'
        "        # File: a.py:2 in f, code: code2\n"
        '        add: "f32[2, 3][3, 1]cpu" = relu + 1;  relu = None\n'
        "        return add\n"
    )


def test_stack_traces_lead_to_the_traced_program() -> None:
    class Recording(fx.Tracer):
        record_stack_traces = True

    graph = Recording().trace(lambda x: torch.relu(x))
    (relu,) = graph.find_nodes(op="call_function", target=torch.relu)
    assert pathlib.Path(__file__).name in relu.stack_trace and relu.stack_trace.count("File ") == 1


def test_errors_in_generated_code_show_its_lines(capsys) -> None:
    traced = fx.symbolic_trace(lambda x, y: torch.relu(x) + y)
    with pytest.raises(TypeError):
        traced(torch.ones(2), "a")
    said = capsys.readouterr().err
    assert "Call using an FX-traced Module, line 6 of the traced Module's generated forward function:" in said
    assert "    add = relu + y;  relu = y = None\n\n~~~" in said and "~~~ <--- HERE" in said


def test_errors_of_submodules_speak_for_themselves(capsys) -> None:
    for function in (nn.Sequential(nn.ReLU()), lambda x: F.relu(x)):
        with pytest.raises((TypeError, RuntimeError)):
            fx.symbolic_trace(function)("a")
    with pytest.raises(RuntimeError, match="shapes cannot be multiplied"):
        fx.symbolic_trace(Net())(torch.ones(1, 3))
    assert "FX-traced" not in capsys.readouterr().err


class Net(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.lin = nn.Linear(2, 2)
        self.register_buffer("b", torch.ones(2))
        self.unused = nn.Linear(1, 1)

    def forward(self, x):
        return torch.relu(self.lin(x)) + self.b


def test_modules_are_added_deleted_saved_and_written(tmp_path) -> None:
    traced = fx.symbolic_trace(Net())
    assert traced.add_submodule("new.sub", nn.ReLU()) and not traced.add_submodule("b.x", nn.ReLU())
    assert [name for name, _ in traced.named_modules()] == ["", "lin", "new", "new.sub"]
    assert traced.delete_submodule("new.sub") and not traced.delete_submodule("nope.x")
    traced.delete_all_unused_submodules()
    assert [name for name, _ in traced.named_modules()] == ["", "lin"]
    file, x = io.BytesIO(), torch.randn(3, 2)
    torch.save(traced, file)
    file.seek(0)
    loaded = torch.load(file, weights_only=False)
    assert loaded.code == traced.code and torch.equal(loaded(x), traced(x))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        traced.to_folder(tmp_path / "net", "Net")
    written = (tmp_path / "net" / "module.py").read_text()
    assert "setattr(self, 'lin', Linear(in_features=2, out_features=2, bias=True))" in written
    assert "self.register_buffer('b', torch.empty([2], dtype=torch.float32))" in written
    with pytest.raises(RuntimeError, match="Node lin referenced target lin but that target was not provided in ``root``!"):
        fx.GraphModule({}, traced.graph)


def test_code_is_transformed() -> None:
    traced = fx.symbolic_trace(Net())
    before = traced.code
    with traced.graph.on_generate_code(lambda current: lambda lines: ["# hello\n", *lines]):
        traced.recompile()
        assert "    # hello\n    lin = self.lin(x)" in traced.code
    traced.recompile()
    assert traced.code == before
