"""Writing packages: pickled objects with the source of the modules that they need, in one archive.

What is done with each module, pattern after pattern decides: its source is put into the package (intern), it is taken from the
environment of whoever loads the package (extern), it is replaced by a stand-in (mock), or refused (deny). Stands on the writer of
archives, importers and the graph of dependencies.
"""

from __future__ import annotations

import importlib.machinery
import io
import linecache
import os
import pickletools
import platform
from collections import OrderedDict
from collections.abc import Iterator, Sequence
from pathlib import Path
from types import ModuleType
from typing import IO, Any

from flambeau.base.naming import public_module
from flambeau.core.autograd.hooks import RemovableHandle
from flambeau.core.tensor import storage_io
from flambeau.package import _mock
from flambeau.package._digraph import DiGraph
from flambeau.package._mangling import demangle, is_mangled
from flambeau.package._package_pickler import PackagePickler
from flambeau.package._stdlib import is_stdlib_module
from flambeau.package.dependencies import (
    DISALLOWED,
    EmptyMatchError,
    Hook,
    PackagingError,
    PackagingErrorReason,
    _ModuleProviderAction,
    _PatternInfo,
)
from flambeau.package.find_file_dependencies import find_files_source_depends_on
from flambeau.package.glob_group import GlobGroup, GlobPattern
from flambeau.package.importer import Importer, OrderedImporter, sys_importer
from flambeau.serialize.pickler import Storages
from flambeau.serialize.records import PyTorchFileWriter

__all__ = ["EmptyMatchError", "PackageExporter", "PackagingError", "PackagingErrorReason"]

_Action = _ModuleProviderAction
_MOCKED_SOURCE = (
    "from _mock import MockedObject\n"
    "def __getattr__(attr: str):\n"
    "    return MockedObject(__name__ + '.' + attr, _suppress_err=True)\n"
)
#: Whether scripted modules are refused (PyTorch's switch; its default).
_gate_torchscript_serialization = True


class PackageExporter:
    """Writes a package to a file. Use it as a context, at whose end the modules are gathered and the file is completed.

    f: a path or a binary file. importer: where modules and the names of objects come from, one or several in order (default:
    Python's own import). debug: errors show how modules came to be needed.

    At the end raises PackagingError if a module can't be in the package, EmptyMatchError for a pattern with allow_empty=False
    that matched no module.
    """

    __module__ = public_module("package.package_exporter")

    def __init__(
        self, f: str | os.PathLike[str] | IO[bytes], importer: Importer | Sequence[Importer] = sys_importer, debug: bool = False
    ) -> None:
        self.buffer: Any = None if isinstance(f, (str, os.PathLike)) else f
        self.zip_file = PyTorchFileWriter(f if not isinstance(f, (str, os.PathLike)) else os.fspath(f))
        self.zip_file.set_min_version(6)
        self._written_files: set[str] = set()
        self.importer: Importer = importer if isinstance(importer, Importer) else OrderedImporter(*importer)
        self.dependency_graph = DiGraph()
        self.patterns: dict[GlobGroup, _PatternInfo] = {}
        self.debug = debug
        self._hooks: dict[_Action, OrderedDict[int, Hook]] = {
            action: OrderedDict() for action in (_Action.EXTERN, _Action.MOCK, _Action.INTERN)
        }
        self._unique_id = 0
        self._storages = Storages(lambda number, _: number)  # type: ignore[arg-type, return-value]
        self._stored: set[int] = set()
        self._reduced: dict[int, tuple[Any, ...]] = {}
        self._kept: list[Any] = []

    # ---- sources
    def save_source_file(self, module_name: str, file_or_directory: str, dependencies: bool = True) -> None:
        """Put a file of Python into the package as a module, or a folder as a package with all that is below."""
        path = Path(file_or_directory)
        if not path.is_dir():
            is_package = path.name == "__init__.py"
            self.save_source_string(module_name, path.read_text(encoding="utf-8"), is_package, dependencies)
            return
        for file in sorted(path.glob("**/*.py")):
            parts = file.relative_to(path).with_suffix("").parts
            is_package = parts[-1] == "__init__"
            name = ".".join([module_name, *(parts[:-1] if is_package else parts)])
            self.save_source_string(name, file.read_text(encoding="utf-8"), is_package, dependencies)

    def save_source_string(self, module_name: str, src: str, is_package: bool = False, dependencies: bool = True) -> None:
        """Put a source into the package as a module; dependencies: what it imports is looked at too."""
        self.dependency_graph.add_node(module_name, source=src, is_package=is_package, provided=True, action=_Action.INTERN)
        if dependencies:
            for needed in self._get_dependencies(src, module_name, is_package):
                self.dependency_graph.add_edge(module_name, needed)
                self.add_dependency(needed)

    def save_module(self, module_name: str, dependencies: bool = True) -> None:
        """Put a module that can be imported into the package."""
        if not isinstance(module_name, str):
            raise TypeError("save_module() expects a string input, did you perhaps mean to pass `__name__`?")
        self._intern_module(module_name, dependencies)

    def get_unique_id(self) -> str:
        """A text that this exporter gives only once."""
        self._unique_id += 1
        return str(self._unique_id - 1)

    # ---- resources
    def save_pickle(self, package: str, resource: str, obj: Any, dependencies: bool = True, pickle_protocol: int = 3) -> None:
        """Put a pickled object into the package as `resource`; dependencies: modules of its classes are looked at too.

        PicklingError for what the importer has no name for.
        """
        if pickle_protocol not in (3, 4):
            raise AssertionError("torch.package only supports pickle protocols 3 and 4")
        content = io.BytesIO()
        pickler = PackagePickler(self.importer, content, pickle_protocol, self._persistent_id)
        pickler.dump(obj)
        if dependencies:
            self._pickled(package, resource, content.getvalue())
        self._write(self._filename(package, resource), content.getvalue())

    def save_text(self, package: str, resource: str, text: str) -> None:
        """Put a text into the package as `resource`."""
        self.save_binary(package, resource, text.encode())

    def save_binary(self, package: str, resource: str, binary: bytes) -> None:
        """Put bytes into the package as `resource`."""
        self._write(self._filename(package, resource), binary)

    def _filename(self, package: str, resource: str) -> str:
        return "/".join([*package.split("."), _normalize_path(resource)])

    def _pickled(self, package: str, resource: str, content: bytes) -> None:
        """Look at the modules of what a pickle names."""
        node = f"<{package}.{resource}>"
        self.dependency_graph.add_node(node, action=_Action.INTERN, provided=True, is_pickle=True)
        named: dict[str, list[str]] = {}
        for module, name in _names_in(content):
            named.setdefault(module, []).append(name)
        for module, objects in named.items():
            self.dependency_graph.add_edge(node, module)
            chosen = next((info.action for pattern, info in self.patterns.items() if pattern.matches(module)), None)
            if chosen is _Action.MOCK and not self._can_implicitly_extern(module):
                self.dependency_graph.add_node(
                    module,
                    action=_Action.MOCK,
                    error=PackagingErrorReason.MOCKED_BUT_STILL_USED,
                    provided=True,
                    error_context=f"Object(s) '{objects}' from module `{module}` was mocked out during packaging but is being "
                    f"used in resource - `{resource}` in package `{package}`. ",
                )
            else:
                self.add_dependency(module)

    def _persistent_id(self, obj: Any) -> tuple[Any, ...] | None:
        """What stands in pickles for a storage, which is written once, and for objects that know of packages."""
        if hasattr(type(obj), "__reduce_package__"):
            if id(obj) not in self._reduced:
                self._kept.append(obj)
                self._reduced[id(obj)] = ("reduce_package", id(obj), *obj.__reduce_package__(self))
            return self._reduced[id(obj)]
        identity = self._storages.identity(obj)
        if identity is not None and identity[2] not in self._stored:
            self._stored.add(identity[2])
            _, storage = next(found for found in self._storages.found.values() if found[0] == identity[2])
            self._write(f".data/{identity[2]}.storage", storage_io.memory_of(storage))
        return identity

    # ---- what is done with modules
    def intern(self, include: GlobPattern, *, exclude: GlobPattern = (), allow_empty: bool = True) -> None:
        """Put the source of modules whose names match into the package."""
        self._add_pattern(_Action.INTERN, include, exclude, allow_empty)

    def mock(self, include: GlobPattern, *, exclude: GlobPattern = (), allow_empty: bool = True) -> None:
        """Put stand-ins into the package, whose objects raise NotImplementedError when they are used."""
        self._add_pattern(_Action.MOCK, include, exclude, allow_empty)

    def extern(self, include: GlobPattern, *, exclude: GlobPattern = (), allow_empty: bool = True) -> None:
        """Take the modules from the environment in which the package is loaded."""
        self._add_pattern(_Action.EXTERN, include, exclude, allow_empty)

    def deny(self, include: GlobPattern, *, exclude: GlobPattern = ()) -> None:
        """Refuse the modules: PackagingError if one is needed."""
        self._add_pattern(_Action.DENY, include, exclude, True)

    def _add_pattern(self, action: _Action, include: GlobPattern, exclude: GlobPattern, allow_empty: bool) -> None:
        self.patterns[GlobGroup(include, exclude=exclude)] = _PatternInfo(action, allow_empty)

    def register_extern_hook(self, hook: Hook) -> RemovableHandle:
        """Call hook(exporter, module name) for each module that is taken from the environment."""
        return self._register(_Action.EXTERN, hook)

    def register_mock_hook(self, hook: Hook) -> RemovableHandle:
        """Call hook(exporter, module name) for each module that gets a stand-in."""
        return self._register(_Action.MOCK, hook)

    def register_intern_hook(self, hook: Hook) -> RemovableHandle:
        """Call hook(exporter, module name) for each module that is put into the package."""
        return self._register(_Action.INTERN, hook)

    def _register(self, action: _Action, hook: Hook) -> RemovableHandle:
        handle = RemovableHandle(self._hooks[action])
        self._hooks[action][handle.id] = hook
        return handle

    def add_dependency(self, module_name: str, dependencies: bool = True) -> None:
        """Decide what is done with a module that is needed."""
        graph = self.dependency_graph
        if module_name in graph and graph.nodes[module_name].get("provided") is True:
            return
        if module_name == "torch_package_importer":  # which packages have of themselves
            graph.add_node(module_name, action=_Action.SKIP, provided=True)
            return
        if module_name == "_mock":
            graph.add_node(module_name, action=_Action.REPACKAGED_MOCK_MODULE, provided=True)
            return
        if self._can_implicitly_extern(module_name):
            graph.add_node(module_name, action=_Action.EXTERN, provided=True)
            return
        for pattern, info in self.patterns.items():
            if pattern.matches(module_name):
                info.was_matched = True
                graph.add_node(module_name, action=info.action, provided=True)
                if info.action is _Action.DENY:
                    graph.add_node(module_name, error=PackagingErrorReason.DENIED)
                elif info.action is _Action.INTERN:
                    self._intern_module(module_name, dependencies)
                return
        graph.add_node(module_name, error=PackagingErrorReason.NO_ACTION)

    def _can_implicitly_extern(self, module_name: str) -> bool:
        top = module_name.partition(".")[0]
        return top == "torch" or (top not in DISALLOWED and is_stdlib_module(top))

    def _intern_module(self, module_name: str, dependencies: bool) -> None:
        module = self._import_module(module_name)
        name = demangle(module_name)
        graph = self.dependency_graph
        is_package = hasattr(module, "__path__")
        graph.add_node(name, action=_Action.INTERN, is_package=is_package, provided=True)
        source = self._get_source_of_module(module)
        if source is None:
            file = getattr(module, "__file__", None)
            context = None
            if file is None:
                reason = PackagingErrorReason.NO_DUNDER_FILE
            elif file.endswith(tuple(importlib.machinery.EXTENSION_SUFFIXES)):
                reason = PackagingErrorReason.IS_EXTENSION_MODULE
            else:
                reason, context = PackagingErrorReason.SOURCE_FILE_NOT_FOUND, f"filename: {file}"
            graph.add_node(name, error=reason, error_context=context)
            return
        graph.add_node(name, source=source)
        if dependencies:
            for needed in self._get_dependencies(source, name, is_package):
                graph.add_edge(name, needed)
                self.add_dependency(needed)

    def _get_dependencies(self, src: str, module_name: str, is_package: bool) -> list[str]:
        """The modules that a source imports, of those that there are."""
        package = module_name if is_package else module_name.rpartition(".")[0]
        try:
            found = find_files_source_depends_on(src, package)
        except Exception as error:
            self.dependency_graph.add_node(
                module_name, error=PackagingErrorReason.DEPENDENCY_RESOLUTION_FAILED, error_context=str(error)
            )
            return []
        needed: dict[str, None] = {}
        for module, name in found:
            inner = None if name is None else f"{module}.{name}"
            if inner is not None and self._module_exists(inner):
                needed[inner] = None
            elif self._module_exists(module):
                needed[module] = None
        return list(needed)

    def _import_module(self, module_name: str) -> ModuleType:
        try:
            return self.importer.import_module(module_name)
        except ModuleNotFoundError:
            if not is_mangled(module_name):
                raise
            raise ModuleNotFoundError(
                f"Module not found: '{module_name}'. Make sure the PackageImporter that created this module is present in "
                "`self.importer`"
            ) from None

    def _module_exists(self, module_name: str) -> bool:
        try:
            self._import_module(module_name)
        except Exception:
            return False
        return True

    def _get_source_of_module(self, module: ModuleType) -> str | None:
        loader = getattr(module, "__loader__", None)
        file = None
        if loader is not None and hasattr(loader, "get_filename"):
            try:
                file = loader.get_filename(module.__name__)
            except ImportError:
                file = None
        file = file or getattr(module, "__file__", None)
        if file is None or not str(file).endswith(".py"):
            return None
        lines = linecache.getlines(file, module.__dict__)
        if lines:
            return "".join(lines)
        return "" if os.path.exists(file) or is_mangled(module.__name__) else None

    # ---- the file
    def _write(self, filename: str, str_or_bytes: Any) -> None:
        if filename in self._written_files:
            raise AssertionError(f"Tried to write file '{filename}', but it already exists in this archive. Please file a bug.")
        self._written_files.add(filename)
        if is_mangled(filename):
            raise AssertionError(
                f"Tried to save a torch.package'd module as '{filename}'. Directly saving torch.package'd modules is not allowed."
            )
        data = str_or_bytes.encode() if isinstance(str_or_bytes, str) else str_or_bytes
        self.zip_file.write_record(filename, data, memoryview(data).nbytes)

    def _write_source_string(self, module_name: str, src: str, is_package: bool = False) -> None:
        self._write(module_name.replace(".", "/") + ("/__init__.py" if is_package else ".py"), src)

    def _validate_dependency_graph(self) -> None:
        if any(attributes.get("error") is not None for attributes in self.dependency_graph.nodes.values()):
            raise PackagingError(self.dependency_graph, debug=self.debug)
        for pattern, info in self.patterns.items():
            if not info.allow_empty and not info.was_matched:
                raise EmptyMatchError(f"Exporter did not match any modules to {pattern}, which was marked as allow_empty=False")

    def _execute_dependency_graph(self) -> None:
        """Write what the graph says: sources, stand-ins, and the names of modules from outside."""
        self._validate_dependency_graph()
        externs = []
        for name, attributes in list(self.dependency_graph.nodes.items()):
            action = attributes.get("action")
            for hook in list(self._hooks.get(action, {}).values()):  # type: ignore[arg-type]
                hook(self, name)
            if action is _Action.EXTERN:
                externs.append(name)
            elif action is _Action.MOCK:
                if "_mock.py" not in self._written_files:
                    self._write("_mock.py", Path(_mock.__file__).read_text(encoding="utf-8"))
                is_package = hasattr(self._import_module(name), "__path__")
                self._write_source_string(name, _MOCKED_SOURCE, is_package)
            elif action is _Action.REPACKAGED_MOCK_MODULE:
                if "_mock.py" not in self._written_files:
                    self._write("_mock.py", Path(_mock.__file__).read_text(encoding="utf-8"))
            elif action is _Action.INTERN and "is_pickle" not in attributes:
                self._write_source_string(name, attributes["source"], attributes["is_package"])
        self._write(".data/extern_modules", "\n".join(externs) + "\n")

    def close(self) -> None:
        """Gather the modules and complete the file."""
        self._execute_dependency_graph()
        self._write(".data/python_version", platform.python_version())
        self._finalize_zip()

    def _finalize_zip(self) -> None:
        self.zip_file.write_end_of_file()
        del self.zip_file
        if self.buffer is not None and hasattr(self.buffer, "flush"):
            self.buffer.flush()

    def __enter__(self) -> PackageExporter:
        return self

    def __exit__(self, exc_type: Any, exc_value: Any, traceback: Any) -> None:
        if exc_type is not None:  # the file can't be whole
            self._finalize_zip()
            return
        self.close()

    # ---- what is known so far
    def dependency_graph_string(self) -> str:
        """The graph of dependencies in the DOT language."""
        return self.dependency_graph.to_dot()

    def _nodes_with_action_type(self, action: _Action | None) -> list[str]:
        return sorted(
            name
            for name, attributes in self.dependency_graph.nodes.items()
            if attributes.get("action") is action and "is_pickle" not in attributes
        )

    def externed_modules(self) -> list[str]:
        """The modules that are taken from the environment."""
        return self._nodes_with_action_type(_Action.EXTERN)

    def interned_modules(self) -> list[str]:
        """The modules whose source is in the package."""
        return self._nodes_with_action_type(_Action.INTERN)

    def mocked_modules(self) -> list[str]:
        """The modules that have a stand-in."""
        return self._nodes_with_action_type(_Action.MOCK)

    def denied_modules(self) -> list[str]:
        """The modules that are refused."""
        return self._nodes_with_action_type(_Action.DENY)

    def get_rdeps(self, module_name: str) -> list[str]:
        """The modules that need a module."""
        return list(self.dependency_graph.predecessors(module_name)) if module_name in self.dependency_graph else []

    def all_paths(self, src: str, dst: str) -> str:
        """The part of the graph of dependencies on paths from src to dst, in the DOT language."""
        return self.dependency_graph.all_paths(src, dst)


def _names_in(content: bytes) -> Iterator[tuple[str, str]]:
    """(module, name) of the classes and functions that a pickle names."""
    texts: list[str] = []
    memo: dict[int, str | None] = {}
    last: str | None = None
    for operation, argument, _ in pickletools.genops(content):
        if operation.name == "GLOBAL":
            module, _, name = str(argument).partition(" ")
            yield module, name
        elif operation.name == "STACK_GLOBAL":
            yield texts[-2], texts[-1]
        elif operation.name == "MEMOIZE":
            memo[len(memo)] = last
            continue
        elif operation.name in ("BINPUT", "LONG_BINPUT", "PUT"):
            memo[int(argument or 0)] = last
            continue
        elif operation.name in ("BINGET", "LONG_BINGET", "GET"):
            argument = memo.get(int(argument or 0))
        last = argument if isinstance(argument, str) and operation.name != "GLOBAL" else None
        if last is not None:
            texts.append(last)


def _normalize_path(path: str) -> str:
    """A path that is one file's name. ValueError for others."""
    parent, name = os.path.split(str(path))
    if parent:
        raise ValueError(f"{path!r} must be only a file name")
    return name
