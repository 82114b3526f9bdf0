"""The "fake" backend: one process that makes believe to be a rank among many, for planning memory and sharding without them.

No data moves: what would come from others is this process's own, or what was there. Stands on process_group; the module
torch.testing._internal.distributed.fake_pg registers it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import timedelta
from typing import Any

import flambeau as torch
from flambeau.distributed.engine.lists import inner, listed
from flambeau.distributed.process_group import ProcessGroup
from flambeau.distributed.work import Work


def _copied(pairs: Sequence[tuple[Any, Any]]) -> Work:
    """Copies from the second to the first of each pair, and their Work."""
    with torch.no_grad():
        for target, source in pairs:
            target.copy_(source)
    return Work(outputs=[target for target, _ in pairs])


def _left_as_they_are(self: ProcessGroup, tensors: Any = (), *arguments: Any, **named: Any) -> Work:
    """What others would send doesn't come: the tensors stay as they are."""
    return Work(outputs=listed(tensors) if isinstance(tensors, (torch.Tensor, list, tuple)) else [])


class FakeProcessGroup(ProcessGroup):
    """A group of one process that is called rank `rank` of `size`. Every operation is over at once."""

    @classmethod
    def _create_internal(cls, rank: int, size: int, options: Any = None) -> FakeProcessGroup:
        return cls(rank, size)

    def getBackendName(self) -> str:
        return "fake"

    def set_timeout(self, timeout: timedelta) -> None:
        """Nothing takes time."""

    allreduce: Callable[..., Work] = _left_as_they_are
    allreduce_coalesced: Callable[..., Work] = _left_as_they_are
    reduce: Callable[..., Work] = _left_as_they_are
    broadcast: Callable[..., Work] = _left_as_they_are
    send: Callable[..., Work] = _left_as_they_are
    recv: Callable[..., Work] = _left_as_they_are
    recv_anysource: Callable[..., Work] = _left_as_they_are
    barrier: Callable[..., Work] = _left_as_they_are

    def reduce_scatter(self, outputs: Any, inputs: Any, opts: Any = None) -> Work:
        """outputs[0] becomes this process's inputs[0][rank]."""
        return _copied([(listed(outputs)[0], inner(inputs)[self.rank()])])

    def _reduce_scatter_base(self, output: Any, input: Any, opts: Any = None) -> Work:
        return _copied([(output, input.reshape(self.size(), *output.shape)[self.rank()])])

    def reduce_scatter_tensor_coalesced(self, outputs: Any, inputs: Any, opts: Any = None) -> Work:
        """_reduce_scatter_base of several tensors."""
        return Work(outputs=[self._reduce_scatter_base(*pair).result()[0] for pair in zip(outputs, inputs, strict=True)])

    def allgather(self, outputs: Any, inputs: Any, opts: Any = None) -> Work:
        """All of outputs[0] become inputs[0]."""
        return _copied([(each, listed(inputs)[0]) for each in inner(outputs)])

    def _allgather_base(self, output: Any, input: Any, opts: Any = None) -> Work:
        return _copied(
            [(output.reshape(self.size(), *input.shape), input)]
            if output.is_contiguous()
            else [(part, input) for part in output.chunk(self.size())]
        )

    def allgather_coalesced(self, output_lists: Any, inputs: Any, opts: Any = None) -> Work:
        """Each of output_lists becomes the inputs."""
        return _copied([pair for outputs in output_lists for pair in zip(outputs, inputs, strict=True)])

    def allgather_into_tensor_coalesced(self, outputs: Any, inputs: Any, opts: Any = None) -> Work:
        """_allgather_base of several tensors."""
        return Work(outputs=[self._allgather_base(*pair).result()[0] for pair in zip(outputs, inputs, strict=True)])

    def gather(self, outputs: Any, inputs: Any, opts: Any = None) -> Work:
        """At the root all of outputs[0] become inputs[0]."""
        return _copied([(each, listed(inputs)[0]) for each in inner(outputs)])

    def scatter(self, outputs: Any, inputs: Any, opts: Any = None) -> Work:
        """At the root outputs[0] becomes inputs[0][rank]; elsewhere it stays."""
        given = inner(inputs)
        return _copied([(listed(outputs)[0], given[self.rank()])] if given else [])

    def alltoall_base(
        self, output: Any, input: Any, output_split_sizes: Any = None, input_split_sizes: Any = None, opts: Any = None
    ) -> Work:
        """The pieces for others are taken for theirs; where sizes differ, as much as both have."""
        rows = min(output.shape[0], input.shape[0]) if output.dim() and input.dim() else None
        return _copied([(output[:rows], input[:rows]) if rows is not None else (output, input)])

    def alltoall(self, outputs: Any, inputs: Any, opts: Any = None) -> Work:
        """Each output becomes the input beside it, where they are of one shape."""
        return _copied([pair for pair in zip(outputs, inputs, strict=True) if pair[0].shape == pair[1].shape])
