"""Cutting a module in parts that a backend does and parts that it doesn't: `_SplitterBase`, to be subclassed for a backend.

Stands on passes.operator_support, split_utils and shape_prop; used by programs.
"""

from __future__ import annotations

import copy
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import flambeau as torch
from flambeau.fx.graph_module import GraphModule
from flambeau.fx.node import Node
from flambeau.fx.passes.operator_support import OperatorSupportBase, get_node_target
from flambeau.fx.passes.shape_prop import ShapeProp
from flambeau.fx.passes.split_utils import split_by_tags
from flambeau.fx.passes.tools_common import (
    CALLABLE_NODE_OPS,
    FxNetAccFusionsFinder,
    NodeList,
    NodeSet,
    Tensors,
    is_node_output_tensor,
)
from flambeau.nn import Module

__all__ = ["FxNetAccNodesFinder", "FxNetSplitterInternalError", "SplitResult", "Subgraph", "generate_inputs_for_submodules"]

DEFAULT_MIN_ACC_MODULE_SIZE = 1
DEFAULT_SKIP_FUSION = False
DEFAULT_ALLOW_NON_TENSOR = False


class _SplitterSettingBase:
    """How a module is cut.

    min_acc_module_size: parts of the backend with fewer nodes are given up; skip_fusion: nodes that pass values that are no
    tensors may be parted; allow_non_tensor: the backend takes and gives such values; max_acc_splits: at most so many parts of
    the backend, -1 for any number.
    """

    def __init__(
        self,
        min_acc_module_size: int = DEFAULT_MIN_ACC_MODULE_SIZE,
        skip_fusion: bool = DEFAULT_SKIP_FUSION,
        allow_non_tensor: bool = DEFAULT_ALLOW_NON_TENSOR,
        max_acc_splits: int = -1,
        move_non_tensor_nodes_on_boundary: bool = False,
    ) -> None:
        if move_non_tensor_nodes_on_boundary:
            raise NotImplementedError("move_non_tensor_nodes_on_boundary is not implemented in flambeau: tag the nodes yourself")
        self.min_acc_module_size, self.skip_fusion = min_acc_module_size, skip_fusion
        self.allow_non_tensor, self.max_acc_splits = allow_non_tensor, max_acc_splits
        self.move_non_tensor_nodes_on_boundary = False


class FxNetAccNodesFinder:
    """The nodes that the backend does; without allow_non_tensor those between whose parts only tensors pass."""

    def __init__(self, module: GraphModule, operator_support: OperatorSupportBase, allow_non_tensor: bool) -> None:
        self.module, self.operator_support, self.allow_non_tensor = module, operator_support, allow_non_tensor
        self.acc_nodes: NodeSet = set()

    def reduce_acc_nodes_non_tensor_input_helper(self, cpu_worklist: NodeList) -> None:
        """Take out what uses these nodes' values, and so on where those are no tensors either."""
        while cpu_worklist:
            for user in cpu_worklist.pop(0).users:
                if user in self.acc_nodes:
                    self.acc_nodes.remove(user)
                    if not is_node_output_tensor(user):
                        cpu_worklist.append(user)

    def reduce_acc_nodes_non_tensor_input(self) -> None:
        """Take out what uses values that are no tensors, and not made by the backend."""
        others = [n for n in self.module.graph.nodes if n.op in CALLABLE_NODE_OPS and n not in self.acc_nodes]
        self.reduce_acc_nodes_non_tensor_input_helper([n for n in others if not is_node_output_tensor(n)])

    def reduce_acc_nodes_non_tensor_output(self) -> None:
        """Take out what gives values that are no tensors to others than the backend."""
        while True:
            given = [
                node
                for node in self.module.graph.nodes
                if node in self.acc_nodes
                and not is_node_output_tensor(node)
                and any(user not in self.acc_nodes for user in node.users)
            ]
            if not given:
                return
            self.acc_nodes.difference_update(given)
            self.reduce_acc_nodes_non_tensor_input_helper(given)

    def __call__(self) -> NodeSet:
        submodules = dict(self.module.named_modules())
        self.acc_nodes = {
            node
            for node in self.module.graph.nodes
            if node.op in CALLABLE_NODE_OPS and self.operator_support.is_node_supported(submodules, node)
        }
        if not self.allow_non_tensor:
            self.reduce_acc_nodes_non_tensor_input()
            self.reduce_acc_nodes_non_tensor_output()
        return self.acc_nodes


class FxNetSplitterInternalError(Exception):
    """The nodes couldn't be put in an order of parts."""


@dataclass
class Subgraph:
    """One part: whether the backend does it, and its nodes."""

    is_acc: bool
    nodes: NodeList
    device_ordinal: int | None = None


class SplitResult(NamedTuple):
    """The module of the parts, the inputs of each, and the prefix of those that the backend doesn't do."""

    split_module: GraphModule
    submodule_inputs: dict[str, Any]
    non_acc_submodule_prefix: str


def generate_inputs_for_submodules(
    model: Module, inputs: Sequence[Any], target_submodules: Iterable[str], deepcopy: bool = False
) -> dict[str, Any]:
    """The inputs of submodules when the model is called with `inputs`; copies with deepcopy."""
    found: dict[str, Any] = {}
    names = {module: name for name, module in model.named_modules()}
    wanted = set(target_submodules)

    def note(module: Module, given: tuple[Any, ...]) -> None:
        found[names[module]] = copy.deepcopy(given) if deepcopy else given

    handles = [module.register_forward_pre_hook(note) for module, name in names.items() if name in wanted]
    try:
        with torch.no_grad():
            model(*inputs)
    finally:
        for handle in handles:
            handle.remove()
    return found


class _SplitterBase:
    """Cuts a module: `splitter()` gives one whose submodules `_run_on_acc_<n>` hold what the backend does.

    sample_input: inputs that the module is run with to know shapes. Other parts are called non_acc_submodule_name<n>.
    """

    PCIe_BW = 100 * 2**30  # bytes a second between host and backend, for subclasses that weigh it

    def __init__(
        self,
        module: GraphModule,
        sample_input: Sequence[Any],
        operator_support: OperatorSupportBase,
        settings: _SplitterSettingBase,
        non_acc_submodule_name: str = "_run_on_cpu_",
        return_tuple: bool = False,
        nodes_finder: FxNetAccNodesFinder | None = None,
    ) -> None:
        if not isinstance(module, GraphModule):
            raise AssertionError(f"Expected GraphModule, got {type(module)}")
        self.module = module
        ShapeProp(module).propagate(*sample_input)
        self.settings, self.operator_support, self.sample_input = settings, operator_support, sample_input
        finder = nodes_finder or FxNetAccNodesFinder(module, operator_support, settings.allow_non_tensor)
        self.acc_nodes = finder()
        self.fusions = {} if settings.skip_fusion else FxNetAccFusionsFinder(module, self.acc_nodes)()
        self.deps = self.find_deps()
        self.update_deps_for_fusions()
        self.non_acc_submodule_name, self._return_tuple = non_acc_submodule_name, return_tuple
        self._node_submodule_map: dict[str, str] = {}
        self.tags: list[str] = []

    def get_node_submodule_map(self) -> dict[str, str]:
        """The part that each node is in, by names."""
        return self._node_submodule_map

    def find_deps(self) -> dict[Node, NodeSet]:
        """The calls that each call needs."""
        deps: dict[Node, NodeSet] = defaultdict(set)
        for node in self.module.graph.nodes:
            if node.op in CALLABLE_NODE_OPS:
                for user in node.users:
                    if user.op != "output":
                        deps[user].add(node)
        return deps

    def update_deps_for_fusions(self) -> None:
        """Let nodes that stay together need what each of them needs."""
        for node, fusion in self.fusions.items():
            for member in fusion:
                self.deps[node].update(self.deps[member] - fusion)
                for user in member.users:
                    if user not in fusion:
                        self.deps[user].add(node)

    def _lower_model_to_backend(self, mod: GraphModule, inputs: Tensors) -> Module:
        """What the backend makes of a part; to be overridden."""
        return mod

    # ------------------------------------------------------------ reports

    def node_support_preview(self, dump_graph: bool = False) -> str:
        """Print and return which operators the backend does."""
        submodules = dict(self.module.named_modules())
        kinds: dict[bool, dict[str, dict[Any, None]]] = {True: {}, False: {}}
        for node in self.module.graph.nodes:
            if node.op not in CALLABLE_NODE_OPS:
                continue
            dtypes = [_dtype(arg) for arg in node.args]
            while dtypes and dtypes[-1] is None:
                dtypes.pop()
            named = tuple([(key, _dtype(arg)) for key, arg in node.kwargs.items() if isinstance(arg, Node)])
            supported = self.operator_support.is_node_supported(submodules, node)
            kinds[supported].setdefault(get_node_target(submodules, node), {})[tuple(dtypes), named] = None
        report = ""
        for supported, head in ((True, "Supported"), (False, "Unsupported")):
            report += f"\n{head} node types in the model:\n"
            for target, seen in kinds[supported].items():
                report += "".join(f"{target}: ({dtypes}, {dict(named)})\n" for dtypes, named in seen)
        print(report)
        return report

    def split_preview(self, dump_graph: bool = False) -> str:
        """NotImplementedError: what lowering costs is the backend's."""
        raise NotImplementedError("split_preview is not implemented in flambeau: use node_support_preview, or split()")

    # ------------------------------------------------------------ parts

    def starter_nodes(self) -> tuple[NodeSet, NodeSet]:
        """The nodes that use inputs and attributes: those of others, and those of the backend."""
        users = [u for n in self.module.graph.nodes if n.op in ("placeholder", "get_attr") for u in n.users]
        users += [n for n in self.module.graph.nodes if n.op in CALLABLE_NODE_OPS and not n.all_input_nodes]
        users = [user for user in users if user.op in CALLABLE_NODE_OPS]
        return {u for u in users if u not in self.acc_nodes}, {u for u in users if u in self.acc_nodes}

    def put_nodes_into_subgraphs(self) -> list[Subgraph]:
        """Parts in turn, each as large as what is before it allows."""
        others, own = (dict.fromkeys(sorted(nodes)) for nodes in self.starter_nodes())
        done: NodeSet = set()
        is_acc = not any(not self.deps[node] for node in others)
        made: list[Subgraph] = []
        current: NodeList = []
        while others or own:
            waiting = own if is_acc else others
            node = next((n for n in waiting if self.deps[n] <= done), None)
            if node is None:
                if not current:
                    raise FxNetSplitterInternalError("Subgraph can't be empty")
                made.append(Subgraph(is_acc, current))
                is_acc, current = not is_acc, []
                continue
            del waiting[node]
            done.add(node)
            current.append(node)
            for ready in [*sorted(self.fusions.get(node, ())), *node.users]:
                if ready.op in CALLABLE_NODE_OPS and ready not in done:
                    (own if ready in self.acc_nodes else others)[ready] = None
        if current:
            made.append(Subgraph(is_acc, current))
        if not made:
            raise FxNetSplitterInternalError("Couldn't create subgraphs")
        return made

    def remove_small_acc_subgraphs(self, subgraphs: list[Subgraph]) -> list[Subgraph]:
        """The parts without those of the backend that are too small, which join their neighbours."""
        kept: list[Subgraph] = []
        for part in subgraphs:
            size = len(part.nodes)
            if part.is_acc and size < self.settings.min_acc_module_size:
                least = self.settings.min_acc_module_size
                print(f"Eliminating acc subgraph because it's smaller than the threshold: {size} < {least}")
                part.is_acc = False
            if kept and not part.is_acc and not kept[-1].is_acc:
                kept[-1].nodes.extend(part.nodes)
            else:
                kept.append(part)
        return kept

    def tag(self, subgraphs: list[Subgraph]) -> None:
        """Give the nodes the names of their parts."""
        self.tags = []
        for part in subgraphs:
            tag = f"{'_run_on_acc_' if part.is_acc else self.non_acc_submodule_name}{len(self.tags)}"
            self.tags.append(tag)
            for node in part.nodes:
                if hasattr(node, "tag"):
                    raise FxNetSplitterInternalError(f"Node {node} was already tagged")
                node.tag = tag  # type: ignore[attr-defined]
                self._node_submodule_map[node.name] = tag

    def split(self, remove_tag: bool = False) -> GraphModule:
        """The module of the parts that the nodes are tagged with."""
        made: GraphModule = split_by_tags(self.module, self.tags, return_tuple=self._return_tuple)
        if remove_tag:
            for node in self.module.graph.nodes:
                if hasattr(node, "tag"):
                    del node.tag
        return made

    def __call__(self) -> GraphModule:
        parts = self.remove_small_acc_subgraphs(self.put_nodes_into_subgraphs())
        count = sum(part.is_acc for part in parts)
        if 0 < self.settings.max_acc_splits < count:
            raise ValueError(
                "Cannot fulfill max_acc_splits limit. This may cause split fragmentation and result in performance issues."
            )
        print(f"Got {count} acc subgraphs and {len(parts) - count} non-acc subgraphs")
        self.tag(parts)
        return self.split()

    def generate_split_results(self) -> SplitResult:
        """The module of the parts, with their inputs."""
        made = self()
        names = [name for name, _ in made.named_children()]
        inputs = generate_inputs_for_submodules(made, self.sample_input, names)
        return SplitResult(made, inputs, self.non_acc_submodule_name)


def _dtype(arg: Any) -> Any:
    return getattr(arg.meta.get("tensor_meta"), "dtype", None) if isinstance(arg, Node) else None
