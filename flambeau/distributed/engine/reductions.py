"""The reductions of a group of the engine: to all ranks, to one, and to each its part.

Stands on calls and reduce_ops; the group is made of it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from flambeau.distributed import buffers, reduce_ops
from flambeau.distributed.buffers import buffer, readable, writable
from flambeau.distributed.engine.calls import Calls
from flambeau.distributed.engine.lists import Tensors, combined, inner, listed, options_of, rooted, shape, together
from flambeau.distributed.group_options import AllreduceOptions, ReduceOptions, ReduceScatterOptions
from flambeau.distributed.reduce_ops import ReduceOp
from flambeau.distributed.work import Work


class Reductions(Calls):
    """all_reduce, reduce and reduce_scatter, in their forms."""

    def allreduce(self, tensors: Any, opts: Any = None) -> Work:
        """Each tensor becomes its reduction over all ranks. opts: AllreduceOptions, or a ReduceOp."""
        tensors, opts = listed(tensors), options_of(AllreduceOptions, opts)
        return together([self._allreduce(tensor, opts) for tensor in tensors])

    def _allreduce(self, tensor: Any, opts: Any) -> Work:
        op = opts.reduceOp
        kind = reduce_ops.combination_of(op, tensor.dtype)
        begun = self._begin("all_reduce", [tensor], combined(op))
        made, finish = writable(tensor)
        if reduce_ops.kind_of(op) == ReduceOp.PREMUL_SUM:
            made.copy_(reduce_ops.before(op, made))
        after = None if reduce_ops.kind_of(op) != ReduceOp.AVG else lambda: reduce_ops.after(op, made, self.size())
        operation = self._channel.all_reduce(
            begun[0], (tensor, made), buffers.both(after, finish), buffer(made), kind, made.dtype
        )
        return self._work(begun, operation, [tensor], opts)

    def allreduce_coalesced(self, tensors: Tensors, opts: Any = None) -> Work:
        """The same for several tensors of one dtype at once."""
        return self.allreduce(tensors, opts)

    def reduce(self, tensors: Any, root: Any = None, op: Any = ReduceOp.SUM) -> Work:
        """The root's tensor becomes the reduction over all ranks. root: a rank, or ReduceOptions."""
        (tensor,), opts = listed(tensors), root
        if not hasattr(opts, "rootRank"):
            opts = ReduceOptions()
            opts.rootRank, opts.reduceOp = root or 0, op
        self._rank_of("reduce", opts.rootRank)
        kind = reduce_ops.combination_of(opts.reduceOp, tensor.dtype)
        begun = self._begin("reduce", [tensor], rooted(opts, opts.reduceOp))
        made, finish = writable(tensor)
        given = reduce_ops.before(opts.reduceOp, made)
        if self._rank == opts.rootRank:
            if given is not made:
                made.copy_(given)
            finish = buffers.both(lambda: reduce_ops.after(opts.reduceOp, made, self.size()), finish)
        else:  # whose tensor stays as it is
            made, finish = given.clone() if given.data_ptr() == tensor.data_ptr() else given, None
        operation = self._channel.all_reduce(begun[0], (tensor, made), finish, buffer(made), kind, made.dtype)
        return self._work(begun, operation, [tensor], opts)

    def reduce_scatter(self, outputs: Any, inputs: Any, opts: Any = None) -> Work:
        """outputs[0] becomes the reduction of inputs[0][rank] over all ranks."""
        (output,), opts = listed(outputs), options_of(ReduceScatterOptions, opts)
        given = inner(inputs)
        if len(given) != self.size():
            raise RuntimeError(
                f"ProcessGroupGloo::reduce_scatter: invalid input tensor list (expected length {self.size()}, got {len(given)})"
            )
        if given[self._rank].numel() != output.numel():
            raise RuntimeError(
                "invalid tensor size: the output and the input of this rank differ in size "
                f"({shape(output)} and {shape(given[self._rank])})"
            )
        begun = self._begin("reduce_scatter", given, combined(opts.reduceOp))
        return self._reduce_scattered(begun, output, buffers.joined(given), [each.numel() for each in given], opts)

    def _reduce_scatter_base(self, output: Any, input: Any, opts: Any = None) -> Work:
        opts = options_of(ReduceScatterOptions, opts)
        if input.numel() != output.numel() * self.size():
            raise RuntimeError(
                "input tensor must be the same size as output size times world size "
                f"(output {shape(output)}, input {shape(input)}, world size {self.size()})"
            )
        begun = self._begin("reduce_scatter_tensor", [output, input], combined(opts.reduceOp))
        return self._reduce_scattered(begun, output, readable(input), [output.numel()] * self.size(), opts)

    reduce_scatter_single = _reduce_scatter_base

    def _reduce_scattered(self, begun: Any, output: Any, given: Any, counts: Sequence[int], opts: Any) -> Work:
        op = opts.reduceOp
        if given.dtype is not output.dtype:
            raise TypeError(f"output tensor must have the same type as input tensor ({output.dtype} and {given.dtype})")
        kind = reduce_ops.combination_of(op, output.dtype)
        given = reduce_ops.before(op, given)
        made, finish = writable(output)
        finish = buffers.both(lambda: reduce_ops.after(op, made, self.size()), finish)
        operation = self._channel.reduce_scatter(
            begun[0], (given, output, made), finish, buffer(given), buffer(made), counts, kind, made.dtype
        )
        return self._work(begun, operation, [output], opts)

    def reduce_scatter_tensor_coalesced(self, outputs: Tensors, inputs: Tensors, opts: Any = None) -> Work:
        """_reduce_scatter_base for several tensors."""
        return together([self._reduce_scatter_base(*pair, opts) for pair in zip(outputs, inputs)])

    reduce_scatter_single_coalesced = reduce_scatter_tensor_coalesced
