"""Operations of a group of the engine by which ranks get each others' tensors: broadcast, gather, all_gather, scatter.

Stands on calls; the group is made of it.
"""

from __future__ import annotations

from typing import Any

import flambeau as torch
from flambeau.distributed import buffers
from flambeau.distributed.buffers import buffer, readable, writable
from flambeau.distributed.engine.calls import Calls
from flambeau.distributed.engine.lists import Tensors, inner, listed, places_of, ranked, rooted, shape, together
from flambeau.distributed.group_options import BroadcastOptions, GatherOptions, ScatterOptions
from flambeau.distributed.mpi.channel import DIRECT
from flambeau.distributed.work import Work


class Copies(Calls):
    """broadcast, all_gather, gather and scatter, in their forms."""

    def broadcast(self, tensors: Any, root: Any = None) -> Work:
        """All tensors become the root's. root: a rank, or BroadcastOptions."""
        (tensor,), opts = listed(tensors), root
        if not hasattr(opts, "rootRank"):
            opts = BroadcastOptions()
            opts.rootRank = root or 0
        self._rank_of("broadcast", opts.rootRank)
        begun = self._begin("broadcast", [tensor], rooted(opts))
        made, finish = writable(tensor)
        operation = self._channel.broadcast(
            begun[0], (tensor, made), None if self._rank == opts.rootRank else finish, buffer(made), opts.rootRank
        )
        return self._work(begun, operation, [tensor], opts)

    def allgather(self, outputs: Any, inputs: Any, opts: Any = None) -> Work:
        """outputs[0][r] becomes inputs[0] of rank r."""
        (given,), made = listed(inputs), inner(outputs)
        if len(made) != self.size():
            raise RuntimeError(
                f"ProcessGroupGloo::allgather: invalid output tensor list at index 0 (expected length "
                f"{self.size()}, got {len(made)})"
            )
        self._same_sizes("allgather", given, made)
        begun = self._begin("all_gather", [given, *made])
        given = readable(given)
        if buffer(given)[1] >= DIRECT:
            places, finish = places_of(made)
            every = [(rank, buffer(given)) for rank in range(self.size())]
            operation = self._channel.exchange(begun[0], (given, made, places), finish, every, ranked(places))
        else:
            flat = torch.empty(self.size() * given.numel(), dtype=given.dtype)
            operation = self._channel.all_gather(
                begun[0], (given, flat), buffers.divided(flat, made), buffer(given), buffer(flat)
            )
        return self._work(begun, operation, made, opts)

    def _allgather_base(self, output: Any, input: Any, opts: Any = None) -> Work:
        if output.dtype is not input.dtype:
            raise TypeError(f"output tensor must have the same type as input tensor ({output.dtype} and {input.dtype})")
        if output.numel() != input.numel() * self.size():
            raise RuntimeError(
                "output tensor size must be equal to world_size times input tensor size "
                f"(output {shape(output)}, input {shape(input)}, world size {self.size()})"
            )
        begun = self._begin("all_gather_into_tensor", [output, input])
        given = readable(input)
        made, finish = writable(output)
        operation = self._channel.all_gather(begun[0], (given, output, made), finish, buffer(given), buffer(made))
        return self._work(begun, operation, [output], opts)

    all_gather_single = _allgather_base

    def allgather_coalesced(self, output_lists: Any, input_list: Tensors, opts: Any = None) -> Work:
        """allgather for several tensors: output_lists[r][i] becomes input_list[i] of rank r."""
        return together(
            [self.allgather([[outputs[i] for outputs in output_lists]], [each], opts) for i, each in enumerate(input_list)]
        )

    def allgather_into_tensor_coalesced(self, outputs: Tensors, inputs: Tensors, opts: Any = None) -> Work:
        """_allgather_base for several tensors."""
        return together([self._allgather_base(*pair, opts) for pair in zip(outputs, inputs)])

    all_gather_single_coalesced = allgather_into_tensor_coalesced

    def gather(self, outputs: Any, inputs: Any, root: Any = None) -> Work:
        """The root's outputs[0][r] becomes inputs[0] of rank r. root: a rank, or GatherOptions."""
        (given,), opts = listed(inputs), _rooted_options(GatherOptions, root)
        self._rank_of("gather", opts.rootRank)
        made: list[Any] = []
        if self._rank == opts.rootRank:
            made = inner(outputs)
            if len(made) != self.size():
                raise ValueError(
                    f"ProcessGroupGloo::gather: Incorrect output list size {len(made)}. Output list size should be "
                    f"{self.size()}, same as size of the process group."
                )
            self._same_sizes("gather", given, made)
        begun = self._begin("gather", [given], rooted(opts))
        given = readable(given)
        if buffer(given)[1] >= DIRECT:
            places, finish = places_of(made)
            operation = self._channel.exchange(
                begun[0], (given, made, places), finish, [(opts.rootRank, buffer(given))], ranked(places)
            )
        else:
            flat = torch.empty(self.size() * given.numel(), dtype=given.dtype) if made else None
            operation = self._channel.gather(
                begun[0],
                (given, flat),
                None if flat is None else buffers.divided(flat, made),
                buffer(given),
                None if flat is None else buffer(flat),
                opts.rootRank,
            )
        return self._work(begun, operation, made, opts)

    def scatter(self, outputs: Any, inputs: Any, root: Any = None) -> Work:
        """outputs[0] becomes inputs[0][rank] of the root. root: a rank, or ScatterOptions."""
        (output,), opts = listed(outputs), _rooted_options(ScatterOptions, root)
        self._rank_of("scatter", opts.rootRank)
        given: list[Any] = []
        if self._rank == opts.rootRank:
            given = inner(inputs)
            if len(given) != self.size():
                raise ValueError(
                    f"ProcessGroupGloo::scatter: Incorrect input list size {len(given)}. Input list size should be "
                    f"{self.size()}, same as size of the process group."
                )
            self._same_sizes("scatter", output, given)
        begun = self._begin("scatter", [output], rooted(opts))
        made, finish = writable(output)
        if buffer(made)[1] >= DIRECT:
            given = [readable(each) for each in given]
            operation = self._channel.exchange(
                begun[0], (output, made, given), finish, ranked(given), [(opts.rootRank, buffer(made))]
            )
        else:
            flat = buffers.joined(given) if given else None
            operation = self._channel.scatter(
                begun[0], (output, made, flat), finish, buffer(made), None if flat is None else buffer(flat), opts.rootRank
            )
        return self._work(begun, operation, [output], opts)


def _rooted_options(kind: Any, root: Any) -> Any:
    """The options of a call that were given, or those of a root that was given by its rank (None: 0)."""
    if hasattr(root, "rootRank"):
        return root
    made = kind()
    made.rootRank = root or 0
    return made
