"""Damaged and hostile .pt2 files: each ends in an exception that says why, and nothing of it runs.

tests/export/attack_pt2.py does more of the damage at random than there is time for here.
"""

import io
import json
import pickle
import tracemalloc
import zipfile

import pytest
from attack_pt2 import FILES, cut, ended, flipped

import flambeau as torch
from flambeau import nn
from flambeau._export.serde.serialize import SerializeError
from flambeau.export import export, load, save

MODEL, WEIGHTS, INPUTS = "models/model.json", "data/weights/model_weights_config.json", "data/sample_inputs/model.pt"


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_files_that_are_cut_or_have_a_bit_turned(path) -> None:
    content = path.read_bytes()
    assert ended(content) == "loaded"
    assert "loaded" not in {ended(part) for part in cut(content)}
    for part in flipped(content, 30, 0):
        ended(part)


class Small(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.inner = nn.Linear(2, 2)

    def forward(self, x, *, scale):
        return {"y": self.inner(x).split(1, dim=1)[0] * scale}


def written(model: nn.Module | None = None) -> dict[str, bytes]:
    """The records of an archive."""
    file = io.BytesIO()
    model = model or Small()
    save(export(model, (torch.ones(1, 2),), {"scale": torch.ones(1)}), file)
    with zipfile.ZipFile(file) as archive:
        return {name.partition("/")[2]: archive.read(name) for name in archive.namelist()}


RECORDS = written()


def archive(records: dict[str, bytes], compression: int = zipfile.ZIP_STORED) -> io.BytesIO:
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w", compression) as made:
        for name, content in records.items():
            made.writestr(f"archive/{name}", content)
    return file


def edited(*path, value, record: str = MODEL) -> io.BytesIO:
    """The archive with something else at a place of a record of JSON."""
    data = json.loads(RECORDS[record])
    inner = data
    for step in path[:-1]:
        inner = inner[step]
    inner[path[-1]] = value
    return archive({**RECORDS, record: json.dumps(data).encode()})


def refused(file, error=SerializeError, match: str | None = None) -> None:
    tracemalloc.start()
    try:
        with pytest.raises(error, match=match) as caught:
            load(file)
        assert tracemalloc.get_traced_memory()[1] < 50_000_000 and len(str(caught.value)) < 2500
    finally:
        tracemalloc.stop()


GRAPH = ("graph_module", "graph")
CALL = ("graph_module", "module_call_graph", 0, "signature")
TARGETS = """os.system builtins.eval torch.load torch.ops torch.ops.aten torch.ops.aten.mul torch.ops.aten._made
torch.ops.aten.__class__ torch.ops.aten.add.Tensor.__call__ torch.ops.aten.add.__call__ torch.ops.aten.add.Nothing
torch.ops.aten.no_such_operator.default torch.ops.load_library torch.ops.higher_order._made torch.ops.higher_order.nothing
torch.ops.os.system.default _operator.attrgetter _operator.methodcaller
_operator.getitem math.__loader__ #own:operator torch.nn.functional.relu torch.ops.aten.mul.Tensor;os"""


@pytest.mark.parametrize("target", TARGETS.split())
def test_only_known_operators_are_called(target) -> None:
    refused(edited(*GRAPH, "nodes", 0, "target", value=target), match="We failed to resolve .* to an operator")


def test_operators_without_an_answer_are_refused_by_name() -> None:
    file = edited(*GRAPH, "nodes", 0, "target", value="torch.ops.aten._cudnn_rnn_flatten_weight.default")
    refused(file, NotImplementedError, r"not implemented in flambeau: aten\._cudnn_rnn_flatten_weight\.default")


NAMES = ["x; import os", "x\nimport os", "", "a.b", "lambda", "(lambda: 0)()", "ｅval", "1x"]


@pytest.mark.parametrize("name", NAMES)
def test_names_go_into_code(name) -> None:
    for place in (("inputs", 2, "as_tensor", "name"), ("nodes", 1, "outputs", 0, "as_tensors", 0, "name")):
        refused(edited(*GRAPH, *place, value=name), match="is no name of a value|nothing is known of")
    if name:
        refused(edited(*GRAPH, "nodes", 0, "name", value=name), match="is no name of a value")
    refused(edited(*CALL, "forward_arg_names", value=[name, "scale"]), match="is no name of a value")
    keys = json.loads(json.loads(RECORDS[MODEL])["graph_module"]["module_call_graph"][0]["signature"]["in_spec"])
    keys[1]["children_spec"][1]["context"] = json.dumps([name])
    if not name.isidentifier():
        refused(edited(*CALL, "in_spec", value=json.dumps(keys)), match="must be a tuple and a dict of names")


def test_names_of_weights_are_texts_in_code() -> None:
    for name in ('w"); import os; ("', "w\nimport os", "# COUNTER: 5", "w\\"):
        text = json.dumps(name)[1:-1].encode()
        records = {path: content.replace(b"inner.weight", text) for path, content in RECORDS.items()}
        module = load(archive(records)).module()
        assert name in dict(module.named_parameters()) and module(torch.ones(1, 2), scale=torch.ones(1))["y"].shape == (1, 1)
    for name in (b"__class__.x", b"forward", b"_parameters.x", b"inner.__dict__"):
        records = {path: content.replace(b"inner.weight", name) for path, content in RECORDS.items()}
        with pytest.raises(KeyError, match="already exists"):
            load(archive(records)).module()


STRUCTURES = {
    "no list": ((*GRAPH, "nodes"), {}, "Graph.nodes: expected a list, got dict"),
    "no text": ((*GRAPH, "nodes", 0, "target"), 3, "Node.target: expected str, got 3"),
    "unknown union": ((*GRAPH, "nodes", 0, "inputs", 0, "arg"), {"as_code": "1"}, "'as_code' is not a valid tag for Argument"),
    "two of a union": ((*GRAPH, "nodes", 0, "inputs", 0, "arg"), {"as_int": 1, "as_none": True}, "an object of one field"),
    "a bool as a number": ((*GRAPH, "nodes", 1, "inputs", 1, "arg"), {"as_int": True}, "an integer of 64 bits"),
    "a large number": ((*GRAPH, "nodes", 1, "inputs", 1, "arg"), {"as_int": 1 << 70}, "an integer of 64 bits"),
    "no dtype": ((*GRAPH, "tensor_values", "x", "dtype"), 99, "the number of a ScalarType"),
    "the unknown dtype": ((*GRAPH, "tensor_values", "x", "dtype"), 0, "flambeau has no ScalarType UNKNOWN"),
    "sparse": ((*GRAPH, "tensor_values", "x", "layout"), 1, "sparse tensors are not implemented"),
    "an argument too many": ((*GRAPH, "nodes", 0, "inputs", 0, "name"), "other", "lacks its argument input"),
    "an undefined value": ((*GRAPH, "nodes", 0, "inputs", 0, "arg"), {"as_tensor": {"name": "zz"}}, "'zz' is used before it"),
    "two of a name": ((*GRAPH, "inputs", 0, "as_tensor", "name"), "x", "'x' is defined twice"),
    "an object of a class": ((*GRAPH, "nodes", 0, "inputs", 0, "arg"), {"as_custom_obj": {"name": "a", "class_fqn": "b"}},
                             "objects of custom classes"),
    "modules": ((*GRAPH, "nodes", 0, "metadata", "nn_module_stack"), "a", "must have three parts"),
    "sources": ((*GRAPH, "nodes", 0, "metadata", "from_node"), '[{"name": 3}]', "an object of texts"),
    "actions": ((*GRAPH, "nodes", 0, "metadata", "from_node"), '[{"action": "x"}]', "unknown action"),
    "notes": ((*GRAPH, "nodes", 0, "metadata", "custom"), "{", "this is no JSON"),
    "no program": (("graph_module", "module_call_graph"), [], "must be the program itself"),
    "another version": (("schema_version", "major"), 7, "does not match our current schema version"),
    "a verifier": (("verifiers",), ["os.system"], "dialect 'os.system'"),
    "ranges": (("range_constraints",), {"s0": {"min_val": 3, "max_val": 2}}, "the range of 's0' is empty"),
    "ranges of nothing": (("range_constraints",), {"os.x": {"min_val": 1, "max_val": 2}}, "no expression over sizes"),
}  # fmt: skip


@pytest.mark.parametrize("case", STRUCTURES)
def test_what_is_no_program(case) -> None:
    path, value, message = STRUCTURES[case]
    refused(edited(*path, value=value), (SerializeError, NotImplementedError), message)


def nested(kind: str, depth: int) -> str:
    """Arguments within arguments, or graphs within graphs, as JSON."""
    empty = '"inputs": [], "outputs": [], "tensor_values": {}, "sym_int_values": {}, "sym_bool_values": {}'
    if kind == "arguments":
        return '{"as_string_to_argument": {"a": ' * depth + '{"as_int": 1}' + "}}" * depth
    head = f'{{"as_graph": {{"name": "g", "graph": {{{empty}, "nodes": [{{"target": "torch.ops.higher_order.cond", '
    head += '"outputs": [], "metadata": {}, "inputs": [{"name": "", "kind": 1, "arg": '
    return head * depth + '{"as_int": 1}' + "}]}]}}}" * depth


@pytest.mark.parametrize("kind", ["arguments", "graphs"])
@pytest.mark.parametrize("depth", [35, 150, 20_000])
def test_recursion_ends(kind, depth) -> None:
    text = edited(*GRAPH, "nodes", 0, "inputs", 0, "arg", value="HERE")
    with zipfile.ZipFile(text) as made:
        model = made.read(f"archive/{MODEL}").replace(b'"HERE"', nested(kind, depth).encode())
    refused(archive({**RECORDS, MODEL: model}), match="nested too deeply")
    refused(archive({**RECORDS, MODEL: b"[" * 1_000_000}), match="nested too deeply")


EXPRESSIONS = {
    "a call": "__import__('os').system('echo harm')",
    "an attribute": "Symbol('s0', positive=True).__class__.__init__",
    "a chain": "s0" + ".a" * 3000,
    "a lambda": "(lambda: s0)()",
    "a comprehension": "[x for x in (1,)]",
    "a conditional": "s0 if s1 else s2",
    "a text": "Symbol('s 0; import os')",
    "a format": "f'{s0}'",
    "another function": "OpaqueUnaryFn_exec(Symbol('s0'))",
    "a name for an argument": "Add(Symbol('s0'), evaluate=True)",
    "an assumption": "Symbol('s0', cls=3)",
    "a walrus": "(s0 := 3)",
    "two": "s0; s1",
    "nothing": "",
    "depth": "(" * 9000 + "s0" + ")" * 9000,
    "signs": "-" * 19_000 + "s0",
    "sums": "+".join(["Symbol('s0')"] * 5000),
    "a large power": "Pow(Integer(10), Integer(1000000000))",
    "powers of powers": "Pow(Pow(Pow(Symbol('s0'), Integer(64)), Integer(64)), Integer(64))",
    "a shift": "LShift(Integer(1), Integer(1000000000))",
    "a shift by a size": "LShift(Integer(1), Symbol('s0'))",
    "digits": "Integer(" + "9" * 5000 + ")",
    "infinity": "Float('1e999', precision=53)",
    "no number": "Integer('x')",
    "division": "FloorDiv(Symbol('s0'), Integer(0))",
}


@pytest.mark.parametrize("case", EXPRESSIONS)
def test_sizes_are_expressions(case, capfd) -> None:
    size = {"as_expr": {"expr_str": EXPRESSIONS[case], "hint": {"as_int": 4}}}
    refused(edited(*GRAPH, "tensor_values", "x", "sizes", 0, value=size), match="expression over sizes|is no size")
    assert "harm" not in capfd.readouterr().out


def test_sizes_of_the_example_are_sizes() -> None:
    for hint in (-3, 1 << 62, 1 << 64):
        size = {"as_expr": {"expr_str": "Symbol('s0', integer=True)", "hint": {"as_int": hint}}}
        refused(edited(*GRAPH, "tensor_values", "x", "sizes", 0, value=size), match="is no size|integer of 64 bits")
    size = {"as_expr": {"expr_str": "Symbol('s0', integer=True)", "hint": {"as_int": 1 << 61}}}
    refused(edited(*GRAPH, "tensor_values", "x", "sizes", value=[size, size]), RuntimeError, "overflow")


def test_guards_are_checked_by_what_they_say(capfd) -> None:
    size = {"as_expr": {"expr_str": "Symbol('s0', positive=True, integer=True)", "hint": {"as_int": 4}}}
    wrong = ["L['x'].__class__", "L['x'].size()[print('harm')] == 1", "L.x == 3", "L['y'].size()[0] > 2", "s0", "s1 > 2"]
    for text in (*EXPRESSIONS.values(), *wrong):
        data = json.loads(RECORDS[MODEL])
        data["graph_module"]["graph"]["tensor_values"]["x"]["sizes"][0] = size
        data["guards_code"] = ["L['x'].size()[0] % 3 == 1", text]
        with pytest.warns(UserWarning, match="the loaded program doesn't check that"):
            program = load(archive({**RECORDS, MODEL: json.dumps(data).encode()}))
        assert [str(e) for e in program._guards] == ["Eq(PythonMod(s0, 3), 1)"]
    data["guards_code"] = ["L['flat_args'][0].size()[0] <= 8 and L['x'].size()[0] != 5"]
    assert [str(e) for e in load(archive({**RECORDS, MODEL: json.dumps(data).encode()}))._guards] == ["(s0 <= 8) & Ne(s0, 5)"]
    module = program.module()
    module(torch.ones(7, 2), scale=torch.ones(1))
    with pytest.raises(AssertionError, match="Guard failed"):
        module(torch.ones(6, 2), scale=torch.ones(1))
    assert "harm" not in capfd.readouterr().out


def tensor(**changes) -> io.BytesIO:
    config = json.loads(RECORDS[WEIGHTS])
    entry = config["config"]["inner.weight"]
    for name, value in changes.items():
        if name in entry["tensor_meta"]:
            entry["tensor_meta"][name] = value
        else:
            entry[name] = value
    return archive({**RECORDS, WEIGHTS: json.dumps(config).encode()})


def sizes(*numbers: int) -> list[dict[str, int]]:
    return [{"as_int": n} for n in numbers]


GEOMETRY = {
    "outside": ({"sizes": sizes(2, 3)}, "require a storage of 24 bytes, but it has 16|storage"),
    "offset": ({"storage_offset": {"as_int": 1}}, "require a storage"),
    "negative offset": ({"storage_offset": {"as_int": -1}}, "invalid storage offset -1"),
    "negative size": ({"sizes": sizes(-2, 2)}, "integer multiplication overflow"),
    "huge": ({"sizes": sizes(1 << 62, 1 << 62), "strides": sizes(0, 0)}, "overflow"),
    "strides": ({"strides": sizes(1 << 62, 1)}, "overflow"),
    "rank": ({"strides": sizes(1)}, "unequal size length"),
    "symbol": ({"sizes": [{"as_expr": {"expr_str": "s0"}}]}, "must be a number"),
    "path": ({"path_name": "../../../etc/passwd"}, "file not found"),
    "another record": ({"path_name": "../../archive_format"}, "file not found"),
    "absolute": ({"path_name": "/etc/passwd"}, "file not found"),
    "no pickle": ({"use_pickle": True}, "Invalid magic number|no |Unsupported|unpickl|EOF|not"),
    "dtype": ({"dtype": 8, "sizes": sizes(2, 2)}, "require a storage"),
    "device": ({"device": {"type": "cuda", "index": 0}}, "CUDA|cuda"),
    "no device": ({"device": {"type": "os", "index": None}}, "os"),
    "object": ({"path_name": "custom_obj_0"}, "object of a program's own class"),
}  # fmt: skip


@pytest.mark.parametrize("case", GEOMETRY)
def test_weights_lie_inside_their_records(case) -> None:
    changes, message = GEOMETRY[case]
    # numbers read as a pickle: what the first of its instructions raises
    errors = (RuntimeError, NotImplementedError, ValueError, pickle.UnpicklingError, AssertionError, EOFError, LookupError)
    refused(tensor(**changes), errors, message)


def test_a_record_without_bytes_is_no_weight() -> None:
    record = next(name for name in RECORDS if name.startswith("data/weights/weight_"))
    refused(archive({**RECORDS, record: b""}), RuntimeError, "require a storage")
    refused(archive({**RECORDS, record: b"123"}), ValueError, "size 3 is not a multiple of element size 4")


CONTAINERS = {
    "imports": ("collections.defaultdict", {"default_factory_module": "os", "default_factory_name": "system", "dict_context": []},
                "a defaultdict that makes os.system is not read from files"),
    "enumerations": ("builtins.dict", json.dumps([{"__enum__": True, "fqn": "antigravity:X", "name": "a"}]), "no enumeration"),
    "no enumeration": ("builtins.dict", json.dumps([{"__enum__": True, "fqn": "os:system", "name": "a"}]), "no enumeration"),
    "a class": ("os.system", "null", "Deserializing os.system in pytree is not registered"),
    "keys": ("builtins.dict", "[[1]]", "the keys of a dict"),
    "too many keys": ("builtins.dict", '["a", "b"]', "doesn't fit its children"),
    "a tuple's context": ("builtins.tuple", "3", "doesn't fit"),
    "a deque's": ("collections.deque", '"a"', "doesn't fit"),
    "a named tuple": ("collections.namedtuple", "os.system", "couldn't find a serializated name"),
    "no text": ("builtins.list", {}, "must be a text"),
    "no JSON": ("builtins.list", "{", "no JSON"),
}  # fmt: skip


@pytest.mark.parametrize("case", CONTAINERS)
def test_containers_are_of_known_classes(case) -> None:
    kind, context, message = CONTAINERS[case]
    spec = [1, {"type": kind, "context": context, "children_spec": []}]
    refused(edited(*CALL, "out_spec", value=json.dumps(spec)), (SerializeError, NotImplementedError), message)


def test_containers_have_as_many_leaves_as_the_graph() -> None:
    leaf = {"type": None, "context": None, "children_spec": []}
    two = {"type": "builtins.list", "context": "null", "children_spec": [leaf, leaf]}
    refused(edited(*CALL, "out_spec", value=json.dumps([1, two])), match="have 2 and 2 leaves, the graph has 2 and 1")
    refused(edited(*CALL, "in_spec", value=json.dumps([1, two])), match="must be a tuple and a dict of names")
    refused(edited(*CALL, "out_spec", value=json.dumps([2, two])), ValueError, "Unknown protocol 2")
    for depth, words in ((200, "have 2 and 0 leaves"), (201, "nested too deeply"), (900, "nested too deeply")):
        deep = '{"type": "builtins.list", "context": "null", "children_spec": [' * depth + "]}" * depth
        refused(edited(*CALL, "out_spec", value=f"[1, {deep}]"), match=words)


class Harm:
    def __reduce__(self):
        return print, ("harm",)


def test_sample_inputs_are_data(capfd) -> None:
    file = io.BytesIO()
    torch.save(((Harm(),), {}), file)
    refused(archive({**RECORDS, INPUTS: file.getvalue()}), pickle.UnpicklingError, "GLOBAL print was not an allowed global")
    refused(archive({**RECORDS, INPUTS: pickle.dumps(Harm(), 2)}), (pickle.UnpicklingError, RuntimeError))
    record = next(name for name in RECORDS if name.startswith("data/weights/weight_"))
    config = RECORDS[WEIGHTS].replace(b'"use_pickle": false', b'"use_pickle": true')
    refused(archive({**RECORDS, WEIGHTS: config, record: file.getvalue()}), pickle.UnpicklingError, "not an allowed global")
    assert "harm" not in capfd.readouterr().out
    file = io.BytesIO()
    torch.save([1], file)
    refused(archive({**RECORDS, INPUTS: file.getvalue()}), match="must be a tuple of arguments, and a dict")
    assert load(archive({**RECORDS, INPUTS: b""})).example_inputs is None


def test_archives_that_are_none() -> None:
    for record in (MODEL, WEIGHTS, INPUTS, "archive_format", "archive_version"):
        refused(archive({name: content for name, content in RECORDS.items() if name != record}), RuntimeError)
    refused(archive({**RECORDS, "archive_format": b"zip"}), AssertionError, "Invalid archive format")
    refused(archive({**RECORDS, "archive_version": b"1"}), ValueError, "does not match our current archive version 0")
    refused(archive({**RECORDS, "extra/a": b"\xff"}), UnicodeDecodeError)
    refused(archive({**RECORDS, MODEL: b"\xff"}), match="no JSON")
    number = RECORDS[MODEL].replace(b'"as_int": 1', b'"as_int": ' + b"1" * 5000)
    refused(archive({**RECORDS, MODEL: number}), match="no JSON")
    bomb = archive({**RECORDS, MODEL: b" " * 3_000_000}, zipfile.ZIP_DEFLATED)
    refused(bomb, RuntimeError, "claims to be a text of 3000000")
    files: dict = {}
    load(archive({**RECORDS, "extra/../../a": b"b"}, zipfile.ZIP_DEFLATED), extra_files=files)
    assert files == {"../../a": "b"}
