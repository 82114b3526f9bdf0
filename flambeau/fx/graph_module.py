"""A module whose forward is generated from a graph.

Each GraphModule is the only instance of a class of its own, so that `forward` can be written anew (`recompile`) when the
graph has changed. The code can be read by debuggers and in tracebacks. Stands on fx.graph and nn; used by the tracers.
"""

# ruff: noqa: F401 - PyTorch has the names of attributes in this module

from __future__ import annotations

import contextlib
import copy
import itertools
import linecache
import os
import sys
import traceback
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import flambeau as torch
from flambeau.fx.attributes import (
    _assign_attr,
    _copy_attr,
    _del_attr,
    _get_attr,
    _get_attr_via_attr_list,
    _has_attr,
    delete_submodule,
)
from flambeau.fx.graph import Graph, PythonCode, _custom_builtins, _is_from_torch, _PyTreeCodeGen
from flambeau.fx.names import _get_qualified_name, public_name, shown_module
from flambeau.fx.printing import _print_readable
from flambeau.nn import Module

__all__ = ["GraphModule", "reduce_graph_module", "reduce_package_graph_module"]

_USER_PRESERVED_ATTRIBUTES_KEY = "_user_preserved_attributes"
FX_GRAPH_MODULE_FILE_PREFIX = "fx_generated_"


class _EvalCacheLoader:
    """Keeps generated source where tracebacks, inspect and debuggers look for it."""

    def __init__(self) -> None:
        self.eval_cache: dict[str, str] = {}
        self.next_id = itertools.count()

    def cache(self, src: str, globals: dict[str, Any], co_fields: dict[str, Any] | None = None) -> str:
        """Keep a source; returns its file name."""
        key = f"<eval_with_key>.{next(self.next_id)}"
        if co_fields:
            name = co_fields["co_name"].strip("<>")  # linecache has no lines of files called <...>
            key += f" from {co_fields['co_filename']}:{co_fields['co_firstlineno']} in {name}"
        self.eval_cache[key] = src
        names = globals.copy()
        names.update(__file__=key, __name__=key, __loader__=self)
        linecache.lazycache(key, names)
        return key

    def get_source(self, module_name: str) -> str | None:
        """The source of a file name."""
        return self.eval_cache.get(module_name)


_loader = _EvalCacheLoader()


def _exec_with_source(src: str, globals: dict[str, Any], co_fields: dict[str, Any] | None = None) -> None:
    # the code's annotations are objects, whatever they are in this file
    exec(compile(src, _loader.cache(src, globals, co_fields), "exec", dont_inherit=True), globals)


def _method_from_src(
    method_name: str, src: str, globals: dict[str, Any], co_fields: dict[str, Any] | None = None
) -> Callable[..., Any]:
    names = globals.copy()
    _exec_with_source(src, names, co_fields)
    return names.pop(method_name)


def _forward_from_src(src: str, globals: dict[str, Any], co_fields: dict[str, Any] | None = None) -> Callable[..., Any]:
    return _method_from_src("forward", src, globals, co_fields)


def _format_import_statement(name: str, obj: Any, importer: Any = None) -> str:
    if name in _custom_builtins:
        return _custom_builtins[name].import_str
    if _is_from_torch(name):
        return "import torch"
    if importer is not None:  # of a package, whose modules may be those of another one
        module, qualified = importer.get_name(obj)
        return f"from {module} import {qualified} as {name}"
    return f"from {shown_module(obj.__module__)} import {obj.__qualname__} as {name}"


def _format_import_block(globals: dict[str, Any], importer: Any = None) -> str:
    return "\n".join(sorted({_format_import_statement(name, obj, importer) for name, obj in globals.items()}))


class _CodeOnlyModule(Module):
    """Holds what a pickled GraphModule held, for tracing its code."""

    def __init__(self, body: dict[str, Any]) -> None:
        super().__init__()
        self.__dict__ = body


def reduce_graph_module(body: dict[Any, Any], import_block: str) -> Module:
    """The GraphModule that was pickled: its attributes, and the imports that its code needs."""
    source = body.get("_code") or body["code"]
    known = {builtin.import_str: (name, builtin.obj) for name, builtin in _custom_builtins.items()}
    lines = [line for line in import_block.splitlines() if line.strip() not in known]
    names = dict(known.values())
    forward = _forward_from_src("\n".join([*lines, source]), names, {})
    return _deserialize_graph_module(forward, body)


def reduce_package_graph_module(importer: Any, body: dict[Any, Any], generated_module_name: str) -> Module:
    """The GraphModule of a package, which has its code as a module of that name."""
    return _deserialize_graph_module(importer.import_module(generated_module_name).forward, body)


def _deserialize_graph_module(forward: Any, body: dict[Any, Any], graph_module_cls: type[GraphModule] | None = None) -> Module:
    from flambeau.fx._symbolic_trace import Tracer

    holder = type("_CodeOnlyModule", (_CodeOnlyModule,), {"forward": forward})(body)
    tracer_cls = body.get("_tracer_cls") or Tracer
    name = body.get("_graphmodule_cls_name", "GraphModule")
    extras = body.get("_tracer_extras") or {}
    keeping = type("KeepModules", (tracer_cls,), {"is_leaf_module": lambda self, m, path: True})
    graph = keeping().trace(holder, **extras)
    graph._tracer_cls = tracer_cls
    codegen = body.get("_graph_codegen")
    if codegen is not None:
        graph._codegen = codegen
    made = (graph_module_cls or GraphModule)(holder, graph, class_name=name)
    for key, value in body.items():
        if not hasattr(made, key):
            setattr(made, key, value)
    return made


class _WrappedCall:
    """Calls a module; an error from inside generated code is shown with the lines around it."""

    def __init__(self, cls: type, cls_call: Callable[..., Any] | None) -> None:
        self.cls: Any = cls
        self.cls_call = cls_call

    @staticmethod
    def _generate_error_message(frame_summary: traceback.FrameSummary) -> str:
        number = frame_summary.lineno
        if number is None:
            raise AssertionError("lineno is None")
        line = frame_summary.line or ""
        source = linecache.getlines(frame_summary.filename)
        head = f"Call using an FX-traced Module, line {number} of the traced Module's generated forward function:"
        before = "".join(source[number - 2 : number])
        behind = "\n".join(source[number : number + 2])
        return "\n".join([traceback.format_exc(), head, before, "~" * len(line) + "~~~ <--- HERE", behind])

    def __call__(self, obj: Any, *args: Any, **kwargs: Any) -> Any:
        try:
            if self.cls_call is not None:
                return self.cls_call(obj, *args, **kwargs)
            return super(self.cls, obj).__call__(*args, **kwargs)  # type: ignore[misc]
        except Exception as error:
            if not error.__traceback__:
                raise AssertionError("traceback missing from exception") from None
            innermost = traceback.StackSummary.extract(traceback.walk_tb(error.__traceback__))[-1]
            if "eval_with_key" in innermost.filename and not _in_called_python(obj, innermost.lineno):
                print(self._generate_error_message(innermost), file=sys.stderr)
                raise error.with_traceback(None)  # noqa: B904
            raise


def _in_called_python(module: Any, line: int | None) -> bool:
    """Whether a line of the generated code calls what PyTorch writes in Python, whose frames would be the innermost ones.

    The package's own frames aren't in tracebacks, so that errors of submodules seem to come from the line itself.
    """
    number = module._lineno_map.get((line or 0) - module._prologue_start)
    node = next((n for i, n in enumerate(module.graph.nodes) if i == number), None)
    if node is None or node.op != "call_function":
        return node is not None and node.op == "call_module"
    return (public_name(node.target) or "").startswith(("torch.nn.functional.", "torch.functional."))


class GraphModule(Module):
    """GraphModule(root, graph): a module with the attributes of `root` that `graph` names, whose forward is the graph's code.

    root: a module, or a dict from dotted paths to values. Assigning `graph` writes the code anew; after changing the graph
    itself call `recompile()`.
    """

    __jit_unused_properties__ = ["graph", "_boxed_call"]

    def __new__(cls, *args: Any, **kwargs: Any) -> GraphModule:
        for base in cls.__mro__:
            name = base.__qualname__.rpartition(".")[2]
            if name != "GraphModuleImpl":
                break

        class GraphModuleImpl(base):  # type: ignore[misc, valid-type]
            pass

        return super().__new__(GraphModuleImpl)

    def __init__(self, root: Module | dict[str, Any], graph: Graph, class_name: str = "GraphModule") -> None:
        super().__init__()
        type(self).__name__ = class_name
        if isinstance(root, Module):
            if hasattr(root, "training"):
                self.training = root.training
            for node in graph.nodes:
                if node.op in ("get_attr", "call_module"):
                    _copy_attr(root, self, str(node.target))
        elif isinstance(root, dict):
            wanted = []
            for node in graph.nodes:
                if node.op in ("get_attr", "call_module"):
                    if node.target not in root:
                        raise RuntimeError(
                            f"Node {node} referenced target {node.target} but that target was not provided in ``root``!"
                        )
                    wanted.append(str(node.target))
            for path in sorted(wanted, key=lambda path: path.count(".")):
                _assign_attr(root[path], self, path)
        else:
            raise RuntimeError(f"Unsupported type {root} passed for root!")
        self.graph = graph
        self._tracer_cls = None
        if graph._tracer_cls and "<locals>" not in graph._tracer_cls.__qualname__:
            self._tracer_cls = graph._tracer_cls
        self._tracer_extras = graph._tracer_extras or {}
        self.meta: dict[str, Any] = {}
        self.shape_env = None
        self._replace_hooks: list[Callable[..., object]] = []
        self._create_node_hooks: list[Callable[..., object]] = []
        self._erase_node_hooks: list[Callable[..., object]] = []
        self._deepcopy_hooks: list[Callable[..., object]] = []
        preserved = getattr(root, "meta", None) if isinstance(root, Module) else None
        if isinstance(preserved, dict):
            self.meta.update(preserved)
            for name, value in preserved.get(_USER_PRESERVED_ATTRIBUTES_KEY, {}).items():
                setattr(self, name, value)

    @property
    def graph(self) -> Graph:
        """The graph."""
        return self._graph

    @graph.setter
    def graph(self, g: Graph) -> None:
        if not isinstance(g, Graph):
            raise AssertionError(f"Expected a Graph instance, but got {type(g)}")
        self._graph = g
        g.owning_module = self
        self.recompile()

    @property
    def _boxed_call(self) -> bool:
        return getattr(self._graph._codegen, "_boxed_call", False)

    @property
    def code(self) -> str:
        """The source of forward."""
        if not hasattr(self, "_code"):
            raise RuntimeError("Code has not been generated! Please report a bug to PyTorch")
        return self._code

    def recompile(self) -> PythonCode:
        """Write forward anew from the graph, which was changed."""
        codegen = self._graph._codegen
        if isinstance(codegen, _PyTreeCodeGen):
            self._in_spec = codegen.pytree_info.in_spec
            self._out_spec = codegen.pytree_info.out_spec
        written = self._graph.python_code(root_module="self")
        self._code, self._lineno_map, self._prologue_start = written.src, written._lineno_map, written._prologue_start
        cls = type(self)
        cls.forward = _forward_from_src(self._code, written.globals, getattr(self._graph, "_co_fields", None))
        own_call = vars(cls).get("__call__")
        if "_wrapped_call" not in vars(cls):
            cls._wrapped_call = _WrappedCall(cls, own_call)  # type: ignore[attr-defined]

        def call_wrapped(self: Any, *args: Any, **kwargs: Any) -> Any:
            return self._wrapped_call(self, *args, **kwargs)

        cls.__call__ = call_wrapped  # type: ignore[method-assign]
        return written

    def _recompile_submodules(self) -> list[tuple[str, PythonCode]]:
        return [(name, module.recompile()) for name, module in self.named_children() if isinstance(module, GraphModule)]

    # ------------------------------------------------------------ submodules

    def add_submodule(self, target: str, m: Module) -> bool:
        """Put a module at a dotted path; modules on the way are made. False where something else is on the way."""
        *prefix, field = target.split(".")
        module: Module = self
        for name in prefix:
            child = getattr(module, name, None)
            if child is None:
                child = Module()
                setattr(module, name, child)
            if not isinstance(child, Module):
                return False
            module = child
        module.add_module(field, m)
        return True

    def delete_submodule(self, target: str) -> bool:
        """Delete the module at a dotted path; False if there is none."""
        return delete_submodule(self, target)

    def delete_all_unused_submodules(self) -> None:
        """Delete the submodules that the graph neither calls nor reads from."""
        used: set[str] = set()
        for node in self.graph.nodes:
            if node.op not in ("call_module", "get_attr"):
                continue
            parts = str(node.target).split(".")
            used.update(".".join(parts[:i]) for i in range(1, len(parts) + 1))
            if node.op == "call_module":
                try:
                    called = self.get_submodule(str(node.target))
                except AttributeError:
                    continue
                used.update(f"{node.target}.{name}" for name, _ in called.named_modules() if name)
        for name in [name for name, _ in self.named_modules() if name and name not in used]:
            self.delete_submodule(name)

    # ------------------------------------------------------------ text, files, copies

    def print_readable(
        self,
        print_output: bool = True,
        include_stride: bool = False,
        include_device: bool = False,
        colored: bool = False,
        *,
        fast_sympy_print: bool = False,
        expanded_def: bool = False,
        additional_meta: list[str] | None = None,
    ) -> str:
        """The code of the module and its graph submodules, with where it comes from and the shapes that are known."""
        return _print_readable(
            self, self._get_name(), print_output, include_stride, include_device, colored, expanded_def, additional_meta
        )

    def __str__(self) -> str:
        own = super().__str__()
        return "\n".join([own, self._code, "# To see more debug info, please use `graph_module.print_readable()`"])

    def to_folder(self, folder: str | os.PathLike[str], module_name: str = "FxModule") -> None:
        """Write the module as Python with its parameters to a folder, which then can be imported as a package."""
        path = Path(folder)
        path.mkdir(exist_ok=True)
        torch.save(self.state_dict(), path / "state_dict.pt")
        tab = " " * 4
        globals_block = "\n".join(builtin.import_str for builtin in _custom_builtins.values())
        text = f"\nimport torch\n{globals_block}\n\nfrom torch.nn import *\nclass {module_name}(torch.nn.Module):\n"
        text += f"{tab}def __init__(self):\n{tab * 2}super().__init__()\n"
        pickled = []
        for name, module in self.named_children():
            shown, comments = _gen_model_repr(name, module), ""
            if shown is None:
                file = path / f"{name}.pt"
                torch.save(module, file)
                pickled.append(name)
                comment = repr(module).replace("\r", " ").replace("\n", " ")
                shown = f"torch.load(r'{file}', weights_only=False)"
                comments = f" # {comment}"
            text += f"{tab * 2}setattr(self, '{name}', {shown}){comments}\n"
        for name, buffer in self._buffers.items():
            if buffer is not None:
                made = f"torch.empty({list(buffer.shape)}, dtype={buffer.dtype})"
                text += f"{tab * 2}self.register_buffer('{name}', {made})\n"
        for name, parameter in self._parameters.items():
            if parameter is not None:
                made = f"torch.nn.Parameter(torch.empty({list(parameter.shape)}, dtype={parameter.dtype}))"
                text += f"{tab * 2}setattr(self, '{name}', {made})\n"
        text += f"{tab * 2}self.load_state_dict(torch.load(r'{path / 'state_dict.pt'}'))\n"
        text += "\n".join(tab + line if line.strip() else "" for line in self.code.split("\n")) + "\n"
        (path / "module.py").write_text(text)
        (path / "__init__.py").write_text("from .module import *")
        if pickled:
            warnings.warn(
                f"Was not able to save the following children modules as reprs -saved as pickled files instead: {pickled}",
                stacklevel=2,
            )

    def __reduce__(self) -> Any:
        state = self.__dict__.copy()
        block = _format_import_block(self.recompile().globals)
        del state["_graph"]
        return reduce_graph_module, (state, block)

    def __reduce_package__(self, exporter: Any) -> Any:
        """What a torch.package keeps: the attributes, and the code as a module of the package."""
        state = self.__dict__.copy()
        block = _format_import_block(self.recompile().globals, exporter.importer)
        del state["_graph"]
        name = f"fx-generated._{exporter.get_unique_id()}"
        exporter.save_source_string(name, f"{block}\n{self.code}")
        return reduce_package_graph_module, (state, name)

    def _deepcopy_init(self) -> Callable[..., None]:
        return GraphModule.__init__

    def __deepcopy__(self, memo: dict[int, Any]) -> GraphModule:
        made = type(self).__new__(type(self))
        memo[id(self)] = made
        holder = _CodeOnlyModule(copy.deepcopy(self.__dict__, memo))
        self._deepcopy_init()(made, holder, holder.__dict__["_graph"])
        for key in (
            "_state_dict_hooks",
            "_load_state_dict_pre_hooks",
            "_load_state_dict_post_hooks",
            "_replace_hooks",
            "_create_node_hooks",
            "_erase_node_hooks",
            "_deepcopy_hooks",
        ):
            if key in holder.__dict__:
                made.__dict__[key] = holder.__dict__[key]
        made.meta = copy.deepcopy(dict(getattr(self, "meta", {})), memo)
        for name, value in made.meta.get(_USER_PRESERVED_ATTRIBUTES_KEY, {}).items():
            setattr(made, name, value)
        for hook in self._deepcopy_hooks:
            hook(made)
        return made

    def __copy__(self) -> GraphModule:
        from flambeau.fx._lazy_graph_module import _make_graph_module

        made = _make_graph_module(self, self.graph)
        made.meta = getattr(self, "meta", {})
        return made

    def _replicate_for_data_parallel(self) -> GraphModule:
        replica = self.__copy__()
        replica.__dict__ |= {name: value for name, value in self.__dict__.items() if name not in replica.__dict__}
        return replica

    # ------------------------------------------------------------ hooks on changes of the graph

    @contextlib.contextmanager
    def _set_replace_hook(self, f: Callable[..., object]) -> Iterator[None]:
        self._register_replace_node_hook(f)
        try:
            yield
        finally:
            self._unregister_replace_node_hook(f)


def _hook_methods(kind: str, stored: str) -> None:
    def register(self: GraphModule, f: Callable[..., object]) -> None:
        if not callable(f):
            raise AssertionError(f"{kind} hook must be a callable.")
        getattr(self, stored).append(f)

    def unregister(self: GraphModule, f: Callable[..., object]) -> None:
        getattr(self, stored).remove(f)

    setattr(GraphModule, f"_register_{kind}_hook", register)
    setattr(GraphModule, f"_unregister_{kind}_hook", unregister)


for _kind, _stored in (
    ("replace_node", "_replace_hooks"),
    ("create_node", "_create_node_hooks"),
    ("erase_node", "_erase_node_hooks"),
    ("deepcopy", "_deepcopy_hooks"),
):
    _hook_methods(_kind, _stored)


def _gen_model_repr(name: str, module: Module) -> str | None:
    """The expression that makes a module like this one, where its repr is that."""
    plain = (
        torch.nn.Linear,
        torch.nn.Conv1d,
        torch.nn.Conv2d,
        torch.nn.Conv3d,
        torch.nn.BatchNorm1d,
        torch.nn.BatchNorm2d,
        torch.nn.BatchNorm3d,
    )
    return repr(module) if type(module) in plain else None
