"""Pictures of graphs by Graphviz, as PyTorch lays them out. Needs the package pydot. Stands on fx.node; used by programs."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from itertools import chain
from typing import Any

import flambeau as torch
from flambeau.fx.codegen import _parse_stack_trace
from flambeau.fx.graph_module import GraphModule
from flambeau.fx.names import _get_qualified_name, shown_type
from flambeau.fx.node import Node, _format_arg
from flambeau.fx.passes.shape_prop import TensorMetadata
from flambeau.nn import Module

try:
    import pydot
except ModuleNotFoundError:
    pydot = None  # type: ignore[assignment]
HAS_PYDOT = pydot is not None
__all__ = ["FxGraphDrawer"]

_COLOR_MAP = {
    "placeholder": '"AliceBlue"',
    "call_module": "LemonChiffon1",
    "get_param": "Yellow2",
    "get_attr": "LightGrey",
    "output": "PowderBlue",
}
_HASH_COLOR_MAP = """CadetBlue1 Coral DarkOliveGreen1 DarkSeaGreen1 GhostWhite Khaki1 LavenderBlush1 LightSkyBlue MistyRose1
    MistyRose2 PaleTurquoise2 PeachPuff1 Salmon Thistle1 Thistle3 Wheat1""".split()
_WEIGHT_TEMPLATE = {"fillcolor": "Salmon", "style": '"filled,rounded"', "fontcolor": "#000000"}
_ROW = r"\n"  # ends a row of a label


class FxGraphDrawer:
    """The graph of a module, and those of its submodules that have one, as pydot's: `get_dot_graph().write_svg("a.svg")`.

    ignore_getattr leaves out the nodes that read attributes, ignore_parameters_and_buffers the parameters of submodules.
    RuntimeError without pydot.
    """

    def __init__(
        self,
        graph_module: GraphModule,
        name: str,
        ignore_getattr: bool = False,
        ignore_parameters_and_buffers: bool = False,
        skip_node_names_in_args: bool = True,
        parse_stack_trace: bool = False,
        dot_graph_shape: str | None = None,
        normalize_args: bool = False,
    ) -> None:
        if not HAS_PYDOT:
            raise RuntimeError(
                "FXGraphDrawer requires the pydot package to be installed. Please install pydot through your favorite "
                "Python package manager."
            )
        self._name = name
        self.dot_graph_shape = "record" if dot_graph_shape is None else dot_graph_shape
        self.normalize_args = normalize_args
        options = (ignore_getattr, ignore_parameters_and_buffers, skip_node_names_in_args, parse_stack_trace)
        self._dot_graphs = {name: self._to_dot(graph_module, name, *options)}
        for node in graph_module.graph.find_nodes(op="call_module"):
            called = self._get_leaf_node(graph_module, node)
            if isinstance(called, GraphModule):
                inner = f"{name}_{node.target}"
                self._dot_graphs[inner] = self._to_dot(called, inner, *options)

    def get_dot_graph(self, submod_name: str | None = None) -> Any:
        """The graph of the module, or of a submodule by its name in get_all_dot_graphs()."""
        return self.get_main_dot_graph() if submod_name is None else self.get_submod_dot_graph(submod_name)

    def get_main_dot_graph(self) -> Any:
        """The graph of the module."""
        return self._dot_graphs[self._name]

    def get_submod_dot_graph(self, submod_name: str) -> Any:
        """The graph of a submodule."""
        return self._dot_graphs[f"{self._name}_{submod_name}"]

    def get_all_dot_graphs(self) -> dict[str, Any]:
        """The graphs by name."""
        return self._dot_graphs

    # ------------------------------------------------------------ a node

    def _get_node_style(self, node: Node) -> dict[str, str]:
        color = _COLOR_MAP.get(node.op)
        if color is None:
            digest = hashlib.md5(node._pretty_print_target(node.target).encode(), usedforsecurity=False).hexdigest()
            color = _HASH_COLOR_MAP[int(digest[:8], 16) % len(_HASH_COLOR_MAP)]
        return {"shape": self.dot_graph_shape, "fillcolor": color, "style": '"filled,rounded"', "fontcolor": "#000000"}

    def _get_leaf_node(self, module: Module, node: Node) -> Module:
        if not isinstance(node.target, str):
            raise AssertionError(f"Expected str target, got {type(node.target)}")
        return module.get_submodule(node.target)

    def _typename(self, target: Callable[..., Any] | str | Module) -> str:
        if isinstance(target, Module):
            return shown_type(type(target))
        return target if isinstance(target, str) else _get_qualified_name(target)

    def _shorten_file_name(self, full_file_name: str, truncate_to_last_n: int = 2) -> str:
        return "/".join(full_file_name.split("/")[-truncate_to_last_n:])

    def _get_node_label(self, module: GraphModule, node: Node, skip_node_names_in_args: bool, parse_stack_trace: bool) -> str:
        label = f"{{name=%{node.name}|op_code={node.op}{_ROW}"
        if node.op == "call_module":
            called = self._get_leaf_node(module, node)
            constants = _ROW.join(f"{name}: {getattr(called, name)}" for name in getattr(called, "__constants__", ()))
            label += f"{_ROW}{self._typename(called)}{_ROW}|{constants}{_ROW}"
        else:
            args, kwargs = self._arguments(module, node)
            label += f"|target={self._typename(node.target)}{_ROW}"
            label += _listed("|args=(", ")", [_format_arg(a, 8) for a in args], skip_node_names_in_args)
            named = [f"{name}: {_format_arg(value, 8)}" for name, value in kwargs.items()]
            label += _listed("|kwargs={", "}", named, skip_node_names_in_args)
            label += f"|num_users={len(node.users)}{_ROW}"
        label += self._tensor_meta_to_label(node.meta.get("tensor_meta"))
        if parse_stack_trace and node.stack_trace is not None:
            parsed = _parse_stack_trace(node.stack_trace)
            if parsed is not None:
                code = parsed.code.replace("{", r"\{").replace("}", r"\}")
                label += f"|file={self._shorten_file_name(parsed.file)}:{parsed.lineno} {code}{_ROW}"
        return label + "}"

    def _arguments(self, module: GraphModule, node: Node) -> tuple[Any, Any]:
        normal = node.normalized_arguments(module) if self.normalize_args else None
        return (node.args, node.kwargs) if normal is None else (normal.args, normal.kwargs)

    def _tensor_meta_to_label(self, tm: object) -> str:
        if isinstance(tm, TensorMetadata):
            return self._stringify_tensor_meta(tm)
        if isinstance(tm, (list, tuple)):
            return "".join(map(self._tensor_meta_to_label, tm))
        if isinstance(tm, dict):
            return "".join(f"|{name}{_ROW}{self._tensor_meta_to_label(value)}" for name, value in tm.items())
        return ""

    def _stringify_tensor_meta(self, tm: TensorMetadata) -> str:
        rows = [f"|dtype={tm.dtype}", f"|shape={tuple(tm.shape)}", f"|requires_grad={tm.requires_grad}", f"|stride={tm.stride}"]
        return "".join(row + _ROW for row in rows)

    def _get_tensor_label(self, t: torch.Tensor) -> str:
        return f"{t.dtype}{list(t.shape)}{_ROW}"

    # ------------------------------------------------------------ a graph

    def _to_dot(
        self,
        graph_module: GraphModule,
        name: str,
        ignore_getattr: bool,
        ignore_parameters_and_buffers: bool,
        skip_node_names_in_args: bool,
        parse_stack_trace: bool,
    ) -> Any:
        drawn = pydot.Dot(name, rankdir="TB")
        shown = [node for node in graph_module.graph.nodes if not (ignore_getattr and node.op == "get_attr")]
        for node in shown:
            label = self._get_node_label(graph_module, node, skip_node_names_in_args, parse_stack_trace)
            drawn.add_node(pydot.Node(node.name, label=label, **self._get_node_style(node)))
            if node.op == "call_module" and not ignore_parameters_and_buffers:
                called = self._get_leaf_node(graph_module, node)
                if not isinstance(called, GraphModule):
                    self._draw_weights(drawn, node, called)
        for node in shown:
            for user in node.users:
                drawn.add_edge(pydot.Edge(node.name, user.name))
        return drawn

    def _draw_weights(self, drawn: Any, node: Node, module: Module) -> None:
        style = {**_WEIGHT_TEMPLATE, "shape": self.dot_graph_shape}
        parameters = [(name, f"{node.name}.{name}|op_code=get_parameter", p) for name, p in module.named_parameters()]
        buffers = [(name, r"buffer\l", b) for name, b in module.named_buffers()]
        for name, head, tensor in chain(parameters, buffers):
            own = f"{node.name}.{name}"
            drawn.add_node(pydot.Node(own, label=f"{{{head}{self._get_tensor_label(tensor)}}}", **style))
            drawn.add_edge(pydot.Edge(own, node.name))


def _listed(begin: str, end: str, items: list[str], skip_nodes: bool) -> str:
    """Arguments in a label, one a line unless there is one; those that name nodes are left out with skip_nodes."""
    if skip_nodes:
        items = [item for item in items if "%" not in item]
    if not items:
        return ""
    text = begin + items[0] + "," + end if len(items) == 1 else begin + r"\l" + r",\n".join(items) + r",\n" + end + r"\l"
    return text.replace("{", r"\{").replace("}", r"\}")
