"""The reducer of DistributedDataParallel: averages gradients over all processes, while the backward pass goes on.

Parameters are sorted into buckets in the reverse order of their use. When the last gradient of a bucket is there, and the
buckets before it are on their way, its reduction begins; at the end of the backward pass all are waited for. All processes
reduce the same buckets in the same order, whatever order their gradients come in. Stands on gradient_buckets and
torch.distributed; distributed uses it.
"""

from __future__ import annotations

import sys
import warnings
import weakref
from collections.abc import Callable, Collection, Sequence
from typing import Any

import flambeau as torch
from flambeau.nn.parallel import sparse_gradients
from flambeau.nn.parallel.gradient_buckets import FIRST_BUCKET, Bucket, GradBucket, assigned
from flambeau.nn.parallel.optimizers_in_backward import hand_over, step_in_backward

_NOT_FINISHED = (
    "Expected to have finished reduction in the prior iteration before starting a new one. This error indicates that your module "
    "has parameters that were not used in producing loss. "
)
_HOW_TO_FIND = (
    "You can enable unused parameter detection by passing the keyword argument `find_unused_parameters=True` to "
    "`torch.nn.parallel.DistributedDataParallel`, and by \nmaking sure all `forward` function outputs participate in calculating "
    "loss. \nIf you already have done the above, then the distributed data parallel module wasn't able to locate the output "
    "tensors in the return value of your module's `forward` function. Please include the loss function and the structure of the "
    "return value of `forward` of your module when reporting this issue (e.g. list, dict, iterable)."
)
_FOUND = (
    "Since `find_unused_parameters=True` is enabled, this likely  means that not all `forward` outputs participate in computing "
    "loss. You can fix this by making sure all `forward` function outputs participate in calculating loss. "
)
_NONE_UNUSED = (
    "find_unused_parameters=True was specified in DDP constructor, but did not find any unused parameters in the forward pass. "
    "This flag results in an extra traversal of the autograd graph every iteration,  which can adversely affect performance. "
    "If your model indeed never has any unused parameters in the forward pass, consider turning this flag off. Note that this "
    "warning may be a false positive if your model has flow control causing later iterations to have unused parameters."
)


class Reducer:
    """The buckets of some parameters, and how far the reduction of each is.

    names: of the parameters, for errors. bucket_bytes: of a full bucket. divide_by: processes among which gradients are averaged
    (a number that `join` changes). sparse: indices of parameters whose gradients are sparse.
    """

    def __init__(
        self,
        parameters: Sequence[Any],
        names: Sequence[str],
        group: Any,
        bucket_bytes: Sequence[int],
        find_unused: bool,
        as_views: bool,
        static: bool,
        sparse: Collection[int] = (),
    ) -> None:
        self.parameters, self.names, self.group = list(parameters), list(names), group
        self.limits, self.sparse = list(bucket_bytes), frozenset(sparse)
        self.find_unused, self.as_views, self.static = find_unused, as_views, static
        self.divide_by = group.size()
        self.hook: tuple[Any, Callable[..., Any]] | None = None
        self.sync = True  # whether this iteration's gradients are reduced
        self.iteration = 0
        self._order: list[int] = []  # in which gradients came the first time
        self.order_known = find_unused
        self._fired: dict[int, int] = {}  # how often each gradient came in this backward pass
        self._expected: dict[int, int] | None = None  # the same of the first pass of a static graph
        self._prepared = self._running = False
        self._ready: set[int] = set()
        self._used: set[int] = set()
        self.absent: set[int] = set()  # parameters that this pass doesn't use
        self._ever_used: set[int] = set()  # by any process; of a static graph those of its first pass
        self._next = 0
        # All are together, as in PyTorch, until the order is known in which gradients come, where that is asked for.
        limits = self.limits if find_unused and not static else [sys.maxsize]
        self._make_buckets(assigned(self.parameters, range(len(self.parameters) - 1, -1, -1), limits, self.sparse))
        self.stepping = hand_over(self.parameters)  # whose own optimizers run when all gradients are reduced
        self._warned = False
        own = weakref.ref(self)
        self._handles = [
            parameter.register_post_accumulate_grad_hook(_told(own, index)) for index, parameter in enumerate(self.parameters)
        ]

    def _make_buckets(self, indices: Sequence[Sequence[int]]) -> None:
        self.buckets = [Bucket(each, self.parameters, each[0] in self.sparse) for each in indices]
        self._place = {index: (bucket, position) for bucket in self.buckets for position, index in enumerate(bucket.indices)}

    def remove(self) -> None:
        """Take the hooks off the parameters."""
        for handle in self._handles:
            handle.remove()

    # ---------------------------------------------------------------------------------------------- a pass begins

    def prepare(self, outputs: Sequence[Any]) -> None:
        """Before a backward pass whose gradients are reduced. outputs: the forward pass's, in which parameters are looked for.

        Raises RuntimeError if the last pass did not reduce all gradients.
        """
        if self._running or (self._prepared and self._ready and len(self._ready) < len(self.parameters)):
            raise RuntimeError(self._unfinished())
        if not self.order_known and self.iteration:
            self._rebuild()
        self._prepared, self._running = True, False
        self._ready, self._used, self._fired, self._next = set(), set(), {}, 0
        for bucket in self.buckets:
            bucket.waiting, bucket.future = len(bucket.indices), None
        self.absent = set()
        if self.static and self._expected is not None:
            self.absent = {index for index in range(len(self.parameters)) if index not in self._expected}
        elif self.find_unused and not self.static:
            seen = _reached(outputs)
            self.absent = {index for index, each in enumerate(self.parameters) if _leaf_node(each) not in seen}

    def _unfinished(self) -> str:
        missing = [index for index in range(len(self.parameters)) if index not in self._ready]
        text = _NOT_FINISHED + (_FOUND if self.find_unused else "") + _HOW_TO_FIND
        text += (
            f"\nParameter indices which did not receive grad for rank {self.group.rank()}: {' '.join(map(str, missing))}"
            "\n In addition, you can set the environment variable TORCH_DISTRIBUTED_DEBUG to either INFO or DETAIL to "
            "print out information about which particular parameters did not receive gradient on this rank as part of this "
            "error"
        )
        if torch.distributed.get_debug_level() != torch.distributed.DebugLevel.OFF:
            text += f"\nParameters which did not receive grad for rank {self.group.rank()}: " + ", ".join(
                self.names[index] for index in missing
            )
        return text

    def _rebuild(self) -> None:
        """Sort the parameters into buckets by the order in which rank 0's gradients came."""
        self.order_known = True
        rest = [index for index in range(len(self.parameters) - 1, -1, -1) if index not in set(self._order)]
        order = torch.tensor(self._order + rest)
        self.group.broadcast([order], 0).wait()
        self._make_buckets(assigned(self.parameters, order.tolist(), self.limits, self.sparse))

    # ---------------------------------------------------------------------------------------------- gradients come

    def came(self, index: int) -> None:
        """The gradient of a parameter is there."""
        if not self.sync or not self._prepared:
            return
        if not self._running:
            self._running = True
            torch.autograd.Variable._execution_engine.queue_callback(self._finish)
            if not self._first_static():
                for absent in sorted(self.absent):
                    self._mark(absent, used=False)
        self._fired[index] = self._fired.get(index, 0) + 1
        if not self.order_known and self.iteration == 0 and self._fired[index] == 1:
            self._order.append(index)
        if self._first_static():
            return
        if self._expected is not None and self._fired[index] < self._expected.get(index, 1):
            return
        if index in self.absent:
            return  # found to be unused, and used by something else than the outputs: it was reduced without this
        if index in self._ready:
            raise RuntimeError(
                "Expected to mark a variable ready only once. This error is caused by one of the following reasons: 1) Use of a "
                "module parameter outside the `forward` function. Please make sure model parameters are not shared across "
                "multiple concurrent forward-backward passes. or try to use _set_static_graph() as a workaround if this module "
                "graph does not change during training loop.2) Reused parameters in multiple reentrant backward passes. For "
                "example, if you use multiple `checkpoint` functions to wrap the same part of your model, it would result in the "
                "same set of parameters been used by different reentrant backward passes multiple times, and hence marking a "
                "variable ready multiple times. DDP does not support such use cases in default. You can try to use "
                f"_set_static_graph() as a workaround if your module graph does not change over iterations.\nParameter at index "
                f"{index} with name {self.names[index]} has been marked as ready twice."
            )
        self._mark(index, used=True)

    def _first_static(self) -> bool:
        """Whether this is the pass that finds out what a static graph uses: its gradients are reduced at its end."""
        return self.static and self._expected is None

    def _mark(self, index: int, used: bool) -> None:
        """Put a gradient into its bucket; begin what can begin."""
        self._ready.add(index)
        bucket, position = self._place[index]
        view, gradient = bucket.views[position], self.parameters[index].grad
        with torch.no_grad():
            if bucket.sparse:
                self._take_sparse(bucket, gradient)
            elif gradient is None:
                view.zero_()
            elif gradient.is_sparse:
                raise RuntimeError(
                    f"DistributedDataParallel: the gradient of {self.names[index]} is sparse, which is known "
                    "before only of torch.nn.Embedding and EmbeddingBag; use these, or make it dense"
                )
            elif gradient.data_ptr() == view.data_ptr() and gradient.stride() == view.stride():
                self._divide(view)
            elif self.hook is None:
                torch.mul(gradient.detach(), 1.0 / self.divide_by, out=view)
            else:
                view.copy_(gradient)
        if used:
            self._used.add(index)
        bucket.waiting -= 1
        while self._next < len(self.buckets) and self.buckets[self._next].waiting == 0:
            self._begin(self._next)
            self._next += 1
        for each in self.buckets[: self._next]:
            if each.future is not None and hasattr(each.future, "is_completed"):
                each.future.is_completed()  # drives it on

    def _take_sparse(self, bucket: Bucket, gradient: Any) -> None:
        if gradient is not None and not gradient.is_sparse:
            raise RuntimeError("Expected variable to have sparse gradient.")
        flat = sparse_gradients.none(bucket.parameters[0]) if gradient is None else gradient.detach()
        bucket.flat = flat if self.hook is not None else flat / self.divide_by

    def _divide(self, view: Any) -> None:
        if self.hook is None:
            view.mul_(1.0 / self.divide_by)

    def _begin(self, number: int) -> None:
        bucket = self.buckets[number]
        if self.hook is None and bucket.sparse:
            bucket.future = None  # reduced at the end, since its size isn't known before
        elif self.hook is None:
            bucket.future = torch.distributed.all_reduce(bucket.flat, group=self.group, async_op=True)
        else:
            state, hook = self.hook
            bucket.future = hook(state, GradBucket(bucket, number, number == len(self.buckets) - 1))

    # ---------------------------------------------------------------------------------------------- a pass ends

    def _finish(self) -> None:
        """At the end of the backward pass: wait for all buckets, and give the parameters their gradients."""
        if self._first_static():
            self._expected = dict(self._fired)
            self.absent = {index for index in range(len(self.parameters)) if index not in self._fired}
            for index in range(len(self.parameters)):
                self._mark(index, used=index not in self.absent)
        if self.find_unused and not self.static:
            for index in range(len(self.parameters)):  # of outputs that took no part in the loss
                if index not in self._ready:
                    self._mark(index, used=False)
        if len(self._ready) < len(self.parameters):
            self._running = False
            return  # the next forward pass says which are missing: the program may not make one
        used = self._used_anywhere()
        with torch.no_grad():
            for bucket in self.buckets:
                self._finish_bucket(bucket, used)
        for parameter in self.stepping:
            if parameter.grad is not None:
                step_in_backward(parameter)
        self._running = self._prepared = False
        self.iteration += 1
        self._warn_of_search()

    def _warn_of_search(self) -> None:
        """Once: looking for unused parameters costs time where there are none."""
        if self.find_unused and not self.static and not self._warned and self.iteration > 1 and not self.absent:
            self._warned = True
            warnings.warn(_NONE_UNUSED, stacklevel=2)

    def _used_anywhere(self) -> set[int]:
        """The parameters that some process has used: others keep the gradients they had."""
        if self.static and self.iteration:
            return self._ever_used
        if not (self.find_unused or self.static):
            return self._used
        marks = torch.zeros(len(self.parameters), dtype=torch.int32)
        marks[sorted(self._used)] = 1
        torch.distributed.all_reduce(marks, group=self.group)
        self._ever_used = set(marks.nonzero().flatten().tolist())
        return self._ever_used

    def _finish_bucket(self, bucket: Bucket, used: set[int]) -> None:
        if bucket.sparse:
            self._finish_sparse(bucket, used)
            return
        result = bucket.future.wait()
        if self.hook is not None:
            result = result[0] if isinstance(result, (list, tuple)) else result
            if result.data_ptr() != bucket.flat.data_ptr():
                bucket.flat.copy_(result.view(bucket.flat.shape))
        bucket.future = None
        for index, parameter, view in zip(bucket.indices, bucket.parameters, bucket.views):
            if index not in used:
                continue
            if self.as_views:
                if parameter.grad is not view:
                    parameter.grad = view
            elif parameter.grad is None:
                parameter.grad = view.clone()
            else:
                parameter.grad.copy_(view)

    def _finish_sparse(self, bucket: Bucket, used: set[int]) -> None:
        result = sparse_gradients.total(bucket.flat, self.group) if bucket.future is None else bucket.future.wait()
        bucket.future = None
        if bucket.indices[0] in used:
            bucket.parameters[0].grad = result[0] if isinstance(result, (list, tuple)) else result

    def shadow(self) -> None:
        """Take part in the reductions of a pass that other processes make, with gradients of zero."""
        if not self.order_known and self.iteration:
            self._rebuild()
        for number, bucket in enumerate(self.buckets):
            if bucket.sparse:
                bucket.flat = sparse_gradients.none(bucket.parameters[0])
            else:
                bucket.flat.zero_()
            self._begin(number)
        self._used = set()
        self._used_anywhere()
        for bucket in self.buckets:
            if bucket.sparse:
                self._finish_sparse(bucket, set())
                continue
            bucket.future.wait()
            bucket.future = None
        self.iteration += 1


def _told(own: weakref.ref[Reducer], index: int) -> Callable[[Any], None]:
    """A hook that tells a reducer, as long as there is one."""

    def hook(_: Any) -> None:
        reducer = own()
        if reducer is not None:
            reducer.came(index)

    return hook


def _leaf_node(parameter: Any) -> Any:
    """The graph's node that adds to a parameter's gradient."""
    return parameter._node


def _reached(outputs: Sequence[Any]) -> set[Any]:
    """The nodes of the graphs that outputs come from."""
    waiting = [output.grad_fn or output._node for output in outputs if output.requires_grad]
    seen = set(waiting)
    while waiting:
        node = waiting.pop()
        for following, _ in getattr(node, "next_functions", ()):
            if following is not None and following not in seen:
                seen.add(following)
                waiting.append(following)
    return seen


def first_limits(bucket_bytes: int) -> list[int]:
    """The sizes at which buckets are full: the first one earlier."""
    return [min(FIRST_BUCKET, bucket_bytes), bucket_bytes]
