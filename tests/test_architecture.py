"""The layers of docs/architecture.md, kept by parsing every import of the package, those inside functions too."""

from __future__ import annotations

import ast
import functools
import importlib
import linecache
import re
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
from sources import docstring

from flambeau.compat.aliases import table

PACKAGE = "flambeau"
LAYERS = {"version": 0, "base": 0, "ir": 1, "codegen": 2, "core": 3, "ops": 4, "transform": 5, "compile": 5,
          "dispatcher": 5}  # fmt: skip
ROOMS = 6  # nn, optim, utils, ...: every other folder
TOP = 7  # the namespace and the command
TOP_MODULES = {"", "__init__", "__main__", "cli", "compat", "locate"}
FIRST = "flambeau_torch"  # the redirection, which comes before the package
# The floors of the rooms, from below; docs/architecture.md draws them. What isn't listed is on the lowest and stands on no other
# room; rooms of one floor don't know each other. An entry of compat/aliases.txt counts as an import of the room that it is in.
FLOORS = (
    "amp compiler futures overrides serialize vision_ops",
    "cpu cuda extensions package serialization",
    "nn utils",
    "__future__ _higher_order_ops _inductor _lobpcg _subclasses _utils distributed distributions optim",
    "_guards _prims_common capture func fx library profiler testing",
    "_dynamo _refs ao autograd",
    "_decomp compiler_api",
    "_functorch _prims export",
    "_ops jit onnx",
    "_C",
    "serve",
)
# Modules that know a room above them, and why.
CLIMBING = {
    "utils.bundled_inputs": {"jit"},  # it puts inputs into compiled modules
    # older names of modules of torch.ao.nn
    **{name: {"ao"} for name in table() if name.startswith(("nn.intrinsic", "nn.qat", "nn.quantiz"))},
}
# Rooms that know operators by their records and objects, not by name; what an operator is differently from others is said on its
# declaration. (In codegen and ir the same words name instructions and functions of the kernel language.)
NAMELESS = {"base", "core", "transform"}
# Words that stand there for something else: attributes, modes, kinds, variables of generated source.
ORDINARY = set(
    "complex gradient index linear max mean min mode neg outer pad positive repeat _root stack threshold tile trace".split()
)
# Modules that name operators, which ones, and why.
NAMING = {
    "base.symbolic.numbers": (None, "what is done with symbolic numbers is named as Python's operators are"),
    "base.symbolic.nested_int": (None, "what is done with symbolic numbers is named as Python's operators are"),
    "core.operator.methods": (None, "the methods that Python's operators are to classes and modes of __torch_function__"),
    "core.autograd.mutation_guard": ({"index_put_"}, "what an assignment to x[...] is below autograd"),
    "core.operator.return_types": (None, "named tuples are called as the operators that return them"),
    "core.operator.sampling": (
        {"bernoulli", "cos", "exp", "log", "log1p", "sin", "tan"}, "functions of the C library, and a kernel's"),
    "transform.batch_elements": ({"fill_diagonal_"}, "a function without a declaration"),
    "transform.batch_moves": (
        {"index_add", "index_add_", "index_copy_", "index_fill", "index_fill_", "index_put_", "index_reduce", "index_reduce_"},
        "one rule for functions and their in-place forms"),
    "transform.batch_random": ({"bernoulli", "bernoulli_"}, "a function without a declaration, and its kernel"),
    "transform.batch_refusals": ({"_unique2", "argwhere", "nonzero", "unique"}, "the operator below a function, in messages"),
    "transform.batch_rows": (
        {"amax", "amin", "maximum", "median", "minimum", "nanmedian"}, "several operators of one name, by what is given"),
    "transform.batch_views": ({"index_put_"}, "what an assignment to x[...] is below autograd"),
    "transform.tangents": ({"allclose", "equal"}, "ways out of a tensor"),
}  # fmt: skip
OF_OTHER_PYTHONS = {"_sha2", "_sha256"}  # one until Python 3.11, the other from 3.12 on
DEPENDENCIES = {"numpy"}
# Optional packages, for the room that is a face of one; nothing else may need them.
OPTIONAL = {"fx.experimental.graph_gradual_typechecker": {"sympy"},
            "utils._cxx_pytree": {"optree"}, "hub.progress": {"tqdm"}, "utils._import_utils": {"dill"},
            "utils.cpp_extension": {"setuptools"}, "utils._build_extension": {"setuptools"},
            "utils.tensorboard": {"tensorboard", "google", "PIL", "matplotlib", "moviepy"},
            "fx.passes.graph_drawer": {"pydot"}, "distributed.mpi.library": {"mpi4py"},
            "distributed.checkpoint._fsspec_filesystem": {"fsspec"}, "distributed.checkpoint._extension": {"zstandard"},
            "onnx._package": {"onnx", "onnxruntime", "onnxscript"}, "onnx._program": {"onnx"},
            "onnx._types": {"ml_dtypes"},
            "serve.server": {"uvicorn"}, "serve.protocol": {"uvicorn"}, "serve.management": {"starlette"},
            "serve.metrics": {"prometheus_client"}, "serve.tracing": {"opentelemetry"},
            "serve.archives": {"yaml"}, "serve.handlers.images": {"PIL"},
            "serve.handlers.tasks": {"transformers", "sentence_transformers"}}  # fmt: skip
COMPILER = "llvmlite"  # only for codegen
IMPORTING_CALLS = {"import_module", "importlib.import_module", "__import__"}
DYNAMIC_IMPORTERS = {"capture", "compat", "locate", "package", "serialize"}  # they import by a name that is computed: a program's
LAZY = "flambeau.base.lazy_import"  # imports a package's modules for the package itself

# Modules that import each other, inside functions, and why; all others form no circle.
CIRCLES = {
    # a class whose constructor, or whose methods, are a file of their own
    frozenset(
        {
            "core.modes.settings",
            "core.operator.arguments",
            "core.tensor.create",
            "core.tensor.lazy_conjugate",
            "core.tensor.nested_data",
            "core.tensor.tensor",
        }
    ),
    frozenset({"nn.modules.hooks", "nn.modules.module", "nn.modules.state"}),
    frozenset({"ops.interop.typed_storage", "ops.interop.untyped_storage"}),
    frozenset({"fx._lazy_graph_module", "fx._symbolic_trace", "fx.graph_module"}),
    # an operator's overloads are answered by implementations that are written in operators
    frozenset(
        {
            "dispatcher.batching",
            "dispatcher.calling",
            "dispatcher.dispatch_modes",
            "dispatcher.graphs",
            "dispatcher.namespaces",
            "dispatcher.overloads",
        }
    ),
    # a value's attributes are what can be called, and what calls give are values
    frozenset({"jit.frontend.callables", "jit.frontend.classes", "jit.frontend.values"}),
    # what a compiled function names are functions and classes that are compiled in their turn
    frozenset(
        {
            "jit.frontend.annotations",
            "jit.frontend.functions",
            "jit.frontend.python_classes",
            "jit.frontend.python_resolver",
            "jit.frontend.python_values",
        }
    ),
}


@dataclass(frozen=True)
class Import:
    """One import: who imports, what, and where it is written."""

    importer: str
    target: str
    line: int

    def __str__(self) -> str:
        return f"{self.importer}:{self.line} imports {self.target}"


def room(module: str) -> str:
    """The first name below the package: `flambeau.core.tensor.tensor` lives in `core`."""
    return module.split(".")[1] if "." in module else ""


def layer(module: str) -> int:
    name = room(module)
    return TOP if name in TOP_MODULES else LAYERS.get(name, ROOMS)


def floor(name: str) -> int:
    """The place of a room among the rooms, from below."""
    return next((at for at, names in enumerate(FLOORS) if name in names.split()), 0)


def is_type_checking(test: ast.expr) -> bool:
    return isinstance(test, (ast.Name, ast.Attribute)) and ast.unparse(test) in ("TYPE_CHECKING", "typing.TYPE_CHECKING")


def is_importing(call: ast.Call) -> bool:
    return isinstance(call.func, (ast.Name, ast.Attribute)) and ast.unparse(call.func) in IMPORTING_CALLS


def statements(tree: ast.AST) -> Iterator[ast.AST]:
    """Every node that can run; what stands under `if TYPE_CHECKING` is for readers and editors only."""
    for node in ast.iter_child_nodes(tree):
        if isinstance(node, ast.If) and is_type_checking(node.test):
            for other in node.orelse:
                yield from statements(other)
            continue
        yield node
        yield from statements(node)


@functools.cache  # several tests ask
def importing(source: str) -> list[ast.Import | ast.ImportFrom | ast.Call]:
    """The statements and calls by which a source imports."""
    return [
        node
        for node in statements(ast.parse(source))
        if isinstance(node, (ast.Import, ast.ImportFrom)) or (isinstance(node, ast.Call) and is_importing(node))
    ]


def imports(source: str, module: str, is_package: bool, known: set[str]) -> Iterator[Import]:
    """The imports of a module's source; `known` are the package's modules, which tells modules from other names."""
    for node in importing(source):
        if isinstance(node, ast.Import):
            for alias in node.names:
                yield Import(module, alias.name, node.lineno)
        elif isinstance(node, ast.ImportFrom):
            base = node.module or ""
            if node.level:
                parts = module.split(".")
                parts = parts[: len(parts) - node.level + is_package]
                base = ".".join([*parts, base] if base else parts)
            for alias in node.names:
                full = f"{base}.{alias.name}"
                yield Import(module, full if full in known else base, node.lineno)
        else:
            first = node.args[0] if node.args else None
            constant = isinstance(first, ast.Constant) and isinstance(first.value, str)
            yield Import(module, first.value if constant else "a computed name", node.lineno)


def objection(found: Import) -> str | None:
    """Why this import is not allowed, or None."""
    head, here = found.target.partition(".")[0], layer(found.importer)
    if found.target == "a computed name":
        allowed = room(found.importer) in DYNAMIC_IMPORTERS or found.importer == LAZY
        return None if allowed else "imports by a computed name can't be checked"
    if head == PACKAGE:
        there, one, other = layer(found.target), room(found.importer), room(found.target)
        if here == ROOMS and found.target == PACKAGE:
            return None  # rooms are written in the public operators, like a user's program
        if there > here:
            return f"climbs from layer {here} to layer {there}"
        if here == there == ROOMS and one != other and floor(other) >= floor(one):
            allowed = CLIMBING.get(found.importer.removeprefix(f"{PACKAGE}."), ())
            return None if other in allowed else f"{one} is on floor {floor(one)} of the rooms, {other} on {floor(other)}"
        return None
    if head == FIRST:
        return None if here == TOP else "only the command knows the redirection"
    if head == COMPILER:
        return None if room(found.importer) == "codegen" else "only codegen may import llvmlite"
    if any(found.importer.startswith(f"{PACKAGE}.{name}") and head in heads for name, heads in OPTIONAL.items()):
        return None
    if head in sys.stdlib_module_names or head in OF_OTHER_PYTHONS or head in DEPENDENCIES:
        return None
    return "the package stands on the standard library, NumPy and (in codegen) llvmlite"


@pytest.fixture(scope="module")
def modules(root: Path) -> dict[str, Path]:
    found = {}
    for path in sorted((root / PACKAGE).rglob("*.py")):
        parts = path.relative_to(root).with_suffix("").parts
        found[".".join(parts[:-1] if parts[-1] == "__init__" else parts)] = path
    return found


@pytest.fixture(scope="module")
def found_imports(modules: dict[str, Path]) -> list[Import]:
    """Of the modules that have files, and of those that have a file above them and are entries of compat/aliases.txt."""
    known = set(modules)
    written = [
        found for name, path in modules.items() for found in imports(path.read_text(), name, path.name == "__init__.py", known)
    ]
    rooms = {room(name) for name in modules}
    named = [
        Import(f"{PACKAGE}.{alias.name}", f"{PACKAGE}.{place}", line=0)
        for alias in table().values()
        for place, _, _ in alias.names()
        if room(f"{PACKAGE}.{alias.name}") in rooms and not place.startswith("torch")
    ]
    return written + named


def test_imports_point_down(found_imports: list[Import]) -> None:
    assert len(found_imports) > 20
    objections = [f"{found}: {reason}" for found in found_imports if (reason := objection(found))]
    assert not objections, "\n" + "\n".join(objections)


def test_the_package_imports_things_from_where_they_are(modules: dict[str, Path]) -> None:
    """The names of compat/aliases.txt are for programs, and have no files."""
    aliases = {f"{PACKAGE}.{name}" for name in table()}
    assert len(aliases) > 50 and not aliases & set(modules)
    found = [
        each
        for name, path in modules.items()
        for each in imports(path.read_text(), name, path.name == "__init__.py", set(modules) | aliases)
    ]
    assert not [str(each) for each in found if each.target in aliases]
    assert not [f"{name} names {place}" for name, alias in table().items() for place, _, _ in alias.names() if place in table()]


def test_rooms_are_on_one_floor_and_exist(modules: dict[str, Path]) -> None:
    listed = " ".join(FLOORS).split()
    rooms = {room(name) for name in modules if layer(name) == ROOMS}
    assert len(listed) == len(set(listed)) and set(listed) <= rooms, set(listed) - rooms


def test_the_page_draws_these_floors(root: Path) -> None:
    page = (root / "docs" / "architecture.md").read_text().partition("The rooms of layer 6")[2]
    drawn = {int(number): set(re.findall("`(\\w+)`", text)) for number, text in re.findall(r"^\| (\d+) \| (.*) \|$", page, re.M)}
    assert len(drawn) == len(FLOORS)
    for number, names in drawn.items():
        assert all(floor(name) == number - 1 for name in names), number
        assert number == 1 or names == set(FLOORS[number - 1].split()), number


def circles(edges: dict[str, set[str]]) -> list[frozenset[str]]:
    """The groups of nodes that reach each other (R. Tarjan, "Depth-first search and linear graph algorithms", 1972)."""
    order: dict[str, int] = {}
    lowest: dict[str, int] = {}
    open_: list[str] = []
    groups: list[frozenset[str]] = []

    def visit(node: str) -> None:
        order[node] = lowest[node] = len(order)
        open_.append(node)
        for other in edges.get(node, ()):
            if other not in order:
                visit(other)
                lowest[node] = min(lowest[node], lowest[other])
            elif other in open_:
                lowest[node] = min(lowest[node], order[other])
        if lowest[node] == order[node]:
            group = frozenset(open_[open_.index(node) :])
            del open_[open_.index(node) :]
            groups.append(group)

    for node in list(edges):
        if node not in order:
            visit(node)
    return [group for group in groups if len(group) > 1]


def test_modules_form_no_circles(modules: dict[str, Path], found_imports: list[Import]) -> None:
    edges: dict[str, set[str]] = {}
    for found in found_imports:
        target = found.target
        while target and target not in modules:
            target = target.rpartition(".")[0]
        if target not in ("", PACKAGE, found.importer):
            edges.setdefault(found.importer.removeprefix(f"{PACKAGE}."), set()).add(target.removeprefix(f"{PACKAGE}."))
    unknown = [sorted(circle) for circle in circles(edges) if not any(circle <= known for known in CIRCLES)]
    assert not unknown, f"imports go round: {unknown}"


def test_only_kernels_know_the_processor(found_imports: list[Import]) -> None:
    """What width vectors have is the CPU target's knowledge: plans, and the operators that make them, are neutral. (Rooms above
    may tell users of it.)
    """
    knowing = {found.importer for found in found_imports if found.target.startswith(f"{PACKAGE}.codegen.cpu")}
    neutral = {f"{PACKAGE}.codegen.{name}" for name in ("plan", "scalar", "targets.target", "targets.ptx")}
    assert knowing and all(name.startswith(f"{PACKAGE}.codegen.") or layer(name) == ROOMS for name in knowing), sorted(knowing)
    assert not knowing & neutral


def names_in(source: str, names: set[str]) -> set[str]:
    """Which names stand in a source's strings, alone or among other words; documentation and formatted text don't count."""
    tree = ast.parse(source)
    apart = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)}
    apart |= {id(value) for node in ast.walk(tree) if isinstance(node, ast.JoinedStr) for value in node.values}
    found: set[str] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in apart:
            words = node.value.split()
            if all(word.isidentifier() for word in words):
                found |= names.intersection(words)
    return found


def test_operators_are_named_by_their_declarations(modules: dict[str, Path]) -> None:
    package = importlib.import_module(PACKAGE)
    operators = importlib.import_module(f"{PACKAGE}.core.operator.publishing").OPERATORS
    names = set(operators) | {name + "_" for name in operators if hasattr(package.Tensor, name + "_")}
    assert len(names) > 500
    found = {
        name.removeprefix(f"{PACKAGE}."): names_in(path.read_text(), names) - ORDINARY
        for name, path in modules.items()
        if room(name) in NAMELESS
    }
    allowed = {name: known if known is not None else found[name] for name, (known, _) in NAMING.items()}
    unknown = {name: sorted(here - allowed.get(name, set())) for name, here in found.items() if here - allowed.get(name, set())}
    assert not unknown, f"say it on the declaration (core.operator.facets), or name the object: {unknown}"
    gone = {name: sorted(known - found[name]) for name, known in allowed.items() if known - found[name]}
    assert not gone, f"no longer named there: {gone}"


def test_core_looks_no_operator_up_by_name(modules: dict[str, Path]) -> None:
    found = [
        f"{name}:{node.lineno}"
        for name, path in modules.items()
        if room(name) in ("base", "core", "codegen")
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.Subscript)
        and ast.unparse(node.value) in ("NAMESPACE", "OPERATORS")
        and isinstance(node.slice, ast.Constant)
    ]
    assert not found, f"what core needs of operators is handed to it, as to core.autograd.inplace.as_seen: {found}"


@pytest.mark.parametrize(
    ("source", "found"),
    [
        ("x = 'softmax'", {"softmax"}),
        ("x = frozenset('add  softmax other'.split())", {"add", "softmax"}),
        ("x = f'softmax'", set()),
        ("'softmax'", set()),
        ("x = 'softmax of rows, add'", set()),
        ("def softmax(): return add", set()),
    ],
)
def test_the_search_for_names_sees_what_it_should(source: str, found: set[str]) -> None:
    assert names_in(source, {"add", "softmax"}) == found


def test_the_redirection_stands_on_the_standard_library(root: Path) -> None:
    known = sys.stdlib_module_names | {FIRST, "a computed name"}
    for path in sorted((root / FIRST).rglob("*.py")):
        source = path.read_text()
        tree = ast.parse(source)
        assert ast.get_docstring(tree), path
        heads = {each.target.partition(".")[0] for each in imports(source, FIRST, is_package=True, known=set())}
        assert heads <= known | {PACKAGE}, path
        # flambeau itself inside functions only: importing it decides what its modules are called
        tree.body = [node for node in tree.body if not isinstance(node, (ast.FunctionDef, ast.ClassDef))]
        first = imports(ast.unparse(tree), FIRST, is_package=True, known=set())
        assert PACKAGE not in {each.target.partition(".")[0] for each in first}, path


def test_nobody_imports_pytorch(found_imports: list[Import]) -> None:
    assert not [str(found) for found in found_imports if found.target.partition(".")[0] == "torch"]


def test_every_folder_is_a_package(modules: dict[str, Path]) -> None:
    folders = {path.parent for path in modules.values()}
    assert not [str(folder) for folder in folders if not (folder / "__init__.py").exists()]


def test_every_module_says_what_it_is(modules: dict[str, Path]) -> None:
    sources = {name: path.read_text() for name, path in modules.items()}
    silent = [name for name, source in sources.items() if source.strip() and not docstring(source)]
    assert not silent, f"no docstring: {', '.join(silent)}"


@pytest.mark.parametrize(
    ("importer", "source", "reason"),
    [
        ("flambeau.base.dtype", "import numpy, sys\nfrom . import errors", None),
        ("flambeau.base.dtype", "from flambeau.core import tensor", "climbs"),
        ("flambeau.ir.scalar", "def f():\n    from ..codegen import jit", "climbs"),
        ("flambeau.ops.views.view", "from ..core.tensor import Tensor", None),
        ("flambeau.ops.views.view", "import flambeau", "climbs"),
        ("flambeau.core.operator.pointwise", "import llvmlite.binding", "only codegen"),
        ("flambeau.codegen.jit", "import llvmlite.binding", None),
        ("flambeau.optim.adam", "import flambeau as torch", None),
        ("flambeau.optim.adam", "import flambeau.cli", "climbs"),
        ("flambeau.optim.adam", "import flambeau_torch", "only the command"),
        ("flambeau.nn.linear", "from flambeau.optim import Optimizer", "is on floor"),
        ("flambeau.fft", "from flambeau.linalg import norm", "is on floor"),
        ("flambeau.utils.tensorboard.writer", "from tensorboard.compat.proto import event_pb2", None),
        ("flambeau.utils.data", "import tensorboard", "stands on"),
        ("flambeau.utils.tensorboard", "import pandas", "stands on"),
        ("flambeau.export.api", "from flambeau.nn import Module", None),
        ("flambeau.nn.linear", "if 1:\n    import torch", "stands on"),
        ("flambeau.nn.linear", "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    import torch", None),
        ("flambeau.nn.linear", "import importlib\nimportlib.import_module('x' + 'y')", "computed"),
        ("flambeau.nn.linear", "import importlib\nimportlib.import_module('scipy.linalg')", "stands on"),
    ],
)
def test_the_checker_sees_what_it_should(importer: str, source: str, reason: str | None) -> None:
    found = imports(source, importer, is_package=False, known={"flambeau.core.tensor.tensor"})
    answers = [answer for each in found if (answer := objection(each))]
    assert (reason is None and not answers) or (reason is not None and len(answers) == 1 and reason in answers[0])


def planning_in_handlers(source: str) -> Iterator[int]:
    """Lines of calls in handlers of failed look-ups, where an error would be shown as raised after a KeyError of ours.

    What a handler raises itself may be worked out there, if it says what it was raised from.
    """
    for handler in ast.walk(ast.parse(source)):
        if not isinstance(handler, ast.ExceptHandler) or handler.type is None:
            continue
        caught = {ast.unparse(name) for name in getattr(handler.type, "elts", [handler.type])}
        if not caught & {"KeyError", "LookupError"}:
            continue
        waiting: list[ast.AST] = list(handler.body)
        while waiting:
            node = waiting.pop()
            if isinstance(node, ast.Raise) and (node.exc is None or node.cause is not None):
                continue
            if isinstance(node, (ast.Call, ast.Raise)):
                yield node.lineno
            waiting += ast.iter_child_nodes(node)


def test_nothing_is_planned_while_a_failed_look_up_is_handled(modules: dict[str, Path]) -> None:
    sources = {name: path.read_text() for name, path in modules.items() if room(name) in ("core", "ops", "transform", "nn")}
    importlib.import_module(PACKAGE)
    generated = {name: "".join(entry[2]) for name, entry in linecache.cache.items() if name.startswith(f"<{PACKAGE}")}
    assert len(generated) > 200
    found = [f"{name}:{line}" for name, source in (sources | generated).items() for line in planning_in_handlers(source)]
    assert not found, "an except clause of a failed look-up calls something: " + ", ".join(found)


@pytest.mark.parametrize(
    ("handler", "lines"),
    [
        ("made = None", []),
        ("raise ValueError(str(1)) from None", []),
        ("raise", []),
        ("made = make(1)", [4]),
        ("return make(1)", [4]),
        ("raise ValueError(1)", [4, 4]),
    ],
)
def test_the_handler_checker_sees_what_it_should(handler: str, lines: list[int]) -> None:
    template = "def f():\n    try:\n        made = plans[1]\n    except {}: {}\n"
    for caught in ("KeyError", "(KeyError, TypeError)"):
        assert list(planning_in_handlers(template.format(caught, handler))) == lines
    assert list(planning_in_handlers(template.format("TypeError", handler))) == []


def test_files_that_docstrings_name_exist(modules: dict[str, Path], root: Path) -> None:
    """`kernel.py` in a module's docstring is a file of the package; hubconf.py is one of the repositories that hub loads."""
    files = {path.name for path in [*modules.values(), *(root / "tools").glob("*.py")]} | {"hubconf.py"}
    gone = []
    for name, path in modules.items():
        named = re.findall(r"(?<![\w/])(\w+\.py)\b", docstring(path.read_text()) or "")
        gone += [f"{name}: {file}" for file in named if file not in files]
    assert not gone, f"named in a docstring and not there: {gone}"


def test_every_file_of_tests_has_a_name_of_its_own(root: Path) -> None:
    """pytest imports them by that name."""
    names = [path.name for path in (root / "tests").rglob("test_*.py")]
    assert sorted(names) == sorted(set(names))
