"""Exchanges among the ranks of a group of the engine: all_to_all, and messages from one rank to another.

Stands on calls; the group is made of it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from flambeau.distributed.buffers import buffer, readable, writable
from flambeau.distributed.engine.calls import Calls
from flambeau.distributed.engine.lists import Tensors, cut, listed, places_of, ranked
from flambeau.distributed.fingerprints import Fingerprint
from flambeau.distributed.mpi.channel import DIRECT
from flambeau.distributed.work import Work


class Exchanges(Calls):
    """all_to_all in its forms, send and recv."""

    def alltoall_base(
        self, output: Any, input: Any, output_split_sizes: Sequence[int], input_split_sizes: Sequence[int], opts: Any = None
    ) -> Work:
        """Pieces of `input` along its first dimension go to the ranks, and theirs come into `output`; equal ones where no sizes
        are given.
        """
        if output.dtype is not input.dtype:
            raise RuntimeError(f"Expected tensors to have the same dtype, not {output.dtype} and {input.dtype}")
        sent = self._splits(input, input_split_sizes)
        received = self._splits(output, output_split_sizes)
        uneven = bool(input_split_sizes or output_split_sizes)
        begun = self._begin("all_to_all_single", [input], "with split sizes" if uneven else "", sized=not uneven)
        given = readable(input)
        made, finish = writable(output)
        if not uneven and sent[0] < DIRECT:
            operation = self._channel.all_to_all(begun[0], (given, output, made), finish, buffer(given), buffer(made))
        else:
            operation = self._channel.exchange(
                begun[0], (given, output, made), finish, cut(given, sent), cut(made, received), uneven
            )
        return self._work(begun, operation, [output], opts)

    all_to_all_single = alltoall_base

    def alltoall(self, outputs: Tensors, inputs: Tensors, opts: Any = None) -> Work:
        """outputs[r] becomes inputs[rank] of rank r."""
        for name, each in (("output", outputs), ("input", inputs)):
            if len(each) != self.size():
                raise RuntimeError(f"all_to_all: the {name} list has {len(each)} tensors for {self.size()} ranks")
        begun = self._begin("all_to_all", list(inputs), sized=False)
        given = [readable(each) for each in inputs]
        places, finish = places_of(outputs)
        operation = self._channel.exchange(begun[0], (given, outputs, places), finish, ranked(given), ranked(places), True)
        return self._work(begun, operation, outputs, opts)

    def _splits(self, tensor: Any, sizes: Sequence[int]) -> list[int]:
        """The bytes of a tensor's pieces."""
        rows = tensor.shape[0] if tensor.dim() else 1
        if not sizes:
            if rows % self.size():
                raise RuntimeError("Tensor's dim 0 does not divide equally across group size")
            sizes = [rows // self.size()] * self.size()
        if len(sizes) != self.size():
            raise RuntimeError("Number of tensor splits not equal to group size")
        if sum(sizes) != rows:
            raise RuntimeError("Split sizes doesn't match total dim 0 size")
        row = tensor.element_size() * (tensor.numel() // rows if rows else 0)
        return [size * row for size in sizes]

    def send(self, tensors: Any, dst: int, tag: int = 0) -> Work:
        """Send a tensor to a rank."""
        (tensor,) = listed(tensors)
        self._rank_of("send", dst)
        begun = self._message("send", tensor, f"to rank {self._ranks[dst]}")
        given = readable(tensor)
        operation = self._channel.send(str(begun[0]), (given,), buffer(given), dst, tag)
        self._world.waits.sent("send", self._ranks[dst], operation)
        return self._work(begun, operation, [tensor], None, peers=[self._ranks[dst]])

    def recv(self, tensors: Any, src: int, tag: int = 0) -> Work:
        """Receive a tensor from a rank."""
        self._rank_of("recv", src)
        return self._receive(tensors, src, tag)

    def recv_anysource(self, tensors: Any, tag: int = 0) -> Work:
        """Receive a tensor from whichever rank sends one first."""
        return self._receive(tensors, None, tag)

    def _receive(self, tensors: Any, src: int | None, tag: int) -> Work:
        (tensor,) = listed(tensors)
        begun = self._message("recv", tensor, "from any rank" if src is None else f"from rank {self._ranks[src]}")
        made, finish = writable(tensor)
        operation = self._channel.receive(str(begun[0]), (tensor, made), finish, buffer(made), src, tag)
        self._world.waits.sent("recv", -1 if src is None else self._ranks[src], operation)
        peers = [self._ranks[src]] if src is not None else [rank for rank in self._ranks if rank != self._world.rank]
        return self._work(begun, operation, [tensor], None, source=lambda rank: rank, peers=peers)

    def _message(self, name: str, tensor: Any, whom: str) -> tuple[Any, int]:
        """Messages aren't calls that all ranks make: they are not counted."""
        return Fingerprint(f"{name} {whom}", [tensor._layout]), 0
