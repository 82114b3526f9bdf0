"""The engine that runs a graph backwards: `backward` and `grad`.

Nodes run by priority of creation, latest first, from a heap; nothing recurses, so depth is no limit. Rules return gradients
as they come out: the engine sums them over broadcast dimensions, casts them, and adds up what meets at one node. Leaves
come before all else. Where nothing waits at them they take their gradient at once, whose turn it is; where hooks do, every
ready node is queued as PyTorch queues it (core.autograd.ready_queue). Stands on node, ready_queue and modes; Tensor.backward and
flambeau.autograd are its faces.
"""

from __future__ import annotations

import sys
import threading
import traceback
import warnings
from collections.abc import Callable, Sequence
from heapq import heappop, heappush, heappushpop
from itertools import count
from operator import attrgetter
from typing import Any

from flambeau.base.layout import Layout, preserve_format, register_cache
from flambeau.base.warn import warn, warn_once
from flambeau.core.autograd.gradient_edge import GradientEdge
from flambeau.core.autograd.node import AccumulateGrad, Node, Run, Through, added, anomaly, held_gradient, running, type_name
from flambeau.core.autograd.ready_queue import Ready
from flambeau.core.modes import observing
from flambeau.core.modes.dispatching import dispatching
from flambeau.core.modes.modes import active, local, observed
from flambeau.core.tensor import tensor as tensors

__all__ = ["backward", "execute", "grad", "queue_callback"]

Root = tuple[Node, int, Any]  # node, which output, gradient
Wanted = dict[Node, list[tuple[int, int]]]  # by node: which outputs' gradients are wanted, and at which positions


def execute(
    roots: Sequence[Root],
    keep_graph: bool,
    create_graph: bool,
    wanted: Wanted | None = None,
    captured: list[Any] | None = None,
    accumulate: bool = False,
) -> None:
    """Run the graph behind `roots`.

    wanted: outputs of nodes whose gradients go into `captured` (at the listed positions) instead of further back; only
    nodes on the way to them run. accumulate: leaves among them accumulate theirs instead. Without `wanted` every leaf
    accumulates. create_graph: record the run itself.
    """
    grad_before, run_before = local.grad, running.run
    if run_before is not None and run_before.depth % _NESTED == _NESTED - 1 and not run_before.apart:
        on_a_fresh_stack(run_before, execute, roots, keep_graph, create_graph, wanted, captured, accumulate)
        return
    counts, leading, hooked = _plan(roots, wanted)
    if leading is not None and accumulate:
        leading.update([node for node in wanted or () if node.edges])
    run = running.run = Run(None if leading is None else leading.union(wanted or ()), keep_graph, run_before, accumulate)
    run.reached = counts
    local.grad = create_graph
    observer = local.observer if observed.count else None
    try:
        queue = Ready() if hooked or observer is not None else None
        _run(roots, counts, leading, queue, keep_graph, wanted, captured, accumulate, observer)
        while run.callbacks:
            run.callbacks.pop(0)()
    finally:
        local.grad, running.run = grad_before, run_before
        if observer is not None:
            observer.evaluates(None)


#: Backward passes inside one another that one thread takes on, before Python's stack runs out.
_NESTED = 30


def on_a_fresh_stack(run: Run, function: Callable[..., None], *args: Any) -> None:
    """function(*args) in another thread, whose stack is empty, with this thread's modes; waits for it."""
    errors: list[BaseException] = []
    state = {name: value for name, value in vars(local).items() if name != "thread_state"}

    def body() -> None:
        vars(local).update(state)
        running.run = Run(run.needed, run.keep_graph, run, run.accumulate)
        running.run.apart = True
        try:
            function(*args)
        except BaseException as error:  # handed to the thread that waits
            errors.append(error)

    thread = threading.Thread(target=body)
    thread.start()
    thread.join()
    if errors:
        raise errors[0]


def _plan(roots: Sequence[Root], wanted: Wanted | None) -> tuple[dict[Node, int], set[Node] | None, bool]:
    """How many gradients each node waits for; the nodes behind which there is a wanted one (None: all of them); and
    whether anything is to be done at leaves but to accumulate, so that the order among them is seen.
    """
    counts: dict[Node, int] = {}
    stack = list(dict.fromkeys([root[0] for root in roots]))
    starts = set(stack) if len(stack) > 1 else ()
    hooked = any([not node.edges and node.extras is not None for node in stack])
    order: list[Node] = []
    while stack:
        node = stack.pop()
        order.append(node)
        for target, _ in node.edges:
            if target is not None:
                if target in counts:
                    counts[target] += 1
                else:
                    counts[target] = 1
                    if target.edges:
                        if target not in starts:
                            stack.append(target)
                    elif target.extras is not None:
                        hooked = True
    if wanted is None:
        return counts, None, hooked
    # Edges lead to nodes made earlier, so the order of creation settles what leads where; leaves lead nowhere.
    leading: set[Node] = set()
    order.sort(key=_age)
    for node in order:
        for target, _ in node.edges:
            if target in wanted or target in leading:
                leading.add(node)
                break
    return counts, leading, hooked


_age = attrgetter("sequence")


def _run(
    roots: Sequence[Root],
    counts: dict[Node, int],
    leading: set[Node] | None,
    queue: Ready | None,
    keep_graph: bool,
    wanted: Wanted | None,
    captured: list[Any] | None,
    accumulate: bool,
    observer: Any,
) -> None:
    buffers: dict[Node, list[Any]] = {}
    if queue is None and wanted is None:
        running.run.waiting = buffers  # type: ignore[union-attr]
    ready: list[Any] = [] if queue is None else queue.nodes
    arrival = count().__next__  # the tuples of a heap are compared; no two leaves' nodes may be
    for node, index, gradient in roots:
        if wanted is not None and len(roots) > 1 and node not in leading and node not in wanted:  # type: ignore[operator]
            continue
        buffer = buffers.get(node)
        if buffer is None:
            buffer = buffers[node] = [None] * node.output_count
            if node not in counts:
                if queue is None:
                    heappush(ready, (-node.sequence, arrival(), node))
                else:
                    queue.push(node)
        buffer[index] = gradient if buffer[index] is None else added(buffer[index], gradient)
    roots = ()
    gradient = buffer = None
    following: Node | None = None  # ready as well, but not in the heap: a chain never needs it
    while ready or following is not None:
        if queue is not None:
            node = queue.pop()
        elif following is None:
            node = heappop(ready)[2]
        elif ready:
            node = heappushpop(ready, (-following.sequence, arrival(), following))[2]
        else:
            node = following
        following = None
        if observer is not None:
            observer.evaluates(node)
        gradients = buffers.pop(node, None) or [None] * node.output_count
        extras = node.extras
        if extras is not None and (extras.tensor_hooks or extras.retained):
            _tensor_hooks(node, gradients)
        if wanted is not None and not (accumulate and type(node) is AccumulateGrad and node in wanted):
            for index, position in wanted.get(node, ()):
                captured[position] = gradients[index]  # type: ignore[index]
            if node not in leading:  # type: ignore[operator]
                for target in _skip(node, counts, wanted, leading):
                    if queue is None:
                        heappush(ready, (-target.sequence, arrival(), target))
                    else:
                        queue.push(target)
                continue
        if extras is not None and extras.pre_hooks:
            _pre_hooks(node, gradients)
        if type(node) is AccumulateGrad:
            if gradients[0] is not None:
                if observer is None:
                    _accumulate(node, gradients)
                else:
                    observer.applies(node, _accumulate, node, gradients)
            continue
        if gradients[0] is None and not node.runs_without and all(g is None for g in gradients):
            results: Any = (None,) * len(node.edges)
        else:
            results = (
                node.apply(gradients) if observer is None and not anomaly.enabled else _apply_watched(node, gradients, observer)
            )
        if node.extras is not None and node.extras.post_hooks:
            results = _post_hooks(
                node, results, tuple(gradients) if extras is not None and extras.post_hooks else (None,) * len(gradients)
            )  # registered meanwhile
        if not keep_graph:
            versions = node.versions
            if versions and versions.count(None) != len(versions):  # what saved no tensor may run again
                node.saved = None
        del gradients
        edges, layouts = node.edges, node.inputs
        if len(results) != len(edges):
            if results.__class__ is Through:
                edges, layouts, results = results.edges, (None,) * len(results.edges), results.gradients
            else:
                results = _trim(node, results)
        results = list(results)
        for position, (target, index) in enumerate(edges):
            if target is None:
                continue
            layout = layouts[position]
            if results[position] is not None:
                own = results[position]._layout
                if (
                    own is not layout
                    and layout is not None
                    and (own.shape != layout.shape or own.dtype is not layout.dtype or own.device is not layout.device)
                ):
                    results[position] = _conform(node, position, results[position], layout)
                buffer = buffers.get(target)
                if buffer is None:
                    if target.output_count == 1:
                        buffers[target] = [results[position]]
                    else:
                        buffer = buffers[target] = [None] * target.output_count
                        buffer[index] = results[position]
                elif buffer[index] is None:
                    buffer[index] = results[position]
                else:
                    _add_into(buffer, index, results[position])
                results[position] = None  # so that buffers alone hold what is on its way
            left = counts[target] - 1
            counts[target] = left
            if left == 0:
                if wanted is not None and target not in leading and target not in wanted:  # type: ignore[operator]
                    buffers.pop(target, None)
                    for reached in _skip(target, counts, wanted, leading):
                        if queue is None:
                            heappush(ready, (-reached.sequence, arrival(), reached))
                        else:
                            queue.push(reached)
                elif queue is not None:
                    queue.push(target)
                elif type(target) is AccumulateGrad and target.extras is None:  # nothing ready comes before it
                    arrived = buffers.pop(target, None)
                    if wanted is not None and not accumulate:
                        for _, at in wanted[target]:
                            captured[at] = arrived and arrived[0]  # type: ignore[index]
                    elif arrived is not None:
                        target.accumulate(arrived)
                    arrived = None
                elif following is None:
                    following = target
                else:
                    heappush(ready, (-target.sequence, arrival(), target))
        buffer = None


def _called(node: Node, *gradients: Any, **keywords: Any) -> Any:
    """node(gradients of its outputs...) -> the gradients of its inputs, one or a tuple; hooks and the graph behind don't run."""
    if keywords:
        raise TypeError("keyword arguments are not supported")
    if len(gradients) != node.output_count:
        raise TypeError(f"expected {node.output_count} arguments, got {len(gradients)} instead")
    for position, gradient in enumerate(gradients):
        if not (gradient is None or isinstance(gradient, tensors.Tensor)):
            raise TypeError(f"argument {position} is not a Variable")
    results = list(_trim(node, node.apply(list(gradients))))
    for position, (result, layout) in enumerate(zip(results, node.inputs)):
        if result is not None and layout is not None and result._layout is not layout:
            results[position] = _conform(node, position, result, layout)
    return results[0] if len(results) == 1 else tuple(results)


Node.__call__ = _called  # type: ignore[attr-defined]


def _skip(node: Node, counts: dict[Node, int], wanted: Wanted, leading: set[Node]) -> list[Node]:
    """Count a node's edges as done without running it; what becomes ready and leads nowhere is skipped as well. The nodes
    that became ready and are to run.
    """
    reached: list[Node] = []
    stack = [node]
    while stack:
        for target, _ in stack.pop().edges:
            if target is not None:
                counts[target] -= 1
                if counts[target] == 0:
                    if target in leading or target in wanted:
                        reached.append(target)
                    else:
                        stack.append(target)
    return reached


def _add_into(buffer: list[Any], index: int, gradient: Any) -> None:
    """Add up two gradients of one output, in place if nobody but the buffer holds the first."""
    if (
        not local.grad
        and sys.getrefcount(buffer[index]) == 2
        and sys.getrefcount(buffer[index]._storage) == 2
        and not local.dispatch_modes
        and buffer[index]._layout is gradient._layout
        and gradient._layout.is_contiguous
        and gradient._layout.flavor is None
    ):
        buffer[index].add_(gradient)
    else:
        buffer[index] = added(buffer[index], gradient)


def _conform(node: Node, position: int, gradient: Any, layout: Layout) -> Any:
    """The gradient with the shape, type and device of the input it belongs to."""
    shape, own = layout.shape, gradient._layout.shape
    if own != shape:
        lead = len(own) - len(shape)
        if (gradient._layout, shape) not in _sums and (
            lead < 0 or any(size not in (1, own[lead + dim]) for dim, size in enumerate(shape))
        ):
            raise RuntimeError(
                f"Function {node.name()} returned an invalid gradient at index {position} - got "
                f"{list(own)} but expected shape compatible with {list(shape)}"
            )
        gradient = sum_to_shape(gradient, shape)
    if gradient._layout.dtype is not layout.dtype:
        if gradient._layout.dtype.is_complex and not layout.dtype.is_complex:
            gradient = gradient.real
        gradient = gradient.to(layout.dtype)
    if gradient._layout.device is not layout.device:
        raise RuntimeError(
            f"Function {node.name()} returned an invalid gradient at index {position} - expected device "
            f"{layout.device} but got {gradient._layout.device}"
        )
    return gradient


#: By the layout of a sum's tensor and the shape it gets: the dimensions that are summed over, and the layout it gets.
_sums: dict[tuple[Layout, tuple[int, ...]], tuple[Any, Layout]] = register_cache({})


def sum_to_shape(tensor: Any, shape: tuple[int, ...]) -> Any:
    """The tensor summed over the dimensions along which `shape` was broadcast to its own."""
    known = _sums.get((tensor._layout, shape))
    if known is None:
        own = tensor._layout.shape
        lead = len(own) - len(shape)
        dims = (*range(lead), *[lead + dim for dim, size in enumerate(shape) if size == 1 and own[lead + dim] != 1])
        known = dims[0] if len(dims) == 1 else dims, Layout.contiguous(shape, tensor._layout.dtype, tensor._layout.device)
        _sums[tensor._layout, shape] = known
    dims, layout = known
    if dims == ():
        return tensor
    total = tensor.sum(dims, keepdim=True)
    if len(total._layout.shape) == len(shape):
        return total
    if local.grad or active.count or total._layout.dtype is not layout.dtype or total._layout.flavor is not None:
        return total.reshape(shape)
    return tensors.tensor_from(total._storage, total._offset, layout)


def _trim(node: Node, results: Sequence[Any]) -> Sequence[Any]:
    """Surplus Nones at the end of a rule's answer are let go; any other wrong number is an error."""
    count = len(node.edges)
    if len(results) < count:
        raise RuntimeError(
            f"function {node.name()} returned an incorrect number of gradients (expected {count}, got {len(results)})"
        )
    if any(result is not None for result in results[count:]):
        raise RuntimeError(
            f"function {node.name()} returned an incorrect number of gradients (expected {count}, got {len(results)})"
        )
    return results[:count]


def _accumulate(node: AccumulateGrad, gradients: list[Any]) -> None:
    """Add to the leaf's gradient, then run what was registered for afterwards: with the leaf, then with the node."""
    extras = node.extras
    if extras is None:
        node.accumulate(gradients)
        return
    variable = node.reference()
    first = variable is not None and held_gradient(variable) is None
    node.accumulate(gradients)
    if variable is not None and variable._node is not None:
        run_post_accumulate_hooks(variable, extras)
    if extras.post_hooks:  # the first gradient is the leaf's own now
        _post_hooks(node, (), (held_gradient(variable),) if first else tuple(gradients))


# ---------------------------------------------------------------- hooks


def run_post_accumulate_hooks(leaf: Any, extras: Any) -> None:
    """Calls what was registered on a leaf for after a gradient was added to its own; `extras`: its node's."""
    for hook in list(extras.post_accumulate.values()):
        if hook(leaf) is not None:
            raise RuntimeError("Tensor post accumulate grad hooks should return None.")


def _tensor_hooks(node: Node, gradients: list[Any]) -> None:
    """Run the hooks of the node's output tensors, then hand the gradients to the tensors that retain theirs."""
    extras = node.extras
    assert extras is not None
    for index, table in list(extras.tensor_hooks.items()):
        for hook in list(table.values()):
            result = hook(gradients[index])  # None where no gradient arrived
            if result is not None:
                gradients[index] = _checked(gradients[index], result, hook)
    for index, reference in extras.retained.items():
        tensor = reference()
        if tensor is not None and gradients[index] is not None:
            held = held_gradient(tensor)
            if held is None:
                tensor._grad = gradients[index] if local.grad else gradients[index].clone()
            else:
                tensor._grad = added(held, gradients[index])


def _checked(value: Any, result: Any, hook: Callable[..., Any]) -> Any:
    """A hook's replacement for a gradient, if it may replace it."""
    if not isinstance(result, tensors.Tensor):
        raise TypeError(f"expected Variable, but hook returned '{type(result).__name__}'")
    if value is None:
        return result
    name = getattr(hook, "__name__", "<unknown>")
    if result._layout.shape != value._layout.shape:
        raise RuntimeError(f"hook '{name}' has changed the size of value")
    if result._layout.dtype is not value._layout.dtype:
        raise RuntimeError(
            f"hook '{name}' has changed the type of value (was {type_name(value._layout)} got {type_name(result._layout)})"
        )
    return result


def _pre_hooks(node: Node, gradients: list[Any]) -> None:
    for hook in list(node.extras.pre_hooks.values()):  # type: ignore[union-attr]
        replaced = hook(tuple(gradients))
        if replaced is not None:
            gradients[:] = _replacements(gradients, replaced, hook)


def _post_hooks(node: Node, results: Sequence[Any], gradients: tuple[Any, ...]) -> Sequence[Any]:
    for hook in list(node.extras.post_hooks.values()):  # type: ignore[union-attr]
        replaced = hook(tuple(results), gradients)
        if replaced is not None:
            results = _replacements(results, replaced, hook)
    return results


def _replacements(values: Sequence[Any], replaced: Any, hook: Callable[..., Any]) -> list[Any]:
    given = replaced if isinstance(replaced, (tuple, list)) else (replaced,)
    if len(given) != len(values):
        raise RuntimeError(
            f"hook '{getattr(hook, '__name__', '<unknown>')}' has returned an incorrect number of values (got "
            f"{len(given)}, but expected {len(values)})"
        )
    return [value if new is None else _checked(value, new, hook) for value, new in zip(values, given, strict=True)]


def queue_callback(callback: Callable[[], None]) -> None:
    """Call `callback()` at the end of the backward pass under way."""
    if running.run is None:
        raise RuntimeError("Final callbacks can only be installed during backward pass.")
    running.run.callbacks.append(callback)


# ---------------------------------------------------------------- anomaly mode


def _apply_watched(node: Node, gradients: list[Any], observer: Any) -> tuple[Any, ...]:
    """Apply a node so that an observer sees it, or that in anomaly mode an error, or a NaN, names the line that made it."""
    if observer is not None:
        return observer.applies(node, _apply_watched, node, gradients, None)  # type: ignore[no-any-return]
    if not anomaly.enabled:
        return node.apply(gradients)
    before, running.node = running.node, node
    try:
        results = node.apply(gradients)
    except Exception:
        _warn_of(node)
        raise
    finally:
        running.node = before
    if anomaly.check_nan:
        for position, result in enumerate(results):
            if result is not None and result._layout.dtype.category >= 2 and bool(result.ne(result).any()):
                _warn_of(node)
                raise RuntimeError(f"Function '{node.name()}' returned nan values in its {position}th output.")
    return results


def _warn_of(node: Node) -> None:
    described = node
    following = False
    while described is not None:
        lines = described.extras.traceback if described.extras is not None else None
        if following:
            words = (
                f"\n\nPrevious calculation was induced by {described.name()}. Traceback of forward call that "
                "induced the previous calculation:\n"
            )
        else:
            words = f"Error detected in {described.name()}. "
        if lines is None:
            _tell(
                words + "No forward pass information available. Enable detect anomaly during forward pass for more information."
            )
            return
        _tell(words + ("" if following else "Traceback of forward call that caused the error:\n") + "".join(lines))
        described = described.metadata.get("parent")
        following = True


def _tell(words: str) -> None:
    """Warn beside an error that is on its way: a warning that is to be an error itself is printed, and doesn't hide that one."""
    try:
        warnings.warn(words, stacklevel=5)
    except Warning as warning:
        traceback.print_exception(warning)


# ---------------------------------------------------------------- the public entrances


def _sequence(given: Any) -> tuple[Any, ...]:
    return (given,) if isinstance(given, (tensors.Tensor, GradientEdge)) else tuple(given)


def _root_of_edge(position: int, edge: Any, gradient: Any) -> Any:
    """The same for a GradientEdge, which knows the layout of the tensor that it was made from."""
    if edge.layout is not None:
        return _start(position, edge.layout, gradient)
    if not isinstance(gradient, tensors.Tensor):
        raise RuntimeError(
            "a GradientEdge that was not made by get_gradient_edge doesn't know the shape of its tensor: pass "
            f"a gradient for output {position}"
        )
    return gradient


def _root(position: int, output: Any, gradient: Any) -> Any:
    """The gradient a run starts with at one output: what was given, checked, or one."""
    if gradient is None and output._node is None:
        return None
    return _start(position, output._layout, gradient, output)


#: The gradient of an output whose calls somebody sees: torch.ones_like, set by ops.creation.factories.
ones_like: Callable[..., Any] = lambda output, memory_format: output.new_ones(output.shape)


def _start(position: int, layout: Layout, gradient: Any, output: Any = None) -> Any:
    if isinstance(gradient, tensors.Tensor) and gradient._layout is layout:
        return gradient
    if gradient is None:
        if layout.numel != 1:
            raise RuntimeError("grad can be implicitly created only for scalar outputs")
        if not layout.dtype.is_floating_point:
            raise RuntimeError(f"grad can be implicitly created only for real scalar outputs but got {layout.dtype}")
        if (
            (active.count or layout.flavor is not None)
            and output is not None
            and (local.dispatch_modes or dispatching(type(output)))
        ) or (observed.count and output is not None):
            return ones_like(output, memory_format=preserve_format)
        one = tensors.empty_layout(layout.dense())
        one.fill_(1)
        return one
    if not isinstance(gradient, tensors.Tensor):
        raise TypeError(f"gradients can be either Tensors or None, but got {type(gradient).__name__}")
    own = gradient._layout
    if own.shape != layout.shape:
        raise RuntimeError(
            f"Mismatch in shape: grad_output[{position}] has a shape of {own.shape} and "
            f"output[{position}] has a shape of {layout.shape}."
        )
    if own.dtype.is_complex != layout.dtype.is_complex:
        raise RuntimeError(
            "For complex Tensors, both grad_output and output are required to have the same dtype. "
            f"Mismatch in dtype: grad_output[{position}] has a dtype of {own.dtype} and "
            f"output[{position}] has a dtype of {layout.dtype}."
        )
    if own.device is not layout.device:
        raise RuntimeError(f"invalid gradient at index {position} - expected device {layout.device} but got {own.device}")
    return gradient if own.dtype is layout.dtype else gradient.to(layout.dtype)


def _roots(outputs: Sequence[Any], gradients: Sequence[Any]) -> list[Root]:
    if len(outputs) > len(gradients):
        _refuse_others(outputs)
        raise RuntimeError(f"got {len(outputs)} tensors and {len(gradients)} gradients")
    try:
        starts = [
            _root_of_edge(position, *pair) if isinstance(pair[0], GradientEdge) else _root(position, *pair)
            for position, pair in enumerate(zip(outputs, gradients, strict=False))
        ]
    except AttributeError:
        _refuse_others(outputs)
        raise
    roots: list[Root] = []
    for position, output in enumerate(outputs):
        if isinstance(output, GradientEdge):
            roots.append((output.node, output.output_nr, starts[position]))
            continue
        node = current_node(output)
        if node is None:
            raise RuntimeError(f"element {position} of tensors does not require grad and does not have a grad_fn")
        roots.append((node, output._index, starts[position]))
    return roots


def _refuse_others(outputs: Sequence[Any]) -> None:
    """AssertionError unless all are tensors."""
    if not all(isinstance(output, tensors.Tensor) for output in outputs):
        raise AssertionError("Expected output to be a torch.Tensor")


def current_node(tensor: Any) -> Node | None:
    """The node behind a tensor: what a gradient for it is handed to."""
    node: Node | None = tensor._node
    return node


def backward(
    outputs: Any, gradients: Any = None, retain_graph: bool | None = None, create_graph: bool = False, inputs: Any = None
) -> None:
    """Add the gradients of `outputs`, weighted with `gradients`, to the leaves' `grad`; only to `inputs` if given."""
    observing.settle()
    outputs = _sequence(outputs)
    gradients = (None,) * len(outputs) if gradients is None else _sequence(gradients)
    roots = _roots(outputs, gradients)
    keep = create_graph if retain_graph is None else retain_graph
    if create_graph:
        warn_once(
            "Using backward() with create_graph=True will create a reference cycle between the parameter and its "
            "gradient which can cause a memory leak. We recommend using autograd.grad when creating the graph to avoid "
            "this. If you have to use this function, make sure to reset the .grad fields of your parameters to None "
            "after use to break the cycle and avoid the leak."
        )
    if inputs is None:
        del gradients
        execute(roots, keep, create_graph)
        return
    inputs = _sequence(inputs)
    if not inputs:
        raise RuntimeError("`inputs` argument to `backward()` cannot be empty.")
    captured: list[Any] = [None] * len(inputs)
    execute(roots, keep, create_graph, _targets(inputs, "element {} of inputs does not require grad"), captured, True)
    before, local.grad = local.grad, create_graph
    try:
        for tensor, gradient in zip(inputs, captured, strict=True):  # of those that are no leaves
            if gradient is not None and isinstance(tensor, tensors.Tensor):
                held = held_gradient(tensor)
                tensor._grad = gradient.clone() if held is None else added(held, gradient)
    finally:
        local.grad = before


def _targets(inputs: Sequence[Any], complaint: str) -> Wanted:
    wanted: Wanted = {}
    for position, tensor in enumerate(inputs):
        if isinstance(tensor, tensors.Tensor):
            node, index = current_node(tensor), tensor._index
        elif isinstance(tensor, GradientEdge):
            node, index = tensor.node, tensor.output_nr
        else:
            raise RuntimeError(f"all inputs have to be Tensors or GradientEdges, but got {type(tensor).__name__}")
        if node is None:
            raise RuntimeError(complaint.format(position))
        wanted.setdefault(node, []).append((index, position))
    return wanted


def grad(
    outputs: Any,
    inputs: Any,
    grad_outputs: Any = None,
    retain_graph: bool | None = None,
    create_graph: bool = False,
    only_inputs: bool = True,
    allow_unused: bool | None = None,
    materialize_grads: bool = False,
) -> tuple[Any, ...]:
    """The gradients of `outputs`, weighted with `grad_outputs`, with respect to `inputs`; no `grad` is touched."""
    observing.settle()
    if materialize_grads and allow_unused is False:
        raise ValueError(
            "Expected allow_unused to be True or not passed when materialize_grads=True, but got: allow_unused=False."
        )
    allow_unused = materialize_grads if allow_unused is None else allow_unused
    outputs = _sequence(outputs)
    inputs = _sequence(inputs)
    for tensor in (*outputs, *inputs):
        flavor = tensor._layout.flavor if isinstance(tensor, tensors.Tensor) else None
        if flavor is not None and hasattr(flavor, "gradients_of"):  # of a transform
            return flavor.gradients_of(outputs, inputs, grad_outputs, create_graph, allow_unused, materialize_grads)
    if not inputs:
        raise RuntimeError("`inputs` argument to `grad()` cannot be empty.")
    if not only_inputs:
        warn(
            "only_inputs argument is deprecated and is ignored now (defaults to True). To accumulate gradient "
            "for other parts of the graph, please use torch.autograd.backward.",
            FutureWarning,
        )
    gradients = (None,) * len(outputs) if grad_outputs is None else _sequence(grad_outputs)
    roots = _roots(outputs, gradients)
    keep = create_graph if retain_graph is None else retain_graph
    captured: list[Any] = [None] * len(inputs)
    wanted = _targets(inputs, "One of the differentiated Tensors does not require grad")
    execute(roots, keep, create_graph, wanted, captured)
    for position, gradient in enumerate(captured):
        if gradient is None:
            if not allow_unused:
                raise RuntimeError(
                    f"The differentiated Tensor at index {position} appears to not have been used in the graph. "
                    "Set allow_unused=True if this is the desired behavior."
                )
            if materialize_grads:
                if not isinstance(inputs[position], tensors.Tensor):
                    raise RuntimeError("materialize_grads cannot be used when the given input is a GradientEdge")
                zeros = tensors.empty_layout(inputs[position]._layout.dense())
                zeros.zero_()
                captured[position] = zeros.requires_grad_() if create_graph else zeros
    return tuple(captured)
