"""What a function does to memory, found by running it once: which inputs it writes to, whose memory its results share.

The run is one of FunctionalTensorMode, on fake tensors: nothing is written, and the mode knows of every tensor which one it is a
view of, and by which views. How a result shares memory as autograd sees it is read from its place in the graph.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any

import flambeau as torch
from flambeau._functorch._aot_autograd.fakes import fresh, fresh_leaf
from flambeau._functorch._aot_autograd.schemas import InputAliasInfo, OutputAliasInfo, OutputType, ViewAndMutationMeta
from flambeau._subclasses.functional_tensor import FunctionalTensorMode
from flambeau.base.symbolic.numbers import is_symbolic_number
from flambeau.core.autograd.inplace import AsStridedBackward0, base_of
from flambeau.core.tensor.storage import root
from flambeau.utils import _pytree as pytree

__all__ = ["collect"]


def collect(
    function: Callable[..., list[Any]], inputs: Sequence[Any], fake_mode: Any, *, keep_input_mutations: bool, is_train: bool
) -> ViewAndMutationMeta:
    """What `function(*inputs)`, which gives a flat list, does to these fake tensors; they themselves stay as they are."""
    given = [fresh(x) for x in inputs]
    tensors = {i: x for i, x in enumerate(given) if isinstance(x, torch.Tensor)}
    before = {i: (x._node, x._layout, x._offset, x._storage) for i, x in tensors.items()}
    grad_mode = torch.is_grad_enabled()
    with fake_mode, FunctionalTensorMode() as mode:
        results = function(*given)
        infos = [_input_info(x, inputs[i], before.get(i), mode, keep_input_mutations) for i, x in enumerate(given)]
        found = _Results(given, before, results, mode)
    switched = None if torch.is_grad_enabled() == grad_mode else torch.is_grad_enabled()
    torch.set_grad_enabled(grad_mode)
    meta = ViewAndMutationMeta(
        infos, found.infos, len(found.bases), keep_input_mutations, [], switched, is_train,
        [x.requires_grad for x in found.bases],
    )  # fmt: skip
    returned = [*[given[i] for i in meta.mutated_inp_runtime_indices], *results, *found.bases]
    with fake_mode:
        meta.traced_tangents = [_like_tangent(x) for i, x in enumerate(returned) if is_train and meta.takes_tangent(i)]
    return meta


def _like_tangent(x: Any) -> Any:
    """A tensor like the gradient of this one: with its sizes, dense in its order of dimensions."""
    with torch.no_grad():
        made = torch.empty_like(fresh_leaf(x, False))
    return fresh_leaf(made, False)


def _input_info(x: Any, original: Any, before: tuple[Any, ...] | None, mode: FunctionalTensorMode, keep: bool) -> InputAliasInfo:
    if before is None:  # no tensor
        return InputAliasInfo(True, False, False, False, False, False, False, False, keep)
    node, layout, offset, storage = before
    data = mode.data_written(x)
    if x._storage is not storage:
        raise NotImplementedError(
            "AOT autograd of a function that gives an input another storage (set_, resize_) is not implemented in "
            "flambeau: write "
            "its values, or return the tensor"
        )
    metadata = x._layout is not layout or x._offset != offset
    # A write that autograd has seen gave the input another place in the graph.
    unseen = data and original.requires_grad and x._node is node
    return InputAliasInfo(
        is_leaf=original.is_leaf, mutates_data=data, mutates_metadata=metadata, mutations_hidden_from_autograd=False,
        mutations_under_no_grad_or_inference_mode=unseen, mutates_storage_metadata=False,
        mutation_inductor_storage_resize=False, requires_grad=x.requires_grad if data else original.requires_grad,
        keep_input_mutations=keep,
    )  # fmt: skip


class _Results:
    """What the results of a run are; bases: the tensors that the graph has to return besides, as results are views of them."""

    def __init__(
        self, given: Sequence[Any], before: dict[int, tuple[Any, ...]], results: Sequence[Any], mode: FunctionalTensorMode
    ) -> None:
        self.results, self.mode = results, mode
        self.inputs = {id(given[i]): i for i in before}
        self.given = given
        self.nodes = {i: b[0] for i, b in before.items()}
        self.storages: dict[int, int] = {}
        for i in before:
            self.storages.setdefault(id(root(given[i]._storage)), i)
        self.places = {id(x): at for at, x in reversed(list(enumerate(results))) if isinstance(x, torch.Tensor)}
        shared = [base_of(x) for x in results if isinstance(x, torch.Tensor) and x.requires_grad]
        self.shared = Counter(id(x) for x in shared if x is not None)
        self.bases: list[torch.Tensor] = []
        self.infos = [self._info(at, x) for at, x in enumerate(results)]

    def _info(self, at: int, x: Any) -> OutputAliasInfo:
        if not isinstance(x, torch.Tensor):
            return OutputAliasInfo(OutputType.non_alias, type(x), None, False)
        known = self.places[id(x)]
        kind, base, views = self._kind(x)
        same = known if known != at and kind is not OutputType.is_input else None
        return OutputAliasInfo(kind, type(x), base, x.requires_grad, views, same)

    def _kind(self, x: torch.Tensor) -> tuple[OutputType, int | None, Any]:
        own = self.inputs.get(id(x))
        if own is not None:
            return OutputType.is_input, own, None
        source = self.storages.get(id(root(x._storage)))
        if source is not None:
            if x.requires_grad and not self._is_view_of(x, source):
                return OutputType.custom_function_view, source, None
            return OutputType.alias_of_input, source, self._views(x, self.given[source])
        base = base_of(x)
        if base is None or not x.requires_grad or not base.requires_grad or not _by_views(x._node, base._node):
            return OutputType.non_alias, None, None
        if id(base) in self.places:
            return OutputType.alias_of_intermediate_base_is_user_output, self.places[id(base)], self._views(x, base)
        found = next((i for i, b in enumerate(self.bases) if b is base), None)
        if found is not None:
            return OutputType.alias_of_intermediate, found, self._views(x, base)
        if self.shared[id(base)] == 1:
            return OutputType.unsafe_view_alias, None, None
        self.bases.append(base)
        return OutputType.alias_of_intermediate_save_as_output, len(self.bases) - 1, self._views(x, base)

    def _is_view_of(self, x: Any, source: int) -> bool:
        input = self.given[source]
        if input.requires_grad and (_by_views(x._node, input._node) or _by_views(x._node, self.nodes[source])):
            return True
        return not input.requires_grad  # a leaf of the function's own making that requires grad: x.detach().requires_grad_()

    def _views(self, x: torch.Tensor, base: torch.Tensor) -> tuple[Any, ...] | None:
        """The views that lead from one tensor to the other; None where they aren't known, or have sizes that may differ."""
        start, end = self.mode.provenance(base), self.mode.provenance(x)
        if start is None or end is None or start[0] is not end[0] or end[1][: len(start[1])] != start[1]:
            return None
        views = tuple(end[1][len(start[1]) :])
        if any(is_symbolic_number(n) for view in views for n in pytree.tree_leaves((view.rest, view.named))):
            return None
        return views


def _by_views(node: Any, end: Any) -> bool:
    """Whether nothing but steps of views leads from one node to the other."""
    while node is not None and node is not end:
        if not (node.is_view or isinstance(node, AsStridedBackward0)):
            return False
        node = node.edges[0][0]
    return node is end
