"""From a graph to the source of its `forward`.

One statement per node; a value is dropped (`x = None`) right behind its last use. Everything that the code refers to and that is
not reached through `torch` becomes a global of the function. Stands on fx.node and fx.namespace; used by fx.graph.
"""

from __future__ import annotations

import ast
import enum
import inspect
import json
import re
import types
import typing
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import flambeau as torch
import flambeau.utils._pytree as pytree
from flambeau.base.symbolic.numbers import is_symbolic_number
from flambeau.fx.names import _get_qualified_name, is_overload, is_own, shown
from flambeau.fx.namespace import _custom_builtins, _Namespace
from flambeau.fx.node import Argument, Node, _type_repr
from flambeau.fx.tensor_text import tensor_annotation

_origin_type_map = {
    list: typing.List,  # noqa: UP006 - what the code shows is the name typing.List
    dict: typing.Dict,  # noqa: UP006
    set: typing.Set,  # noqa: UP006
    frozenset: typing.FrozenSet,  # noqa: UP006
    tuple: typing.Tuple,  # noqa: UP006
}
reflectable_magic_methods = {
    "add": "{} + {}",
    "sub": "{} - {}",
    "mul": "{} * {}",
    "floordiv": "{} // {}",
    "truediv": "{} / {}",
    "div": "{} / {}",
    "mod": "{} % {}",
    "pow": "{} ** {}",
    "lshift": "{} << {}",
    "rshift": "{} >> {}",
    "and_": "{} & {}",
    "or_": "{} | {}",
    "xor": "{} ^ {}",
    "getitem": "{}[{}]",
    "matmul": "{} @ {}",
}
magic_methods = {
    "eq": "{} == {}",
    "ne": "{} != {}",
    "lt": "{} < {}",
    "gt": "{} > {}",
    "le": "{} <= {}",
    "ge": "{} >= {}",
    "pos": "+{}",
    "neg": "-{}",
    "invert": "~{}",
    **reflectable_magic_methods,
}
inplace_methods = {
    "iadd": "{} += {}",
    "iand": "{} &= {}",
    "ifloordiv": "{} //= {}",
    "ilshift": "{} <<= {}",
    "imod": "{} %= {}",
    "imul": "{} *= {}",
    "imatmul": "{} @= {}",
    "ior": "{} |= {}",
    "ipow": "{} **= {}",
    "irshift": "{} >>= {}",
    "isub": "{} -= {}",
    "itruediv": "{} /= {}",
    "ixor": "{} ^= {}",
    "setitem": "{}[{}] = {}",
}
_color_codes = {
    "yellow": "\033[33m",
    "cyan": "\033[36m",
    "green": "\033[32m",
    "blue": "\033[34m",
    "red": "\033[31m",
    "dim": "\033[2m",
    "dim_blue": "\033[2m\033[34m",
    "dim_green": "\033[2m\033[32m",
    "reset": "\033[0m",
}


@dataclass
class PythonCode:
    """The source of a graph's function, the objects that it refers to by name, and for each of its lines the node behind it."""

    src: str
    globals: dict[str, Any]
    _lineno_map: dict[int, int | None] | None
    _prologue_start: int = 0


class _PyTreeInfo(NamedTuple):
    """How the inputs and outputs of a graph lie in containers: the original arguments' names, and the structures."""

    orig_args: list[str]
    in_spec: pytree.TreeSpec
    out_spec: pytree.TreeSpec | None


@dataclass(frozen=True)
class _ParsedStackTrace:
    """The innermost frame of a recorded stack trace."""

    file: str
    lineno: str
    name: str
    code: str

    def get_summary_str(self) -> str:
        """`File: ..., code: ...`."""
        return f"File: {self.file}:{self.lineno} in {self.name}, code: {self.code}"


def _parse_stack_trace(stack_trace: str, filter_fn: Callable[[str, str, str], bool] | None = None) -> _ParsedStackTrace | None:
    """The last frame of a formatted stack trace for which filter_fn(file, name, code) holds."""
    if not stack_trace:
        return None
    pattern = re.compile(r"^File \"(.+)\", line (\d+), in (.+)$")
    lines = stack_trace.strip().split("\n")
    summary = None
    for i in range(len(lines) - 2, -1, -1):
        found = pattern.match(lines[i].strip())
        if found:
            file, number, name = found.groups()
            code = lines[i + 1].strip()
            if filter_fn is not None and not filter_fn(file, name, code):
                continue
            summary = _ParsedStackTrace(file, number, name, code)
            break
    return summary


def _is_from_torch(obj: Any) -> bool:
    if isinstance(obj, (types.FunctionType, type)) and (obj.__module__ or "").partition(".")[0] == "operator":
        return False
    return is_own(obj)


def _format_target(base: str, target: str) -> str:
    """`base.a.b` with getattr where a part of the path is no identifier."""
    for part in target.split("."):
        base = f"{base}.{part}" if part.isidentifier() else f"getattr({base}, {json.dumps(part, ensure_ascii=False)})"
    return base


def _complex(number: complex) -> str:
    """Source of a complex number; repr's means another one where a part is a negative zero, infinite or no number."""
    parts = number.real, number.imag
    try:
        read = ast.literal_eval(repr(number))
        exact = (read.real.hex(), read.imag.hex()) == (parts[0].hex(), parts[1].hex())
    except ValueError:
        exact = False
    return repr(number) if exact else f"complex({parts[0]!r}, {parts[1]!r})"


class _Writer:
    """The statements of one function, and what they refer to."""

    def __init__(self, root_module: str, namespace: _Namespace, colored: bool) -> None:
        self.root, self.namespace, self.colored = root_module, namespace, colored
        self.globals: dict[str, Any] = {}
        self.wrapped: dict[str, None] = {}
        self.body: list[str] = []
        self.inputs: list[str] = []
        self.result_annotation = ""
        for name, builtin in _custom_builtins.items():
            self.add_global(name, builtin.obj)

    def add_global(self, hint: str, obj: Any) -> str:
        """The name by which code refers to an object; it becomes a global unless it is reached through torch."""
        if _is_from_torch(obj) and obj is not torch.device:
            return _get_qualified_name(obj)
        name = self.namespace.create_name(hint, obj)
        self.globals.setdefault(name, obj)
        return name

    def node(self, node: Node) -> str:
        """The name of a node's value."""
        return self.namespace.create_name(node.name, node)

    def color(self, name: str, text: str) -> str:
        """The text in a colour, if colours are wanted."""
        return f"{_color_codes[name]}{text}{_color_codes['reset']}" if self.colored else text

    def type_repr(self, annotation: Any) -> str:
        """An annotation in the code; what it refers to becomes global."""
        if annotation == ():
            return "()"
        name = _type_repr(annotation)
        if isinstance(annotation, types.UnionType) and "|" in name:
            return "|".join(self.type_repr(part) for part in annotation.__args__)
        origin = getattr(annotation, "__origin__", None)
        if origin is None:
            return self.add_global(name, annotation)
        parts = getattr(annotation, "__args__", None)
        if parts is not None and not isinstance(annotation, types.GenericAlias):
            origin = _origin_type_map.get(origin, origin)
        shown = self.add_global(_type_repr(origin), origin)
        return f"{shown}[{','.join(self.type_repr(part) for part in parts)}]" if parts else shown

    def value(self, arg: Any) -> str:
        """An argument as an expression."""
        if isinstance(arg, Node):
            return self.node(arg)
        if isinstance(arg, tuple):
            if hasattr(arg, "_fields"):
                cls = type(arg)
                return f"{self.add_global(_get_qualified_name(cls), cls)}({', '.join(self.value(a) for a in arg)})"
            return f"({', '.join(self.value(a) for a in arg)}{',' if len(arg) == 1 else ''})"
        if isinstance(arg, list):
            return f"[{', '.join(self.value(a) for a in arg)}]"
        if isinstance(arg, dict):
            return "{" + ", ".join(f"{k!r}: {self.value(v)}" for k, v in arg.items()) + "}"
        if isinstance(arg, slice):
            return f"slice({self.value(arg.start)}, {self.value(arg.stop)}, {self.value(arg.step)})"
        if isinstance(arg, enum.Enum):
            kind = type(arg)
            return f"{self.add_global(kind.__name__, kind)}.{arg.name}"
        if arg.__class__ is complex:
            return self.color("blue", _complex(arg))
        if isinstance(arg, torch.Tensor):
            return f"torch.Tensor(size={list(arg.shape)}, dtype={str(arg.dtype).rpartition('.')[2]})"
        if is_overload(arg):
            return self.add_global(_get_qualified_name(arg), arg)
        return self.color("blue", shown(arg) if isinstance(arg, types.FunctionType) else repr(arg))

    def arguments(self, args: Sequence[Any], kwargs: dict[str, Any]) -> str:
        """The arguments of a call."""
        return ", ".join([*map(self.value, args), *[f"{k} = {self.value(v)}" for k, v in kwargs.items()]])


class CodeGen:
    """Writes a graph's function; subclasses change its signature, and what stands around the graph's own statements."""

    _body_transformer: Callable[[list[str]], list[str]] | None = None
    _func_name: str = "forward"

    def __init__(self) -> None:
        self._body_transformer = None
        self._func_name = "forward"

    def gen_fn_def(self, free_vars: list[str], maybe_return_annotation: str, *, expanded_def: bool = False) -> str:
        """The `def` line for the inputs `free_vars`; one input per line with expanded_def."""
        if not free_vars or free_vars[0] != "self":
            free_vars.insert(0, "self")
        if expanded_def:
            return f"def {self._func_name}({self._format_multiline_args(free_vars)}){maybe_return_annotation}:"
        return f"def {self._func_name}({', '.join(free_vars)}){maybe_return_annotation}:"

    def _format_multiline_args(self, args: list[str]) -> str:
        return "\n" + "".join(f"    {arg},\n" for arg in args)

    def generate_output(
        self, output_args: Argument, *, descs: Sequence[str] | None = None, repr_fn: Callable[[object], str] | None = None
    ) -> str:
        """The `return` statement."""
        return f"return {(repr_fn or repr)(output_args)}"

    def process_inputs(self, *args: Any) -> Any:
        """The values of the graph's placeholders for the arguments of the function."""
        return args

    def process_outputs(self, outputs: Any) -> Any:
        """What the function returns for the graph's output."""
        return outputs

    def additional_globals(self) -> list[tuple[str, Any]]:
        """Names and values that the generated code refers to besides the graph's."""
        return []

    def _gen_python_code(
        self,
        nodes: Any,
        root_module: str,
        namespace: _Namespace,
        *,
        verbose: bool = False,
        include_stride: bool = False,
        include_device: bool = False,
        colored: bool = False,
        expanded_def: bool = False,
        record_func: bool = False,
        additional_meta: list[str] | None = None,
    ) -> PythonCode:
        if record_func:
            raise NotImplementedError(
                "record_func=True is not implemented in flambeau: wrap the calls in torch.profiler.record_function by an "
                "fx.Interpreter whose run_node does so"
            )
        writer = _Writer(root_module, namespace, colored)
        listed = list(nodes)
        last_uses = _last_uses(listed)
        traces = _Traces(writer, additional_meta or [])
        repr_fn = writer.value
        for name, obj in self.additional_globals():
            writer.add_global(name, obj)
        for index, node in enumerate(listed):
            if verbose:
                traces.comment(node)
            writer.body.append(f"# COUNTER: {index}\n")
            if node.op == "output":
                if node.type is not None:
                    writer.result_annotation = f" -> {writer.type_repr(node.type)}"
                writer.body.append(_call_output(self, node, repr_fn))
                writer.body.append("\n")
                continue
            _write(writer, node, include_stride if verbose else None, include_device)
            if node.op != "placeholder":
                dropped = last_uses.get(node, [])
                if dropped:
                    names = " = ".join([*map(writer.node, dropped), "None"])
                    writer.body.append(f";  {writer.color('dim', names)}\n")
                else:
                    writer.body.append("\n")
        if not writer.body:
            writer.body.append("pass\n")
        if self._body_transformer:
            writer.body = self._body_transformer(writer.body)
        wraps = "\n".join(f'torch.fx._symbolic_trace.wrap("{name}")' for name in writer.wrapped)
        head = self._signature(writer, expanded_def)
        lines, numbers = [], {}
        index = -1
        for line in "".join(writer.body).split("\n"):
            counter = re.match(r"# COUNTER: (\d+)$", line)
            if counter:
                index = int(counter.group(1))
            else:
                lines.append(line)
                numbers[len(lines) + head.count("\n")] = index if index >= 0 else None
        code = "\n".join("    " + line for line in lines)
        start = wraps.count("\n") + 4
        return PythonCode(f"\n{wraps}\n\n{head}\n{code}", writer.globals, numbers, start)

    def _signature(self, writer: _Writer, expanded_def: bool) -> str:
        if "expanded_def" in inspect.signature(self.gen_fn_def).parameters:
            return self.gen_fn_def(writer.inputs, writer.result_annotation, expanded_def=expanded_def)
        return self.gen_fn_def(writer.inputs, writer.result_annotation)


def _call_output(codegen: CodeGen, node: Node, repr_fn: Callable[[object], str]) -> str:
    names = inspect.signature(codegen.generate_output).parameters
    if "repr_fn" in names or any(p.kind is p.VAR_KEYWORD for p in names.values()):
        return codegen.generate_output(node.args[0], repr_fn=repr_fn)
    return codegen.generate_output(node.args[0])


def _last_uses(nodes: list[Node]) -> dict[Node, list[Node]]:
    """For each node the values that nobody needs behind it."""
    seen: set[Node] = set()
    found: dict[Node, list[Node]] = {}
    for node in reversed(nodes):
        for used in node._input_nodes:
            if used not in seen:
                seen.add(used)
                found.setdefault(node, []).append(used)
        if node.op not in ("placeholder", "output") and not node.users:
            found.setdefault(node, []).append(node)
    return found


class _Traces:
    """The comments that say where statements come from."""

    def __init__(self, writer: _Writer, keys: list[str]) -> None:
        self.writer, self.keys = writer, keys
        self.previous: str | None = None

    def comment(self, node: Node) -> None:
        """A comment before the node, if it comes from another line than the one before."""
        if node.op in ("placeholder", "output"):
            return
        marks = "".join(f"{key}: {node.meta[key]} # " for key in self.keys if key in node.meta)
        if node.meta.get("custom"):
            marks += f"Annotation: {node.meta['custom']} "
        recompute = node.meta.get("recompute")
        marks += "" if recompute is None else f"recompute: {recompute.name} "
        parsed = _parse_stack_trace(node.stack_trace or "")
        text = marks + ("No stacktrace found for following nodes" if parsed is None else parsed.get_summary_str())
        if text == self.previous:
            return
        self.previous = text
        apart = "\n" if any(not line.startswith("# COUNTER") for line in self.writer.body) else ""
        self.writer.body.append(f"{apart}{self.writer.color('dim', '# ' + text)}\n")


def _write(writer: _Writer, node: Node, stride: bool | None, device: bool) -> None:
    """The statement of a node, without the end of its line. stride: whether shown in annotations; None for no annotations."""
    annotation = "" if node.type is None else f" : {writer.type_repr(node.type)}"
    if stride is not None:
        value = next((node.meta[key] for key in ("val", "example_value", "tensor_meta") if key in node.meta), None)
        known = f'"Sym({value})"' if is_symbolic_number(value) else tensor_annotation(value, stride, device, writer.color)
        annotation = f": {known}" if known else annotation
    if node.op == "placeholder":
        assert isinstance(node.target, str)
        default = f" = {writer.value(node.args[0])}" if node.args else ""
        writer.inputs.append(f"{node.target}{annotation}{default}")
        raw = node.target.replace("*", "")
        if raw != writer.node(node):
            writer.body.append(f"{writer.node(node)} = {raw}\n")
        return
    name = writer.node(node) + annotation
    writer.body.append(_statement(writer, node, name))


def _statement(writer: _Writer, node: Node, name: str) -> str:
    target = node.target
    if node.op == "call_method":
        called = _format_target(writer.value(node.args[0]), target)  # type: ignore[arg-type]
        return f"{name} = {called}({writer.arguments(node.args[1:], node.kwargs)})"
    if node.op == "call_function":
        assert callable(target)
        own = getattr(target, "__name__", None)
        if getattr(target, "__module__", None) == "_operator":
            if own in magic_methods:
                return f"{name} = {magic_methods[own].format(*map(writer.value, node.args))}"
            if own in inplace_methods:
                text = inplace_methods[own].format(*map(writer.value, node.args))
                return f"{text};  {name} = {writer.value(node.args[0])}"
        qualified = _get_qualified_name(target)
        shown = writer.add_global(qualified, target)
        if shown == "getattr" and len(node.args) == 2 and isinstance(node.args[1], str) and node.args[1].isidentifier():
            return f"{name} = {_format_target(writer.value(node.args[0]), node.args[1])}"
        if node.meta.get("is_wrapped", False):
            writer.wrapped.setdefault(shown)
        return f"{name} = {shown}({writer.arguments(node.args, node.kwargs)})"
    assert isinstance(target, str)
    if node.op == "call_module":
        return f"{name} = {_format_target(writer.root, target)}({writer.arguments(node.args, node.kwargs)})"
    if node.op == "get_attr":
        return f"{name} = {_format_target(writer.root, target)}"
    raise NotImplementedError(f"node: {node.op} {target}")


def _bare(parameter: str) -> str:
    """The name of a parameter that is written with its annotation and default."""
    return parameter.partition(":")[0].partition("=")[0].strip()


class _BoxedCodeGen(CodeGen):
    """A function that takes its inputs as one list, which it empties."""

    def gen_fn_def(self, free_vars: list[str], maybe_return_annotation: str, *, expanded_def: bool = False) -> str:
        plain = [_bare(name) for name in free_vars if name != "self"]
        lines = [f"def {self._func_name}(self, args_list){maybe_return_annotation}:"]
        if plain:
            lines += ["args_iter = iter(args_list)", *[f"{name} = next(args_iter)" for name in plain]]
        return "\n    ".join([*lines, "args_list.clear()"])


class _PyTreeCodeGen(CodeGen):
    """A function whose inputs and outputs are containers, of which the graph sees the leaves."""

    def __init__(self, pytree_info: _PyTreeInfo) -> None:
        super().__init__()
        self.pytree_info = pytree_info

    def process_inputs(self, *inputs: Any) -> Any:
        return pytree.arg_tree_leaves(*inputs)

    def process_outputs(self, out: Any) -> Any:
        if self.pytree_info.out_spec is None:
            return out
        leaves = list(out) if isinstance(out, (list, tuple)) else [out]
        return pytree.tree_unflatten(leaves, self.pytree_info.out_spec)

    def gen_fn_def(self, free_vars: list[str], maybe_return_annotation: str, *, expanded_def: bool = False) -> str:
        args = self.pytree_info.orig_args
        has_self = args[:1] == ["self"]
        head = super().gen_fn_def(list(args[1:] if has_self else args), maybe_return_annotation, expanded_def=expanded_def)
        if has_self:  # the structure of a module's arguments begins with the module
            free_vars.insert(0, "self")
        if free_vars:
            head += self.gen_var_bindings(args, free_vars, expanded_def)
        return head

    def gen_var_bindings(self, fn_args: list[str], free_vars: list[str], expanded_def: bool) -> str:
        """The statements that take the inputs' leaves out of their containers."""
        typed = [name for name in free_vars if ":" in name]
        head = ""
        if typed:
            head = "".join(f"\n    {name}" for name in typed) if expanded_def else f"\n    {'; '.join(typed)}; \n"
        # a blank is left where an annotation was
        leaves = ", ".join(name.partition(":")[0] if ":" in name else _bare(name) for name in free_vars)
        return f"{head}\n    {leaves}, = fx_pytree.tree_flatten_spec({self._given(fn_args)}, self._in_spec)"

    def _given(self, fn_args: list[str]) -> str:
        """The arguments in the containers that the structure of the inputs begins with: a list, or one with a dict."""
        spec = self.pytree_info.in_spec
        children = spec.children()
        if spec.type is not tuple or len(children) != 2 or children[0].type is not tuple or children[1].type is not dict:
            return f"[{', '.join(fn_args)}]"
        count = children[0].num_children
        named = ", ".join(f"{key!r}:{name}" for key, name in zip(children[1].context, fn_args[count:]))
        return f"([{', '.join(fn_args[:count])}], {{{named}}})"

    def generate_output(
        self, output_args: Argument, *, descs: Sequence[str] | None = None, repr_fn: Callable[[object], str] | None = None
    ) -> str:
        shown = (repr_fn or repr)(output_args)
        if self.pytree_info.out_spec is not None:
            return f"return pytree.tree_unflatten({shown}, self._out_spec)"
        return f"return {shown}"
