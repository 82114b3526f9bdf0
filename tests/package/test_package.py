"""torch.package: what exporters put into archives, and what importers make of them."""

import importlib
import inspect
import io
import pickle
import platform
import sys
import zipfile

import pytest

import flambeau as torch
from flambeau.package import (
    EmptyMatchError,
    GlobGroup,
    ObjMismatchError,
    OrderedImporter,
    PackageExporter,
    PackageImporter,
    PackagingError,
    is_from_package,
    sys_importer,
)
from flambeau.package._digraph import DiGraph
from flambeau.package._mangling import PackageMangler, demangle, get_mangle_prefix
from flambeau.package.find_file_dependencies import find_files_source_depends_on


@pytest.fixture
def parcel(tmp_path, monkeypatch):
    """A package of modules that can be imported, and are forgotten afterwards."""
    folder = tmp_path / "parcel"
    folder.mkdir()
    (folder / "__init__.py").write_text("from parcel.inner import Inner\nresult = 'parcel'\nclass Outer:\n    inner = Inner()\n")
    (folder / "inner.py").write_text(
        "import math\nclass Inner:\n    value = math.floor(3.5)\n    def text(self):\n        return 'inner'\n"
    )
    (folder / "relative.py").write_text("from . import inner\nfrom .inner import Inner\nfound = Inner.value\n")
    (tmp_path / "lonely.py").write_text("def answer():\n    return 42\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    importlib.invalidate_caches()
    yield folder
    for name in [n for n in sys.modules if n.partition(".")[0] in ("parcel", "lonely")]:
        del sys.modules[name]


def exported(fill, **kwargs):
    buffer = io.BytesIO()
    with PackageExporter(buffer, **kwargs) as exporter:
        fill(exporter)
    buffer.seek(0)
    return buffer


def test_objects_and_their_modules_come_back(parcel):
    import parcel as outside

    def fill(exporter):
        exporter.intern("parcel.**")
        exporter.save_pickle("res", "it.pkl", outside.Outer())
        exporter.save_text("res", "note.txt", "héllo")
        exporter.save_binary("res", "raw", b"\0\1")

    buffer = exported(fill)
    importer = PackageImporter(buffer)
    it = importer.load_pickle("res", "it.pkl")
    assert type(it) is not outside.Outer and type(it).__module__ == importer.id() + ".parcel"
    assert it.inner.text() == "inner" and it.inner.value == 3
    assert is_from_package(it) and not is_from_package(outside.Outer())
    assert importer.load_text("res", "note.txt") == "héllo" and importer.load_binary("res", "raw") == b"\0\1"
    assert importer.python_version() == platform.python_version()
    assert inspect.getsourcelines(type(it.inner)) == inspect.getsourcelines(outside.inner.Inner)
    names = zipfile.ZipFile(buffer).namelist()
    assert "archive/parcel/__init__.py" in names and "archive/.data/extern_modules" in names


def test_tensors_share_storages_and_go_where_the_map_says():
    whole = torch.arange(6.0)
    buffer = exported(
        lambda e: (
            e.save_pickle("a", "x.pkl", [whole, whole[2:], torch.nn.Parameter(torch.ones(2))]),
            e.save_pickle("a", "y.pkl", {"layer": torch.nn.Linear(2, 3), "dtype": torch.float16}),
        )
    )
    importer = PackageImporter(buffer)
    first, part, parameter = importer.load_pickle("a", "x.pkl")
    assert torch.equal(first, whole) and part.data_ptr() == first.data_ptr() + 8 and isinstance(parameter, torch.nn.Parameter)
    other = importer.load_pickle("a", "y.pkl")
    assert other["layer"](torch.ones(2)).shape == (3,) and other["dtype"] is torch.float16
    assert importer.load_pickle("a", "x.pkl", map_location="meta")[0].is_meta
    assert "torch.nn.modules.linear" in importer.extern_modules and "torch._utils" in importer.extern_modules


def test_traced_modules_come_back_as_code():
    class Plain(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.linear = torch.nn.Linear(2, 2)

        def forward(self, x):
            return torch.relu(self.linear(x)) + 1

    traced = torch.fx.symbolic_trace(Plain())
    loaded = PackageImporter(exported(lambda e: e.save_pickle("m", "m.pkl", traced))).load_pickle("m", "m.pkl")
    x = torch.randn(3, 2)
    assert torch.equal(loaded(x), traced(x)) and "relu" in loaded.code


def test_an_extern_module_is_that_of_the_environment(parcel):
    buffer = exported(lambda e: (e.extern(["parcel.inner", "lonely"]), e.save_source_string("it", "import parcel.inner, lonely")))
    importer = PackageImporter(buffer)
    import lonely
    import parcel as outside

    assert importer.import_module("lonely") is lonely
    assert importer.import_module("parcel.inner") is outside.inner and importer.import_module("parcel") is not outside
    with pytest.raises(ImportError, match=r"needs the external module 'parcel\.inner' but that module has been disallowed"):
        buffer.seek(0)
        PackageImporter(buffer, module_allowed=lambda name: name != "parcel.inner")
    with pytest.raises(ModuleNotFoundError, match='No module named "nowhere" in self-contained archive'):
        importer.import_module("nowhere")


def test_a_mocked_module_can_be_named_but_not_used(parcel):
    buffer = exported(lambda e: (e.mock("lonely"), e.save_source_string("it", "from lonely import answer")))
    answer = PackageImporter(buffer).import_module("it").answer
    for use in (lambda: answer(), lambda: answer.more, lambda: answer + 1):
        with pytest.raises(NotImplementedError, match="was mocked out during packaging"):
            use()
    again = exported(
        lambda e: (e.intern("lonely"), e.save_source_string("it", "import lonely")),
        importer=PackageImporter(exported(lambda e: (e.mock("lonely"), e.save_source_string("it", "import lonely")))),
    )
    with pytest.raises(NotImplementedError):
        PackageImporter(again).import_module("it").lonely.answer()


def test_objects_of_mocked_modules_are_refused(parcel):
    import parcel as outside

    with pytest.raises(PackagingError, match=r"Object\(s\) '\['Inner'\]' from module `parcel.inner` was mocked out"):
        exported(lambda e: (e.mock("parcel.inner"), e.intern("**"), e.save_pickle("a", "b", outside.inner.Inner())))


@pytest.mark.parametrize(
    ("rules", "source", "words"),
    [
        ([], "import lonely", "Module did not match against any action pattern. Extern, mock, or intern it.\n    lonely"),
        ([("deny", "lonely")], "import lonely", "Module was denied by a pattern."),
        ([("intern", "**")], "import _ssl, math", None),
        ([("intern", "**")], "import sys", "`sys` has a lot of system level access"),
        ([], "from ... import lonely", "Context: attempted relative import beyond top-level package"),
        ([], "import (", "Dependency resolution failed."),
        ([], "import nowhere", None),
    ],
)
def test_what_a_package_can_hold(parcel, rules, source, words):
    def fill(exporter):
        for rule, pattern in rules:
            getattr(exporter, rule)(pattern)
        exporter.save_source_string("it", source)

    if words is None:
        exported(fill)
        return
    with pytest.raises(PackagingError) as caught:
        exported(fill)
    assert words in str(caught.value)


def test_patterns_that_must_match_and_errors_that_come_first(parcel):
    with pytest.raises(EmptyMatchError, match=r"did not match any modules to GlobGroup\(include=none.\*, exclude=\(\)\)"):
        exported(lambda e: (e.extern("none.*", allow_empty=False), e.save_source_string("it", "")))
    with pytest.raises(ModuleNotFoundError):
        exported(lambda e: (e.extern("none", allow_empty=False), e.save_module("nowhere")))
    with pytest.raises(TypeError, match="expects a string input"):
        exported(lambda e: e.save_module(sys))


def test_hooks_and_lists_of_modules(parcel):
    seen = []
    exporter = PackageExporter(io.BytesIO())
    exporter.extern("lonely")
    exporter.intern("parcel.**")
    exporter.register_extern_hook(lambda who, name: seen.append((who is exporter, name)))
    exporter.register_intern_hook(lambda who, name: seen.append("removed")).remove()
    exporter.save_source_string("it", "import lonely, parcel.relative")
    exporter.close()
    assert (True, "lonely") in seen and "removed" not in seen
    assert exporter.interned_modules() == ["it", "parcel.inner", "parcel.relative"]
    assert exporter.externed_modules() == ["lonely", "math"] and exporter.get_rdeps("lonely") == ["it"]
    assert '"it" -> "parcel.relative";' in exporter.all_paths("it", "parcel.inner")


def test_packages_of_different_importers_are_told_apart(parcel):
    import parcel as outside

    def fill(exporter):
        exporter.intern("parcel.**")
        exporter.save_pickle("a", "b", outside.Outer())

    buffer = exported(fill)
    first, second = (PackageImporter(io.BytesIO(buffer.getvalue())) for _ in range(2))
    it, other = first.load_pickle("a", "b"), second.load_pickle("a", "b")
    with pytest.raises(ObjMismatchError, match=r"lists the importer for <torch_package_\d+> before 'sys_importer'"):
        sys_importer.get_name(type(it))
    for wrong in (other, outside.Outer()):
        with pytest.raises(pickle.PicklingError):
            PackageExporter(io.BytesIO(), importer=[first]).save_pickle("a", "b", wrong)
    again = exported(lambda e: (e.intern("**"), e.save_pickle("a", "b", it)), importer=(first, sys_importer))
    assert PackageImporter(again).load_pickle("a", "b").inner.value == 3
    assert OrderedImporter(sys_importer, first).import_module("parcel") is outside


def test_resources_are_read_from_archives_and_folders(parcel, tmp_path):
    source = "import torch_package_importer\ntext = torch_package_importer.load_text('data', 'a.txt')\n"
    buffer = exported(
        lambda e: (
            e.save_text("data", "a.txt", "words"),
            e.save_text("data.more", "b.txt", ""),
            e.save_source_string("it", source),
        )
    )
    zipfile.ZipFile(buffer).extractall(tmp_path / "unpacked")
    buffer.seek(0)
    for place in (buffer, tmp_path / "unpacked" / "archive"):
        importer = PackageImporter(place)
        assert importer.import_module("it").text == "words"
        reader = importer.get_resource_reader("data")
        assert sorted(reader.contents()) == ["a.txt", "more"] and reader.is_resource("a.txt") and not reader.is_resource("more")
        assert reader.open_resource("a.txt").read() == b"words" and importer.get_resource_reader("none") is None
        assert importer.file_structure().has_file("data/a.txt") and not importer.file_structure().has_file("data/b.txt")


def test_the_tree_of_files_prints():
    buffer = exported(lambda e: (e.save_text("b.c", "x.txt", ""), e.save_source_string("a", "")))
    shown = str(PackageImporter(buffer).file_structure(include=["**/*.txt", "a.py"]))
    assert shown == "─── <binary>\n    ├── b\n    │   └── c\n    │       └── x.txt\n    └── a.py\n"


def test_hostile_archives_are_refused(tmp_path):
    buffer = io.BytesIO()
    torch.save({"x": torch.ones(2)}, buffer)
    buffer.seek(0)
    with pytest.raises(RuntimeError, match=r"is no package: it has no record \.data/extern_modules"):
        PackageImporter(buffer)
    with pytest.raises(RuntimeError, match="not a ZIP archive"):
        PackageImporter(io.BytesIO(b"nothing"))
    with pytest.raises(RuntimeError, match="No such file"):
        PackageImporter(tmp_path / "absent.pt")
    good = exported(lambda e: e.save_pickle("a", "b", torch.ones(4)))
    with zipfile.ZipFile(good) as archive:
        records = {name: archive.read(name) for name in archive.namelist()}

    def changed(**records_of):
        made = io.BytesIO()
        with zipfile.ZipFile(made, "w") as archive:
            for name, content in (records | records_of).items():
                archive.writestr(name, content)
        made.seek(0)
        return made

    with pytest.raises(RuntimeError, match="has 4 bytes, but the pickle says 16"):
        PackageImporter(changed(**{"archive/.data/0.storage": b"1234"})).load_pickle("a", "b")
    with pytest.raises(RuntimeError, match="no file below its folder"):
        PackageImporter(changed(**{"archive/../../out.py": b""}))
    folder = tmp_path / "folder"
    (folder / ".data").mkdir(parents=True)
    (folder / ".data" / "extern_modules").write_text("")
    with pytest.raises(ValueError, match="outside of the package's folder"):
        PackageImporter(folder).zip_reader.get_record("../secret")


@pytest.mark.parametrize(
    ("pattern", "yes", "no"),
    [
        ("torch.*", ["torch.a"], ["torch", "torch.a.b", "tor.a"]),
        ("torch.**", ["torch", "torch.a.b"], ["torchvision"]),
        ("**.end", ["end", "a.b.end"], ["bend"]),
        ("a.**.z", ["a.z", "a.b.c.z"], ["az", "a.z.b"]),
        ("fo*.bar", ["fo.bar", "foo.bar"], ["f.bar"]),
        (["a", "b.**"], ["a", "b.c"], ["c"]),
        ("**", ["a", "a.b"], [""]),
    ],
)
def test_patterns(pattern, yes, no):
    group = GlobGroup(pattern, exclude="b.not")
    assert all(map(group.matches, yes)) and not any(map(group.matches, no)) and not group.matches("b.not")


def test_patterns_are_refused_and_separated():
    with pytest.raises(ValueError, match="can only appear as an entire path segment"):
        GlobGroup("a.**b")
    group = GlobGroup("**/bar/**/*.txt", separator="/")
    assert group.matches("bar/baz.txt") and group.matches("a/bar/b/c.txt") and not group.matches("baz.txt")


def test_names_are_mangled():
    first, second = PackageMangler(), PackageMangler()
    mangled = first.mangle("a.b")
    assert mangled != second.mangle("a.b") and demangle(mangled) == first.demangle(mangled) == "a.b"
    assert second.demangle(mangled) == mangled and get_mangle_prefix(mangled) + ".a.b" == mangled
    assert demangle(first.parent_name()) == "" and demangle("a.b") == "a.b"


def test_imports_are_found_in_texts():
    found = find_files_source_depends_on(
        "import a.b, c\nfrom . import d\nfrom ..e import f\nfrom g import *\n__import__('h', None, None, ['i'])\n__import__(j)\n",
        "p.q",
    )
    assert found == [("a.b", None), ("c", None), ("p.q", "d"), ("p.e", "f"), ("g", None), ("h", "i")]


def test_graphs_of_dependencies():
    graph = DiGraph()
    for edge in (("a", "b"), ("b", "c"), ("d", "c")):
        graph.add_edge(*edge)
    graph.add_node("a", colour=1)
    assert graph.forward_transitive_closure("a") == {"a", "b", "c"} and graph.backward_transitive_closure("b") == {"a", "b"}
    assert list(graph.edges) == [("a", "b"), ("b", "c"), ("d", "c")] and graph.nodes["a"] == {"colour": 1}
    assert [1] not in graph and graph.first_path("c") == ["a", "b", "c"]
    with pytest.raises(ValueError, match="not in the digraph"):
        graph.successors("z")
