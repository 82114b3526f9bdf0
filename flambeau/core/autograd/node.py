"""Nodes of the autograd graph: `Node`, one subclass per operator, and `AccumulateGrad`, which ends at a leaf.

A node is made by an operator whose inputs require grad and kept alive by the results. `edges` lead to the nodes of the
inputs, `inputs` say what each input's gradient must look like, `saved` holds what the rule needs. Tensors are saved
with the version of their storage, so that a later in-place write is noticed. Stands on modes; core.operator.variants makes the
subclasses, core.autograd.engine runs them.
"""

from __future__ import annotations

import re
import sys
import threading
import weakref
from collections import OrderedDict
from collections.abc import Callable, Sequence
from functools import wraps
from itertools import count
from typing import Any, ClassVar

from flambeau.base.dtype import dtype as DType
from flambeau.base.layout import Layout, contiguous_format, register_cache
from flambeau.base.locks import long_lock
from flambeau.base.memory_order import is_dense
from flambeau.base.warn import program_stack
from flambeau.core.autograd import hooks
from flambeau.core.autograd.saved_tensors import PACKED, SavedTensor, pack
from flambeau.core.modes import modes
from flambeau.core.modes.dispatching import dispatching
from flambeau.core.tensor import tensor as tensors

__all__ = ["NO_EDGE", "AccumulateGrad", "Extras", "MultiNode", "Node", "Through", "one_step", "refuse_gradient", "rename"]

FREED = (
    "Trying to backward through the graph a second time (or directly access saved tensors after they have already "
    "been freed). Saved intermediate values of the graph are freed when you call .backward() or autograd.grad(). "
    "Specify retain_graph=True if you need to backward through the graph a second time or if you need to access "
    "saved tensors after calling backward."
)

#: The edge of an input that needs no gradient.
NO_EDGE: tuple[None, int] = (None, 0)

Edge = tuple["Node | None", int]

#: The number of the node made next; those made later run earlier.
next_sequence = count().__next__


class Extras:
    """What few nodes have: hooks, tensors that retain their gradient, metadata, the line that made the node."""

    __slots__ = ("metadata", "post_accumulate", "post_hooks", "pre_hooks", "retained", "tensor_hooks", "traceback")

    def __init__(self) -> None:
        self.tensor_hooks: dict[int, OrderedDict[int, Callable[..., Any]]] = {}
        self.retained: dict[int, weakref.ref[Any]] = {}
        self.pre_hooks: OrderedDict[int, Callable[..., Any]] = OrderedDict()
        self.post_hooks: OrderedDict[int, Callable[..., Any]] = OrderedDict()
        self.post_accumulate: OrderedDict[int, Callable[..., Any]] = OrderedDict()
        self.metadata: dict[Any, Any] = {}
        self.traceback: list[str] | None = None


class Node:
    """A step of the graph.

    edges: per input that may need a gradient, (node that made it or None, which output of that node).
    inputs: per edge, the Layout of the input, or None where any gradient will do.
    saved: values for the rule; versions: per saved value, its storage's version, or None if it isn't a tensor.
    `apply(gradients)` takes one gradient (or None) per output and returns one (or None) per edge.
    """

    __slots__ = ("__weakref__", "edges", "extras", "inputs", "saved", "sequence", "versions")

    #: How many outputs the step has.
    output_count = 1
    #: Whether the step made a view of its one input.
    is_view = False
    #: Whether the step is applied even if no gradient arrives.
    runs_without = False
    #: Names for `_saved_<name>`, in the order of `saved`.
    saved_names: ClassVar[tuple[str, ...]] = ()

    edges: tuple[Edge, ...]
    inputs: tuple[Layout | None, ...]
    saved: tuple[Any, ...] | None
    versions: tuple[int | None, ...]
    sequence: int
    extras: Extras | None

    def __init__(
        self,
        edges: tuple[Edge, ...],
        inputs: tuple[Layout | None, ...],
        saved: tuple[Any, ...] = (),
        versions: tuple[int | None, ...] = (),
    ) -> None:
        self.edges = edges
        self.inputs = inputs
        self.saved = saved
        self.versions = versions
        self.sequence = next_sequence()
        self.extras = None

    def apply(self, gradients: Sequence[Any]) -> tuple[Any, ...]:
        """The gradients of the inputs from those of the outputs; runs with grad mode on only under create_graph."""
        raise NotImplementedError(f"the derivative for '{self.name()}' is not implemented")

    def save(self, saved: tuple[Any, ...], versions: tuple[int | None, ...]) -> None:
        """Save values after construction, through the hooks for saved tensors if there are any."""
        if _hook_blocks > 0:
            saved, versions = pack(saved, versions)
        self.saved, self.versions = saved, versions

    # What rules use.

    def unpack(self) -> tuple[Any, ...]:
        """The saved values. Raises RuntimeError if they were freed, or if a tensor was written to since."""
        saved = self.saved
        if saved is None:
            raise RuntimeError(FREED)
        for value, version in zip(saved, self.versions):
            if version is not None and (version == PACKED or value._storage.version != version):
                return self._unpack_carefully(saved)
        return saved

    def _unpack_carefully(self, saved: tuple[Any, ...]) -> tuple[Any, ...]:
        values = list(saved)
        for position, version in enumerate(self.versions):
            value = saved[position]
            if version == PACKED:
                before, running.node = running.node, self
                try:
                    values[position] = value.unpacked()
                finally:
                    running.node = before
            elif version is not None and value._storage.version != version:
                raise RuntimeError(self._overwritten(value, version))
        return tuple(values)

    def _overwritten(self, value: Any, version: int) -> str:
        layout = value._layout
        maker = value._node
        words = (
            f"one of the variables needed for gradient computation has been modified by an inplace operation: "
            f"[{type_name(layout)} {list(layout.shape)}]"
        )
        if maker is None and self.saves_output(value):
            maker = self
        if maker is not None and not isinstance(maker, AccumulateGrad):
            kind = re.sub(r"Backward\d*$", "", maker.name())
            words += f", which is output {value._index} of {kind},"
        words += f" is at version {value._storage.version}; expected version {version} instead. Hint: "
        if anomaly.enabled:
            return words + (
                "the backtrace further above shows the operation that failed to compute its gradient. The "
                "variable in question was changed in there or anywhere later. Good luck!"
            )
        return words + (
            "enable anomaly detection to find the operation that failed to compute its gradient, with "
            "torch.autograd.set_detect_anomaly(True, check_nan=False)."
        )

    def saves_output(self, value: Any) -> bool:
        """Whether a saved value is a detached alias of this step's own result (which can't be saved itself: a cycle)."""
        names = self.saved_names
        if self.saved is None:
            return False
        return any(
            saved is value and position < len(names) and names[position] in _RESULTS for position, saved in enumerate(self.saved)
        )

    def attach(self, alias: Any, index: int = 0) -> Any:
        """A saved alias of output `index`, joined to the graph again if gradients of gradients are wanted."""
        dtype = alias._layout.dtype
        if seen_below(alias):
            alias = alias.detach()
        if not modes.local.grad or not (dtype.is_floating_point or dtype.is_complex):
            return alias
        again = alias.detach()
        again._node, again._index = self, index
        return again

    def needs(self, position: int) -> bool:
        """Whether anybody wants the gradient of input `position` in the run under way."""
        target = self.edges[position][0]
        if target is None:
            return False
        run = running.run
        return run is None or run.needed is None or target in run.needed

    def needs_all(self) -> bool:
        """Whether the gradients of all inputs that have an edge are wanted in the run under way."""
        run = running.run
        return run is None or run.needed is None or all([target is None or target in run.needed for target, _ in self.edges])

    # The public face.

    def name(self) -> str:
        """PyTorch's name of the step, such as "AddBackward0"."""
        return type(self).__name__

    @property
    def next_functions(self) -> tuple[Edge, ...]:
        """Per input, the node that made it (None if it needs no gradient) and which output of that it is."""
        return tuple(NO_EDGE if edge[0] is None else (edge[0], edge[1]) for edge in self.edges)

    @property
    def metadata(self) -> dict[Any, Any]:
        """A dict for the user's notes."""
        return self.extended().metadata

    @property
    def requires_grad(self) -> bool:
        """Always true."""
        return True

    def _sequence_nr(self) -> int:
        return self.sequence

    def _set_sequence_nr(self, sequence_nr: int) -> None:
        """Change the node's priority: those with higher numbers run earlier."""
        self.sequence = sequence_nr

    def extended(self) -> Extras:
        """The extras, made on demand."""
        if self.extras is None:
            self.extras = Extras()
        return self.extras

    def register_hook(self, fn: Callable[..., Any]) -> hooks.RemovableHandle:
        """Call fn(gradients of the inputs, gradients of the outputs) after the step; it may return replacements."""
        return hooks.register(self.extended().post_hooks, fn)

    def register_prehook(self, fn: Callable[..., Any]) -> hooks.RemovableHandle:
        """Call fn(gradients of the outputs) before the step; it may return replacements."""
        return hooks.register(self.extended().pre_hooks, fn)

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_saved_") and name[7:] in self.saved_names:
            value = self.unpack()[self.saved_names.index(name[7:])]
            return self.attach(value) if name[7:] in _RESULTS and hasattr(value, "_layout") else value
        if name.startswith("_raw_saved_") and name[11:] in self.saved_names:
            return SavedTensor(self, self.saved_names.index(name[11:]))
        raise AttributeError(f"'{type(self).__name__}' object has no attribute '{name}'")

    def __repr__(self) -> str:
        return f"<{type(self).__name__} object at {id(self):#x}>"


#: What the saved alias of a step's own result is called.
_RESULTS = ("result", "out", "output")


class MultiNode(Node):
    """A step with any number of outputs, fixed when it is made."""

    __slots__ = ("output_count",)
    output_count: int

    def __init__(
        self,
        output_count: int,
        edges: tuple[Edge, ...],
        inputs: tuple[Layout | None, ...],
        saved: tuple[Any, ...] = (),
        versions: tuple[int | None, ...] = (),
    ) -> None:
        super().__init__(edges, inputs, saved, versions)
        self.output_count = output_count


class Through:
    """What a step gives back, instead of gradients, that has run steps behind it as well: gradients for edges further back."""

    __slots__ = ("edges", "gradients")

    def __init__(self, edges: Sequence[Edge], gradients: list[Any]) -> None:
        self.edges, self.gradients = edges, gradients

    def __len__(self) -> int:
        return 1 << 40  # of no node's edges, so that the engine finds out where numbers differ


def _nobody() -> None:
    """The way back to the leaf where there is none."""


class AccumulateGrad(Node):
    """The end of the graph at a leaf: adds what arrives to `variable.grad`.

    The leaf owns this node, so the way back is a weak reference; without the leaf there is nobody to read `grad`.
    """

    __slots__ = ("reference",)
    # of every leaf, and so of the class: many are made
    edges = ()
    inputs = ()
    saved = ()
    versions = ()
    sequence = 18446744073709551615  # runs before everything else that is ready

    def __init__(self, variable: Any) -> None:
        """variable: the leaf; None for a view that requires grad only because what it shows does, and so gets none itself."""
        self.extras = None
        self.reference = _nobody if variable is None else weakref.ref(variable)

    def name(self) -> str:
        return "torch::autograd::AccumulateGrad"

    @property
    def variable(self) -> Any:
        """The leaf, or None when it is gone."""
        return self.reference()

    def renewed(self, variable: Any) -> AccumulateGrad:
        """Another end of the graph, at `variable`, with what was registered on the leaf; what was on the node stays with it."""
        made = AccumulateGrad(variable)
        if self.extras is not None:
            kept = made.extended()
            kept.tensor_hooks, kept.post_accumulate = self.extras.tensor_hooks, self.extras.post_accumulate
        return made

    def apply(self, gradients: Sequence[Any]) -> tuple[Any, ...]:
        """Add the gradient to the leaf's."""
        gradient = list(gradients)
        self.accumulate(gradient)
        return ()

    def accumulate(self, gradients: list[Any]) -> None:
        """Add gradients[0] to the leaf's. The list's element becomes the leaf's gradient if nobody else holds it."""
        variable = self.reference()
        if variable is None or gradients[0] is None or variable._node is None:  # it requires grad no more
            return
        with _accumulating:
            held = held_gradient(variable)
            if held is None:
                variable._grad = _first_gradient(variable, gradients)
            elif modes.local.grad or (held._layout.flavor is not None and gradients[0]._layout.flavor is None):
                variable._grad = added(held, gradients[0])
            else:
                held.add_(gradients[0])


#: Backward passes of several threads may meet at one leaf.
_accumulating = long_lock()


_renamed: dict[tuple[type, str], type] = {}


def one_step(name: str) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Decorate a function of several steps that is one in PyTorch: the steps of its results get that one's name."""

    def decorate(function: Callable[..., Any]) -> Callable[..., Any]:
        @wraps(function)
        def named(*args: Any, **kwargs: Any) -> Any:
            first = next_sequence()
            result = function(*args, **kwargs)
            for made in result if isinstance(result, tuple) else (result,):
                node = getattr(made, "_node", None)
                if node is not None and type(node) is not AccumulateGrad and node.sequence > first:
                    rename(node, name)
            return result

        return named

    return decorate


def rename(node: Node, name: str) -> None:
    """Give a step the name that it has in PyTorch."""
    kind = type(node)
    if kind.__name__ != name:
        if (kind, name) not in _renamed:
            _renamed[kind, name] = type(name, (kind,), {"__slots__": ()})
        node.__class__ = _renamed[kind, name]


def refuse_gradient(step: str, **constants: Any) -> None:
    """RuntimeError where one of these arguments of a step, which has no derivative for them, requires grad."""
    if modes.local.grad:
        for argument, tensor in constants.items():
            if tensor is not None and getattr(tensor, "_node", None) is not None:
                raise RuntimeError(
                    f"The function '{step}' is not differentiable with respect to argument '{argument}'. This "
                    "input cannot have requires_grad True."
                )


def seen_below(tensor: Any) -> bool:
    """Whether a mode below autograd, or the tensor's class, sees what is done to it; costs two questions where there are none."""
    if not (modes.active.count or tensor._layout.flavor is not None):
        return False
    return bool(modes.local.dispatch_modes) or dispatching(tensor.__class__)


def held_gradient(tensor: Any) -> Any:
    """The tensor's accumulated gradient, or None."""
    return getattr(tensor, "_grad", None)


def added(first: Any, second: Any) -> Any:
    """The sum of two gradients. To a dense one a sparse one can be added, not the other way round; of sparse ones the later
    one's elements come first, as in PyTorch."""
    return (
        second + first
        if first._layout.flavor is not None and (second._layout.flavor is None or first.is_sparse)
        else first + second
    )


def _first_gradient(variable: Any, gradients: list[Any]) -> Any:
    """The gradient a leaf starts with: the given tensor itself if only the engine holds it, a copy otherwise.

    As in PyTorch it may be a view, whose memory the gradient that the run began with has too, but not another leaf.
    """
    layout, given = variable._layout, gradients[0]._layout
    if modes.local.grad:
        if given.answering is not None or given.flavor is not None:
            return gradients[0].clone()
        if is_dense(layout.shape, layout.strides):
            return _copy_as(layout, gradients[0])
        return gradients[0].clone(memory_format=contiguous_format)
    if given.flavor is not None and gradients[0].is_sparse:
        return (
            gradients[0]
            if sys.getrefcount(gradients[0]) == 2
            and (gradients[0]._values().is_contiguous() and gradients[0]._indices().is_contiguous())
            else gradients[0].clone()
        )
    if (modes.active.count or given.flavor is not None) and seen_below(gradients[0]):
        if _fits(layout, given) and sys.getrefcount(gradients[0]) == 2:
            return gradients[0].detach()
        wanted = _layout_of_gradient(layout, given.dtype)
        return gradients[0].new_empty_strided(wanted.shape, wanted.strides).copy_(gradients[0])
    if (
        gradients[0]._node is None
        and sys.getrefcount(gradients[0]) == 2
        and ((given is layout and layout.is_contiguous) or _fits(layout, given))
    ):
        if sys.getrefcount(gradients[0]._storage) == 2:
            return gradients[0]
        if _first_there(gradients[0]):
            return tensors.tensor_from(gradients[0]._storage, gradients[0]._offset, given)
    return _copy_as(layout, gradients[0])


def _first_there(view: Any) -> bool:
    """Whether no leaf's gradient has any of this memory yet, as far as the run under way gave it; this one has it from now on."""
    run = running.run
    if run is None or view._layout.flavor is not None or view._storage.inference:
        return False
    if run.given is None:
        run.given = {}
    first = view._offset * view._layout.dtype.itemsize
    last = first + view._layout.nbytes
    storage = view._storage
    parts = run.given.setdefault(id(storage), [storage])
    for low, high in parts[1:]:
        if first < high and low < last:
            return False
    parts.append((first, last))
    return True


def _fits(layout: Layout, own: Layout) -> bool:
    """Whether a gradient lies in memory as that of such a leaf has to; the strides of single elements don't matter."""
    fits = _fitting.get((layout, own))
    if fits is None:
        wanted = _layout_of_gradient(layout, own.dtype)
        fits = _fitting[layout, own] = all(size == 1 or a == b for size, a, b in zip(layout.shape, own.strides, wanted.strides))
    return fits


def _layout_of_gradient(layout: Layout, dtype: DType) -> Layout:
    """The leaf's order of dimensions if that is dense, contiguous otherwise."""
    found = _wanted.get((layout, dtype))
    if found is None:
        dense = layout if is_dense(layout.shape, layout.strides) else layout.dense()
        found = _wanted[layout, dtype] = dense.with_dtype(dtype)
    return found


_fitting: dict[tuple[Layout, Layout], bool] = register_cache({})
_wanted: dict[tuple[Layout, DType], Layout] = register_cache({})


def _copy_as(layout: Layout, gradient: Any) -> Any:
    """A copy of the gradient in the order of dimensions that a leaf asks for."""
    copy = tensors.empty_layout(_layout_of_gradient(layout, gradient._layout.dtype))
    copy.copy_(gradient)
    return copy


def type_name(layout: Layout) -> str:
    """PyTorch's name for a kind of tensor in these messages: "torch.FloatTensor", or "CPUBoolType" for younger dtypes."""
    name = layout.dtype.scalar_name
    return f"torch.{name}Tensor" if name in _OLDEST else f"CPU{name}Type"


_OLDEST = frozenset(("Byte", "Char", "Short", "Int", "Long", "Half", "Float", "Double"))


# ---------------------------------------------------------------- the run under way, anomaly mode


class Run:
    """A backward pass under way: the nodes some gradient is wanted of (None: all), and what to call at its end."""

    __slots__ = ("accumulate", "apart", "callbacks", "depth", "given", "keep_graph", "needed", "number", "reached", "waiting")

    def __init__(self, needed: set[Node] | None, keep_graph: bool, outer: Run | None = None, accumulate: bool = True) -> None:
        self.needed = needed
        self.keep_graph = keep_graph
        self.callbacks: list[Callable[[], None]] = []
        self.given: dict[int, list[Any]] | None = None  # storages by address: which of their bytes leaves got as gradients
        self.depth = 0 if outer is None else outer.depth + 1  # inside how many other passes
        self.apart = False  # whether it stands for the outer pass in a thread of its own
        self.accumulate = accumulate  # whether leaves get gradients, not the caller
        self.number = next_run()
        self.reached: Any = None  # the nodes behind the roots, once they are counted
        self.waiting: Any = None  # the gradients that wait at nodes, if it runs to all leaves, unseen, and no leaf has hooks


next_run = count().__next__


class _Running(threading.local):
    """The innermost backward pass of this thread; in anomaly mode the node being applied, and the one that unpacks."""

    run: Run | None = None
    node: Node | None = None


running = _Running()


class _Anomaly:
    """Anomaly detection; while it is on, nodes remember the stack that made them."""

    __slots__ = ("check_nan", "enabled")

    def __init__(self) -> None:
        self.enabled = False
        self.check_nan = True

    def set(self, enabled: bool, check_nan: bool = True) -> None:
        """Switch detection on or off."""
        self.enabled, self.check_nan = enabled, check_nan
        choose_constructor()


anomaly = _Anomaly()
_hook_blocks = 0
_plain_init = Node.__init__


def _careful_init(
    self: Node,
    edges: tuple[Edge, ...],
    inputs: tuple[Layout | None, ...],
    saved: tuple[Any, ...] = (),
    versions: tuple[int | None, ...] = (),
) -> None:
    if versions:
        saved, versions = pack(saved, versions)
    _plain_init(self, edges, inputs, saved, versions)
    if anomaly.enabled:
        self.extended().traceback = program_stack()
        if running.node is not None:
            self.metadata["parent"] = running.node


def choose_constructor(hook_blocks: int = 0) -> None:
    """Exchange the constructor of nodes, so that anomaly mode and saved tensor hooks cost nothing while unused.

    hook_blocks: +1 when some thread enters a `saved_tensors_hooks` block, -1 when it leaves.
    """
    global _hook_blocks
    with _accumulating:
        _hook_blocks += hook_blocks
        careful = anomaly.enabled or _hook_blocks > 0
        if careful is not (Node.__init__ is _careful_init):  # generated recorders, which call no constructor, step aside
            (modes.active.enter if careful else modes.active.leave)(everywhere=True)
        Node.__init__ = _careful_init if careful else _plain_init  # type: ignore[method-assign]
