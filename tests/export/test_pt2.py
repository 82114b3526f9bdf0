"""torch.export.save and load: what PyTorch wrote (tests/export/files), and what is written here."""

import dataclasses
import io
import json
import pathlib
import zipfile
from collections import OrderedDict, defaultdict, deque, namedtuple

import pytest

import flambeau as torch
import flambeau.export.pt2_archive._package as package
from flambeau import nn
from flambeau._export.serde import schema
from flambeau._export.serde.serialize import SerializeError, deserialize, serialize
from flambeau.export import ExportedProgram, export, load, register_dataclass, save
from flambeau.export.pt2_archive import PT2ArchiveReader, PT2ArchiveWriter, is_pt2_package
from flambeau.fx.traceback import NodeSource, NodeSourceAction
from flambeau.utils import _pytree as pytree

FILES = pathlib.Path(__file__).parent / "files"


def plain(value):
    """A result as the files' expected.json has it."""
    if not isinstance(value, torch.Tensor):
        return value
    return torch.view_as_real(value).tolist() if value.is_complex() else value.tolist()


def kept(program: ExportedProgram, **options) -> ExportedProgram:
    """The program, saved and loaded."""
    file = io.BytesIO()
    save(program, file, **options)
    assert file.tell() == 0
    return load(file)


class Program(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.first, self.second = nn.Linear(4, 4), nn.Linear(4, 4)
        self.second.weight = self.first.weight
        self.register_buffer("steps", torch.zeros(4), persistent=False)
        self.register_buffer("seen", torch.zeros(4))
        self.factor = torch.tensor([1.0, 2.0, 3.0, 4.0])

    def forward(self, d, count, *, scale=None):
        self.steps.add_(1)
        self.seen += d["x"].sum(0)
        low, _, high = self.second(self.first(d["x"])).split([1, 2, 1], dim=1)
        return {"low": low * count, "rest": [self.steps * self.factor + high, None, count]}


@pytest.mark.parametrize("name", ["program", "weights", "branches", "functional", "sizes"])
def test_what_pytorch_wrote(name) -> None:
    files: dict = {}
    program = load(FILES / f"{name}.pt2", extra_files=files)
    expected = json.loads(files["expected.json"])
    # a result that no node of the saved graph takes out gets a node when PyTorch loads it
    printed = "".join(line for line in expected["printed"].splitlines(True) if "_unused_" not in line)
    assert str(program) == printed and program.module().code == expected["code"]
    args, kwargs = program.example_inputs
    made = pytree.tree_leaves(program.module()(*args, **kwargs))
    for a, b in zip(map(plain, made), expected["results"], strict=True):
        assert a == b or torch.allclose(torch.tensor(a), torch.tensor(b))
    assert str(kept(program)) == printed


def test_a_loaded_program_is_taken_apart() -> None:
    program, apart = load(FILES / "program.pt2"), load(FILES / "functional.pt2")
    made = program.run_decompositions({})
    assert str(made) == str(apart) and made.dialect == apart.dialect == "ATEN" and program.dialect == "TRAINING"
    module = apart.module()
    args, kwargs = apart.example_inputs
    module(*args, **kwargs)
    assert module.steps.tolist() == [1.0, 1.0]  # what is a result in the graph is written to the buffer


def test_weights_as_pytorch_2_8_wrote_them() -> None:
    program, file = export(nn.Linear(2, 2), (torch.rand(1, 2),)), io.BytesIO()
    save(program, file)
    with zipfile.ZipFile(file) as archive:
        records = {name: archive.read(name) for name in archive.namelist() if "weight" not in name}
    weights = io.BytesIO()
    torch.save(dict(program.state_dict), weights)
    older = io.BytesIO()
    with zipfile.ZipFile(older, "w") as archive:
        for name, content in {**records, "archive/data/weights/model.pt": weights.getvalue()}.items():
            archive.writestr(name, content)
    again = load(older)
    assert torch.equal(again.state_dict["weight"], program.state_dict["weight"])
    assert isinstance(again.state_dict["bias"], nn.Parameter)


def test_older_files_and_endings(tmp_path, caplog) -> None:
    with zipfile.ZipFile(tmp_path / "old.zip", "w") as archive:
        archive.writestr("version", "8.8")
    with pytest.raises(RuntimeError, match="not in a subdirectory") as caught:
        load(tmp_path / "old.zip")
    assert "before 2.8" in caught.value.__notes__[0]
    assert "must be a buffer or a file ending in .pt2. Instead got" in caplog.text
    save(export(nn.Linear(2, 2), (torch.rand(1, 2),)), tmp_path / "a.zip")
    assert "Expect archive file to be a file ending in .pt2" in caplog.text


def test_dynamic_sizes_of_pytorch() -> None:
    program = load(FILES / "sizes.pt2")
    assert {str(e): str(r) for e, r in program.range_constraints.items()} == {
        "u0": "VR[0, int_oo]", "u1": "VR[0, 9223372036854775806]", "s77": "VR[3, int_oo]", "2*s77": "VR[6, int_oo]",
    }  # fmt: skip
    for p in (program, kept(program)):
        module = p.module()
        rows, tripled, ones, places, number = module(torch.tensor([0.0, 1, 2, 3]), torch.tensor([1, 1, 0, 0, 0, 0, 0, 0]))
        assert rows.tolist() == [0, 1, 2, 3, 0, 1, 2] and tripled == 12 and ones.tolist() == [1, 1]
        assert places.tolist() == [[1], [2], [3]] and number == 4.0
        with pytest.raises(AssertionError, match=r"Guard failed: y\.size\(\)\[0\] == 2 \* x\.size\(\)\[0\]"):
            module(torch.ones(4), torch.ones(7, dtype=torch.int64))
        with pytest.raises(AssertionError, match=r"Guard failed: x\.size\(\)\[0\] >= 3"):
            module(torch.ones(2), torch.ones(4, dtype=torch.int64))
        with pytest.raises(RuntimeError, match="Runtime assertion failed for expression u0 < 10\\*s77"):
            module(torch.ones(3), torch.full((6,), 9))


class Dynamic(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.f = nn.Linear(3, 2)

    def forward(self, x, d, n=None):
        if x.shape[0] % 4 == 0:
            x = x * 2
        return self.f(x).reshape(-1), d["y"] + x.sum(), x.shape[0] + d["y"].shape[0]


def test_dynamic_sizes_come_back() -> None:
    args = torch.rand(8, 3), {"y": torch.rand(5)}
    shapes = {"x": {0: 4 * torch.export.Dim("q", max=10)}, "d": {"y": {0: torch.export.Dim.AUTO}}}
    program = export(Dynamic(), args, dynamic_shapes=shapes)
    again = kept(program)
    assert str(again) == str(program) and again.module().code == program.module().code
    assert again.range_constraints == program.range_constraints
    first, second = program.module(), again.module()
    for rows, count in ((8, 5), (12, 2), (40, 9)):
        x, d = torch.rand(rows, 3), {"y": torch.rand(count)}
        for a, b in zip(first(x, d), second(x, d)):
            assert torch.equal(a, b) if isinstance(a, torch.Tensor) else a == b == rows + count
    for module in (first, second):
        with pytest.raises(AssertionError, match=r"Guard failed: x\.size\(\)\[0\] <= 40"):
            module(torch.rand(44, 3), {"y": torch.rand(5)})


def test_weights_share_what_they_shared() -> None:
    program = load(FILES / "weights.pt2")
    weights = program.state_dict
    assert weights["part"].untyped_storage().data_ptr() == weights["whole"].untyped_storage().data_ptr()
    assert weights["part"].storage_offset() == 2 and weights["turned"].stride() == (1, 3)
    assert isinstance(weights["turned"], nn.Parameter) and weights["turned"].requires_grad
    assert isinstance(weights["short"], nn.Parameter) and not weights["short"].requires_grad
    assert {name: (str(x.dtype), tuple(x.shape)) for name, x in weights.items()} == {
        "turned": ("torch.float32", (3, 2)), "short": ("torch.bfloat16", (2,)), "whole": ("torch.float32", (6,)),
        "part": ("torch.float32", (3,)), "wave": ("torch.complex64", (1,)), "empty": ("torch.float32", (0, 3)),
        "flags": ("torch.bool", (2,)), "bytes": ("torch.uint8", (2,)),
    }  # fmt: skip


def test_a_program_comes_back_as_it_was(tmp_path) -> None:
    args, kwargs = ({"x": torch.rand(2, 4)}, 3), {"scale": None}
    program = export(Program(), args, kwargs)
    path = tmp_path / "program.pt2"
    save(program, path, extra_files={"note.txt": "hé"}, opset_version={"own": 3})
    files = {"note.txt": ""}
    again = load(str(path), extra_files=files)
    assert files == {"note.txt": "hé"}
    assert str(again) == str(program) and again.module().code == program.module().code
    assert again.graph_signature == program.graph_signature and again.module_call_graph == program.module_call_graph
    assert [n.meta.get("stack_trace") for n in again.graph.nodes] == [n.meta.get("stack_trace") for n in program.graph.nodes]
    for old, new in zip(program.graph.nodes, again.graph.nodes):
        if old.op == "call_function":
            assert new.meta["nn_module_stack"] == old.meta["nn_module_stack"]
    state = again.state_dict
    assert state["first.weight"].untyped_storage().data_ptr() == state["second.weight"].untyped_storage().data_ptr()
    assert list(again.constants) == list(program.constants)
    assert torch.equal(again.example_inputs[0][0]["x"], args[0]["x"])
    for expected, made in zip(*[pytree.tree_leaves(p.module()(*args, **kwargs)) for p in (program, again)]):
        assert torch.equal(expected, made) if isinstance(made, torch.Tensor) else expected == made
    assert again.constants["steps"].tolist() == [1.0] * 4 and again.state_dict["seen"].abs().sum() > 0
    with zipfile.ZipFile(path) as archive:
        names = archive.namelist()
        assert json.loads(archive.read("program/models/model.json"))["opset_version"] == {"aten": 10, "own": 3}
    assert "program/data/weights/weight_0" in names and "program/extra/note.txt" in names and "program/byteorder" in names


def test_weights_in_the_other_byte_order() -> None:
    program, file = export(nn.Linear(2, 2, dtype=torch.complex64), (torch.rand(1, 2, dtype=torch.complex64),)), io.BytesIO()
    save(program, file)
    with zipfile.ZipFile(file) as archive:
        records = {name: archive.read(name) for name in archive.namelist()}
    for name, content in records.items():
        if name.endswith("byteorder"):
            records[name] = b"big" if content == b"little" else b"little"
        elif "/weight_" in name:
            records[name] = b"".join(content[i : i + 4][::-1] for i in range(0, len(content), 4))
    turned = io.BytesIO()
    with zipfile.ZipFile(turned, "w") as archive:
        for name, content in records.items():
            archive.writestr(name, content)
    again = load(turned)
    assert all(torch.equal(x, again.state_dict[name]) for name, x in program.state_dict.items())


def test_operators_of_programs_and_notes_of_nodes() -> None:
    with torch.library._scoped_library("test_pt2", "FRAGMENT") as library:
        library.define("twice(Tensor x, *, int n=2) -> Tensor")
        library.impl("twice", lambda x, n=2: x * n, "CompositeExplicitAutograd")
        library.impl("twice", lambda x, n=2: torch.empty_like(x), "Meta")
        program = export(Own(), (torch.ones(2),))
        nodes = [node for node in program.graph.nodes if node.op == "call_function"]
        nodes[0].meta["custom"] = {"stage": [1, None, "a;b"]}
        sources = [("a", nn.Linear), ("b", torch.ops.aten.add.Tensor), ("c", nn.functional.relu), ("d", torch.cat)]
        nodes[0].meta["source_fn_stack"] = [*sources, ("e", kept)]
        nodes[0].meta["torch_fn"] = ("twice_1", "method.twice")
        nodes[0].meta["from_node"] = [NodeSource(nodes[1], "a pass", NodeSourceAction.REPLACE)]
        program.graph_module.meta["custom"] = {"whole": True}
        file = io.BytesIO()
        save(program, file)
        again = load(file)
        assert again.module()(torch.ones(2)).tolist() == [4, 4] and "torch.ops.test_pt2.twice.default(x, n = 3)" in str(again)
        meta = next(node.meta for node in again.graph.nodes if node.op == "call_function")
        assert meta["custom"] == {"stage": [1, None, "a;b"]} and meta["torch_fn"] == ("twice_1", "method.twice")
        assert meta["source_fn_stack"] == [*sources, ("e", f"{__name__}.kept")]
        assert meta["from_node"] == nodes[0].meta["from_node"] and again.graph_module.meta["custom"] == {"whole": True}
        nodes[0].meta["custom"] = {"no": object()}
        with pytest.raises(SerializeError, match="Failed to serialize custom metadata for node twice"):
            save(program, io.BytesIO())
    with pytest.raises(SerializeError, match=r"failed to resolve torch\.ops\.test_pt2\.twice\.default to an operator"):
        load(file)


class Outer(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.inner = Inner()

    def forward(self, x):
        made, same = self.inner(x, k=3)
        return made["y"] + same


class Inner(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.f = nn.Linear(3, 3)

    def forward(self, x, *, k):
        return {"y": self.f(x) * k}, x


def test_calls_of_modules_come_back() -> None:
    model, x = Outer(), torch.ones(2, 3)
    again = kept(export(model, (x,), preserve_module_call_signature=("inner",)))
    module = torch.export.unflatten(again)
    assert torch.allclose(module(x), model(x)) and torch.allclose(module.inner(x, k=3)[0]["y"], model.inner(x, k=3)[0]["y"])
    module.inner = model.inner
    assert torch.allclose(module(x), model(x))


class Own(nn.Module):
    def forward(self, x):
        return torch.ops.test_pt2.twice(x, n=3) + 1


def test_a_failed_save_leaves_what_was_there(tmp_path) -> None:
    path = tmp_path / "program.pt2"
    path.write_bytes(b"before")
    program = export(nn.Linear(2, 2), (torch.rand(1, 2),))
    with pytest.raises(AssertionError, match="Expected string but got"):
        save(program, path, extra_files={"note": 3})
    assert path.read_bytes() == b"before" and list(tmp_path.iterdir()) == [path]
    with pytest.raises(TypeError, match="must be an instance of 'ExportedProgram', got 'Linear'"):
        save(nn.Linear(2, 2), path)


Pair = namedtuple("Pair", ["a", "b"])
pytree._register_namedtuple(Pair, serialized_type_name="test_pt2.Pair")


@dataclasses.dataclass
class Point:
    x: object
    y: object = None


register_dataclass(Point, serialized_type_name="test_pt2.Point")


class Containers(nn.Module):
    def forward(self, given, *rest, **named):
        x = named["pair"].a + given.x
        first = OrderedDict(first=Pair(x, (rest[0] * 2, [x])), second=Point(x * 3))
        return first, deque([x], maxlen=3), defaultdict(list, {1: x})


def test_containers_of_inputs_and_outputs() -> None:
    args, kwargs = (Point(torch.ones(2), None), torch.ones(1)), {"pair": Pair(torch.ones(2), 5)}
    program = export(Containers(), args, kwargs)
    again = kept(program)
    assert again.call_spec == program.call_spec
    first, second, third = again.module()(*args, **kwargs)
    assert isinstance(first, OrderedDict) and isinstance(first["first"], Pair) and isinstance(first["second"], Point)
    assert first["second"].x.tolist() == [6, 6] and isinstance(second, deque) and second.maxlen == 3
    assert isinstance(third, defaultdict) and third[5] == [] and again.example_inputs[1]["pair"].b == 5


def test_a_class_must_be_registered_to_be_read() -> None:
    @dataclasses.dataclass
    class Local:
        x: object

    file = io.BytesIO()
    register_dataclass(Local, serialized_type_name="test_pt2.Local")
    program = export(Identity(), (Local(torch.ones(1)),))
    program.example_inputs = None
    save(program, file)
    assert isinstance(load(file).module()(Local(torch.ones(1))), Local)
    pytree._deregister_pytree_node(Local)
    with pytest.raises(NotImplementedError, match=r"Deserializing test_pt2\.Local in pytree is not registered"):
        load(file)
    register_dataclass(Local)
    with pytest.raises(NotImplementedError, match="No registered serialization name"):
        save(program, io.BytesIO())


class Identity(nn.Module):
    def forward(self, x):
        return x


class Metas(nn.Module):
    """Constants of every kind among the arguments of operators."""

    def forward(self, x):
        y = torch.full((2, 2), float("inf"), dtype=torch.float64) + torch.zeros_like(x, memory_format=torch.contiguous_format)
        z = x.to(torch.bfloat16).to(device="cpu", dtype=torch.float32).clamp(min=None, max=0.5)
        return y, torch.div(x, 2, rounding_mode="floor"), x + (1 + 2j), z[None, 0], x.sum([]), torch.cat([x, x]).max(0)[0], "text"


def test_arguments_of_every_kind() -> None:
    program = export(Metas(), (torch.ones(2, 2),))
    again = kept(program)
    assert str(again) == str(program)
    for expected, made in zip(*[p.module()(torch.ones(2, 2)) for p in (program, again)]):
        assert made == expected if isinstance(made, str) else torch.equal(made, expected)


def test_several_programs_and_texts_in_one_archive(tmp_path) -> None:
    program = export(nn.Linear(2, 2), (torch.rand(1, 2),))
    path = tmp_path / "both.pt2"
    with pytest.raises(AssertionError, match="implying that you do not plan on saving anything"):
        package.package_pt2(path)
    programs = {"one": program, "two": program}
    package.package_pt2(path, exported_programs=programs, extra_files={"a": "b"}, executorch_files={"c": b"d"})
    contents = package.load_pt2(path)
    assert list(contents.exported_programs) == ["one", "two"]
    assert contents.extra_files == {"a": "b"} and contents.aoti_runners == {}
    assert str(contents.exported_programs["two"]) == str(program)
    with pytest.raises(RuntimeError, match="no program called 'model', but \\['one', 'two'\\]"):
        load(path)
    with pytest.raises(NotImplementedError, match="compiled libraries of AOTInductor"):
        package.package_pt2(path, aoti_files=["model.so"])
    with PT2ArchiveWriter(path) as writer:
        writer.write_string("data/aotinductor/model/x.so", "")
    with pytest.raises(NotImplementedError, match="compiled libraries of AOTInductor"):
        package.load_pt2(path)


def test_records_of_an_archive(tmp_path) -> None:
    (tmp_path / "folder").mkdir()
    (tmp_path / "folder" / "f").write_bytes(b"3")
    with PT2ArchiveWriter(tmp_path / "a.pt2") as writer:
        writer.write_bytes("data/one", b"1")
        writer.write_folder("data/more", str(tmp_path / "folder"))
        assert writer.has_record("data/one") and writer.count_prefix("data/") == 2
    assert is_pt2_package(str(tmp_path / "a.pt2")) and is_pt2_package((tmp_path / "a.pt2").read_bytes())
    with PT2ArchiveReader(tmp_path / "a.pt2") as reader:
        assert reader.read_string("data/one") == "1" and reader.archive_version() == 0
        assert reader.read_bytes("data/more/f") == b"3"
        assert set(reader.get_file_names()) >= {"data/one", "archive_format", "archive_version", ".data/version"}
    file = io.BytesIO()
    torch.save({}, file)
    assert not is_pt2_package(file.getvalue()) and not is_pt2_package(b"") and not is_pt2_package("no such file")
    with pytest.raises(RuntimeError, match="archive_format: file not found"):
        load(file)


def test_programs_as_bytes() -> None:
    program = export(nn.Linear(2, 2), (torch.rand(1, 2),))
    artifact = serialize(program)
    assert json.loads(artifact.exported_program)["schema_version"] == {"major": 8, "minor": 20}
    again = deserialize(artifact)
    assert str(again) == str(program) and torch.equal(again.state_dict["weight"], program.state_dict["weight"])
    artifact.exported_program = artifact.exported_program.replace(b'"major": 8', b'"major": 9')
    with pytest.raises(SerializeError, match=r"Serialized schema version .*major=9.* does not match our current schema version"):
        deserialize(artifact)


def test_unions_have_one_field() -> None:
    argument = schema.Argument.create(as_int=3)
    assert argument.type == "as_int" and argument.value == argument.as_int == 3 and argument == schema.Argument.create(as_int=3)
    assert repr(argument) == "Argument(as_int=3)"
    with pytest.raises(AttributeError, match="Field as_float is not set"):
        _ = argument.as_float
    with pytest.raises(AssertionError, match="expected exactly 1 kwarg, got 2"):
        schema.Argument.create(as_int=3, as_float=3.0)
