"""torch.fx.traceback: what is known about the node that is being run, for nodes that its running makes.

Interpreters and transformers set the current node's meta; tracers copy it to the nodes that they make meanwhile.
"""

from __future__ import annotations

import contextlib
import copy
import functools
import traceback
from collections.abc import Callable, Iterator
from enum import Enum
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from flambeau.fx.graph import Graph
    from flambeau.fx.node import Node

__all__ = [
    "NodeSource",
    "NodeSourceAction",
    "annotate",
    "annotate_fn",
    "format_stack",
    "get_current_meta",
    "get_graph_provenance_json",
    "has_preserved_node_meta",
    "preserve_node_meta",
    "set_current_meta",
]

current_meta: dict[str, Any] = {}
current_replay_node: Node | None = None
should_preserve_node_meta = False


class NodeSourceAction(Enum):
    """What a pass did to make a node of another."""

    CREATE = "create"
    REPLACE = "replace"


class NodeSource:
    """Where a node comes from: another graph's node, the pass that made it, and the sources of that node."""

    class NodeInfo:
        """The name and target of a node, and the identity of its graph."""

        def __init__(self, name: str, target: str, graph_id: int) -> None:
            self.name, self.target, self.graph_id = name, target, graph_id

    def __init__(
        self, node: Node | None, pass_name: str = "", action: NodeSourceAction | list[NodeSourceAction] | None = None
    ) -> None:
        self.pass_name = pass_name
        self.action = [] if action is None else action if isinstance(action, list) else [action]
        self.node_info = None
        self.from_node: list[NodeSource] = []
        if node is not None:
            target = node.target if isinstance(node.target, str) else getattr(node.target, "__name__", str(node.target))
            self.node_info = self.NodeInfo(node.name, target, id(node.graph))
            self.from_node = copy.deepcopy(node.meta.get("from_node", []))

    @property
    def name(self) -> str:
        """The node's name."""
        return self.node_info.name if self.node_info else ""

    @property
    def target(self) -> str:
        """The node's target."""
        return self.node_info.target if self.node_info else ""

    @property
    def graph_id(self) -> int:
        """The identity of the node's graph."""
        return self.node_info.graph_id if self.node_info else -1

    def _get_action_string(self) -> str:
        return "+".join(action.name.lower() for action in self.action)

    def __repr__(self) -> str:
        return self.print_readable()

    def print_readable(self, indent: int = 0) -> str:
        """The source, and below it indented its own sources."""
        if indent > 9:
            return ""
        text = (
            f"{' ' * 4 * indent}(name={self.name}, pass_name={self.pass_name}, action={self._get_action_string()}, "
            f"graph_id={self.graph_id})\n"
        )
        return text + "".join(source.print_readable(indent + 1) for source in self.from_node)

    def to_dict(self) -> dict[str, Any]:
        """The source as plain data."""
        return {
            "name": self.name,
            "target": self.target,
            "graph_id": self.graph_id,
            "pass_name": self.pass_name,
            "action": self._get_action_string(),
            "from_node": [source.to_dict() for source in self.from_node],
        }

    @classmethod
    def _from_dict(cls, d: dict[str, Any] | None) -> NodeSource | None:
        if d is None:
            return None
        made = cls(None, d.get("pass_name", ""))
        made.action = [NodeSourceAction[name.upper()] for name in d.get("action", "").split("+") if name]
        made.node_info = cls.NodeInfo(d.get("name", ""), d.get("target", ""), d.get("graph_id", -1))
        made.from_node = [source for item in d.get("from_node", []) if (source := cls._from_dict(item)) is not None]
        return made

    def __eq__(self, other: object) -> bool:
        return isinstance(other, NodeSource) and self.to_dict() == other.to_dict()

    def __hash__(self) -> int:
        return hash(repr(self.to_dict()))


@contextlib.contextmanager
def preserve_node_meta(enable: bool = True) -> Iterator[None]:
    """While it lasts, the meta of the node that is being run goes to the nodes that are made."""
    global should_preserve_node_meta, current_meta
    before, before_meta = should_preserve_node_meta, current_meta.copy()
    should_preserve_node_meta = enable or should_preserve_node_meta
    try:
        yield
    finally:
        should_preserve_node_meta, current_meta = before, before_meta


def has_preserved_node_meta() -> bool:
    """Whether preserve_node_meta is on."""
    return should_preserve_node_meta


def set_stack_trace(stack: list[str]) -> None:
    """Let the current node have this stack trace."""
    if should_preserve_node_meta and stack:
        current_meta["stack_trace"] = "".join(stack)


def format_stack() -> list[str]:
    """The stack trace of the current node; that of the caller where none is preserved."""
    if should_preserve_node_meta:
        return [current_meta.get("stack_trace", "")]
    return traceback.format_list(traceback.extract_stack()[:-1])


@contextlib.contextmanager
def set_current_meta(node: Node, pass_name: str = "") -> Iterator[None]:
    """Make a node the one that is being run."""
    global current_meta
    if not (should_preserve_node_meta and node.meta):
        yield
        return
    before = current_meta
    current_meta = node.meta.copy()
    current_meta["from_node"] = [NodeSource(node, pass_name, NodeSourceAction.CREATE)]
    try:
        yield
    finally:
        current_meta = before


def get_current_meta() -> dict[str, Any]:
    """The meta of the node that is being run."""
    return current_meta


@contextlib.contextmanager
def set_current_replay_node(node: Node | None) -> Iterator[None]:
    """Make a node the one that is being replayed."""
    global current_replay_node
    before, current_replay_node = current_replay_node, node
    try:
        yield
    finally:
        current_replay_node = before


def get_current_replay_node() -> Node | None:
    """The node that is being replayed."""
    return current_replay_node


@contextlib.contextmanager
def annotate(annotation_dict: dict[str, Any]) -> Iterator[None]:
    """Nodes made in the block have these entries in meta["custom"], if preserve_node_meta is on."""
    global current_meta
    before = current_meta.get("custom")
    current_meta["custom"] = {**(before or {}), **annotation_dict}
    try:
        yield
    finally:
        if before is None:
            current_meta.pop("custom", None)
        else:
            current_meta["custom"] = before


def annotate_fn(annotation_dict: dict[str, Any]) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Decorator: nodes made by the function have these entries in meta["custom"]."""

    def decorate(function: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(function)
        def inside(*args: Any, **kwargs: Any) -> Any:
            with annotate(annotation_dict):
                return function(*args, **kwargs)

        return inside

    return decorate


def get_graph_provenance_json(graph: Graph) -> dict[str, Any]:
    """For each node of a graph the sources that it has in meta["from_node"], as plain data."""
    return {
        node.name: [source.to_dict() for source in node.meta["from_node"]] for node in graph.nodes if node.meta.get("from_node")
    }
