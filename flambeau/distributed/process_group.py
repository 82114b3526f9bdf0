"""ProcessGroup: collectives and messages among some processes of a world, on their tensors.

Every method begins one operation and returns its Work. Sizes that can't be right are refused before anything is sent. Ranks
are those in the group. Stands on mpi and buffers; the functions in collectives call its methods.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from datetime import timedelta
from typing import Any

import flambeau as torch
from flambeau.base.naming import called
from flambeau.distributed import buffers, reduce_ops, watching
from flambeau.distributed.buffers import buffer, readable, writable
from flambeau.distributed.errors import DistBackendError, DistStoreError
from flambeau.distributed.fingerprints import Fingerprint, compare
from flambeau.distributed.group_options import (
    AllreduceOptions,
    BarrierOptions,
    BroadcastOptions,
    GatherOptions,
    ReduceOptions,
    ReduceScatterOptions,
    ScatterOptions,
)
from flambeau.distributed.mpi import progress
from flambeau.distributed.mpi.channel import DIRECT
from flambeau.distributed.mpi.progress import Operation
from flambeau.distributed.mpi.world import World
from flambeau.distributed.reduce_ops import ReduceOp
from flambeau.distributed.stores import Store
from flambeau.distributed.work import Work, Works

Tensors = Sequence[Any]


@called("distributed.distributed_c10d", "ProcessGroup")
class ProcessGroup:
    """Some processes of a world, and what they do together.

    ranks: their ranks in the world; store: shared by them; detail: compare every call between the processes first.
    """

    def __init__(self, world: World, ranks: Sequence[int], store: Store, timeout: timedelta, name: str, backend: str,
                 description: str = "", detail: bool = False) -> None:
        self._world, self._ranks, self._store, self._timeout = world, list(ranks), store, timeout
        self._name, self._backend, self._detail = name, backend, detail
        self.group_desc = description or "undefined"
        self.bound_device_id = None
        self._channel = world.channel(self._ranks, timeout)
        self._rank = self._ranks.index(world.rank)
        self._barriers = 0

    # ---------------------------------------------------------------------------------------------- what it is

    def rank(self) -> int:
        """This process's rank in the group."""
        return self._rank

    def size(self) -> int:
        """How many processes it has."""
        return len(self._ranks)

    def name(self) -> str:
        """The backend."""
        return self._backend

    @property
    def group_name(self) -> str:
        """The group's own name."""
        return self._name

    def _id(self) -> int:
        return id(self)

    def _get_backend_name(self) -> str:
        return self._backend

    def _get_backend(self, device: Any = None) -> ProcessGroup:
        return self

    @property
    def _device_types(self) -> list[Any]:
        return [torch.device("cpu")]

    def _set_group_name(self, name: str) -> None:
        self._name = name

    def _set_group_desc(self, description: str) -> None:
        self.group_desc = description

    def _get_sequence_number_for_group(self) -> int:
        return self._world.calls_begun(self._name)

    def get_group_store(self) -> Store:
        """The store that its processes share."""
        return self._store

    def set_timeout(self, timeout: timedelta) -> None:
        """How long an operation may take."""
        self._timeout = timeout

    def shutdown(self) -> None:
        """Give back what it holds of MPI's."""
        self._channel.close()

    abort = shutdown

    def _what(self) -> str:
        return f"group {self.group_desc if self.group_desc != 'undefined' else self._name}"

    # ---------------------------------------------------------------------------------------------- beginning, waiting

    def _begin(self, call: str, tensors: Tensors, how: str = "", timeout: timedelta | None = None) -> tuple[Fingerprint, int]:
        """Note a call, and compare it with the others' if that is wanted."""
        watching.began(call)
        fingerprint = Fingerprint(call, [tensor._layout for tensor in tensors], how)
        number = self._world.begun(self._name, fingerprint)
        if self._detail and self.size() > 1:
            given = fingerprint.encoded(number)
            own = torch.frombuffer(bytearray(given), dtype=torch.uint8)
            everyone = torch.empty(self.size(), len(given), dtype=torch.uint8)
            operation = self._channel.all_gather(call, (own, everyone), None, buffer(own), buffer(everyone))
            self._wait(operation, number, self._seconds(timeout), fingerprint)
            compare([bytes(row.tolist()) for row in everyone], self._rank)
        return fingerprint, number

    def _seconds(self, timeout: timedelta | None) -> float:
        return (timeout or self._timeout).total_seconds()

    def _wait(self, operation: Operation, number: int, seconds: float, call: Any) -> None:
        """Wait for an operation. Raises RuntimeError if it failed, if it never can end, and after the time allowed."""
        if not operation.done:
            doing = f"{call} of {self._what()}"
            try:
                progress.wait(operation, seconds, lambda _: self._world.look(self._ranks, str(doing), self._name, number))
            except TimeoutError:
                error: BaseException = DistBackendError(
                    f"Timed out waiting {round(seconds * 1000)}ms for {doing} to complete on rank {self._world.rank}: "
                    + self._world.explain_timeout(self._ranks, self._name, number, str(call)))
                self._world.broke(error)
                self._channel.fail(error, operation)
                raise error from None
            except DistBackendError as error:
                self._channel.fail(error, operation)
                raise
        if operation.error is not None:
            raise operation.error

    def _work(self, begun: tuple[Fingerprint, int], operation: Operation, outputs: Tensors, options: Any,
              source: Callable[[int], int] | None = None) -> Work:
        call, number = begun
        allowed = getattr(options, "timeout", None)

        def wait(seconds: float | None) -> None:
            self._wait(operation, number, self._seconds(allowed) if seconds is None else seconds, call)

        if getattr(options, "asyncOp", True) and not operation.done:
            self._world.watch(operation)
        return Work(operation, wait, outputs, source)

    # ---------------------------------------------------------------------------------------------- reductions

    def allreduce(self, tensors: Any, opts: Any = None) -> Work:
        """Each tensor becomes its reduction over all ranks. opts: AllreduceOptions, or a ReduceOp."""
        tensors, opts = _listed(tensors), _options(AllreduceOptions, opts)
        return _together([self._allreduce(tensor, opts) for tensor in tensors])

    def _allreduce(self, tensor: Any, opts: Any) -> Work:
        op = opts.reduceOp
        kind = reduce_ops.combination_of(op, tensor.dtype)
        begun = self._begin("all_reduce", [tensor], _combined(op))
        made, finish = writable(tensor)
        if reduce_ops.kind_of(op) == ReduceOp.PREMUL_SUM:
            made.copy_(reduce_ops.before(op, made))
        after = None if reduce_ops.kind_of(op) != ReduceOp.AVG else lambda: reduce_ops.after(op, made, self.size())
        operation = self._channel.all_reduce("all_reduce", (tensor, made), buffers.both(after, finish), buffer(made), kind,
                                             made.dtype)
        return self._work(begun, operation, [tensor], opts)

    def allreduce_coalesced(self, tensors: Tensors, opts: Any = None) -> Work:
        """The same for several tensors of one dtype at once."""
        return self.allreduce(tensors, opts)

    def reduce(self, tensors: Any, root: Any = None, op: Any = ReduceOp.SUM) -> Work:
        """The root's tensor becomes the reduction over all ranks. root: a rank, or ReduceOptions."""
        (tensor,), opts = _listed(tensors), root
        if not hasattr(opts, "rootRank"):
            opts = ReduceOptions()
            opts.rootRank, opts.reduceOp = root or 0, op
        self._rank_of("reduce", opts.rootRank)
        kind = reduce_ops.combination_of(opts.reduceOp, tensor.dtype)
        begun = self._begin("reduce", [tensor], _rooted(opts, opts.reduceOp))
        made, finish = writable(tensor)
        given = reduce_ops.before(opts.reduceOp, made)
        if self._rank == opts.rootRank:
            if given is not made:
                made.copy_(given)
            finish = buffers.both(lambda: reduce_ops.after(opts.reduceOp, made, self.size()), finish)
        else:       # whose tensor stays as it is
            made, finish = given.clone() if given.data_ptr() == tensor.data_ptr() else given, None
        operation = self._channel.all_reduce("reduce", (tensor, made), finish, buffer(made), kind, made.dtype)
        return self._work(begun, operation, [tensor], opts)

    def reduce_scatter(self, outputs: Any, inputs: Any, opts: Any = None) -> Work:
        """outputs[0] becomes the reduction of inputs[0][rank] over all ranks."""
        (output,), opts = _listed(outputs), _options(ReduceScatterOptions, opts)
        given = _inner(inputs)
        if len(given) != self.size():
            raise RuntimeError(
                f"ProcessGroupGloo::reduce_scatter: invalid input tensor list (expected length {self.size()}, got {len(given)})")
        if given[self._rank].numel() != output.numel():
            raise RuntimeError("invalid tensor size: the output and the input of this rank differ in size "
                               f"({_shape(output)} and {_shape(given[self._rank])})")
        begun = self._begin("reduce_scatter", [output, *given], _combined(opts.reduceOp))
        return self._reduce_scattered(begun, output, buffers.joined(given), [each.numel() for each in given], opts)

    def _reduce_scatter_base(self, output: Any, input: Any, opts: Any = None) -> Work:
        opts = _options(ReduceScatterOptions, opts)
        if input.numel() != output.numel() * self.size():
            raise RuntimeError(
                "input tensor must be the same size as output size times world size "
                f"(output {_shape(output)}, input {_shape(input)}, world size {self.size()})")
        begun = self._begin("reduce_scatter_tensor", [output, input], _combined(opts.reduceOp))
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
            str(begun[0]), (given, output, made), finish, buffer(given), buffer(made), counts, kind, made.dtype)
        return self._work(begun, operation, [output], opts)

    def reduce_scatter_tensor_coalesced(self, outputs: Tensors, inputs: Tensors, opts: Any = None) -> Work:
        """_reduce_scatter_base for several tensors."""
        return _together([self._reduce_scatter_base(*pair, opts) for pair in zip(outputs, inputs)])

    reduce_scatter_single_coalesced = reduce_scatter_tensor_coalesced

    # ---------------------------------------------------------------------------------------------- copies

    def broadcast(self, tensors: Any, root: Any = None) -> Work:
        """All tensors become the root's. root: a rank, or BroadcastOptions."""
        (tensor,), opts = _listed(tensors), root
        if not hasattr(opts, "rootRank"):
            opts = BroadcastOptions()
            opts.rootRank = root or 0
        self._rank_of("broadcast", opts.rootRank)
        begun = self._begin("broadcast", [tensor], _rooted(opts))
        made, finish = writable(tensor)
        operation = self._channel.broadcast("broadcast", (tensor, made), None if self._rank == opts.rootRank else finish,
                                            buffer(made), opts.rootRank)
        return self._work(begun, operation, [tensor], opts)

    def allgather(self, outputs: Any, inputs: Any, opts: Any = None) -> Work:
        """outputs[0][r] becomes inputs[0] of rank r."""
        (given,), made = _listed(inputs), _inner(outputs)
        if len(made) != self.size():
            raise RuntimeError(f"ProcessGroupGloo::allgather: invalid output tensor list at index 0 (expected length "
                               f"{self.size()}, got {len(made)})")
        self._same_sizes("allgather", given, made)
        begun = self._begin("all_gather", [given, *made])
        given = readable(given)
        if buffer(given)[1] >= DIRECT:
            places, finish = _places(made)
            every = [(rank, buffer(given)) for rank in range(self.size())]
            operation = self._channel.exchange("all_gather", (given, made, places), finish, every, _ranked(places))
        else:
            flat = torch.empty(self.size() * given.numel(), dtype=given.dtype)
            operation = self._channel.all_gather("all_gather", (given, flat), buffers.divided(flat, made), buffer(given),
                                                 buffer(flat))
        return self._work(begun, operation, made, opts)

    def _allgather_base(self, output: Any, input: Any, opts: Any = None) -> Work:
        if output.dtype is not input.dtype:
            raise TypeError(f"output tensor must have the same type as input tensor ({output.dtype} and {input.dtype})")
        if output.numel() != input.numel() * self.size():
            raise RuntimeError(
                "output tensor size must be equal to world_size times input tensor size "
                f"(output {_shape(output)}, input {_shape(input)}, world size {self.size()})")
        begun = self._begin("all_gather_into_tensor", [output, input])
        given = readable(input)
        made, finish = writable(output)
        operation = self._channel.all_gather("all_gather_into_tensor", (given, output, made), finish, buffer(given),
                                             buffer(made))
        return self._work(begun, operation, [output], opts)

    all_gather_single = _allgather_base

    def allgather_coalesced(self, output_lists: Any, input_list: Tensors, opts: Any = None) -> Work:
        """allgather for several tensors: output_lists[r][i] becomes input_list[i] of rank r."""
        return _together([self.allgather([[outputs[i] for outputs in output_lists]], [each], opts)
                          for i, each in enumerate(input_list)])

    def allgather_into_tensor_coalesced(self, outputs: Tensors, inputs: Tensors, opts: Any = None) -> Work:
        """_allgather_base for several tensors."""
        return _together([self._allgather_base(*pair, opts) for pair in zip(outputs, inputs)])

    all_gather_single_coalesced = allgather_into_tensor_coalesced

    def gather(self, outputs: Any, inputs: Any, root: Any = None) -> Work:
        """The root's outputs[0][r] becomes inputs[0] of rank r. root: a rank, or GatherOptions."""
        (given,), opts = _listed(inputs), root
        if not hasattr(opts, "rootRank"):
            opts = GatherOptions()
            opts.rootRank = root or 0
        self._rank_of("gather", opts.rootRank)
        made: list[Any] = []
        if self._rank == opts.rootRank:
            made = _inner(outputs)
            if len(made) != self.size():
                raise ValueError(f"ProcessGroupGloo::gather: Incorrect output list size {len(made)}. Output list size should be "
                                 f"{self.size()}, same as size of the process group.")
            self._same_sizes("gather", given, made)
        begun = self._begin("gather", [given], _rooted(opts))
        given = readable(given)
        if buffer(given)[1] >= DIRECT:
            places, finish = _places(made)
            operation = self._channel.exchange("gather", (given, made, places), finish, [(opts.rootRank, buffer(given))],
                                               _ranked(places))
        else:
            flat = torch.empty(self.size() * given.numel(), dtype=given.dtype) if made else None
            operation = self._channel.gather("gather", (given, flat), None if flat is None else buffers.divided(flat, made),
                                             buffer(given), None if flat is None else buffer(flat), opts.rootRank)
        return self._work(begun, operation, made, opts)

    def scatter(self, outputs: Any, inputs: Any, root: Any = None) -> Work:
        """outputs[0] becomes inputs[0][rank] of the root. root: a rank, or ScatterOptions."""
        (output,), opts = _listed(outputs), root
        if not hasattr(opts, "rootRank"):
            opts = ScatterOptions()
            opts.rootRank = root or 0
        self._rank_of("scatter", opts.rootRank)
        given: list[Any] = []
        if self._rank == opts.rootRank:
            given = _inner(inputs)
            if len(given) != self.size():
                raise ValueError(f"ProcessGroupGloo::scatter: Incorrect input list size {len(given)}. Input list size should be "
                                 f"{self.size()}, same as size of the process group.")
            self._same_sizes("scatter", output, given)
        begun = self._begin("scatter", [output], _rooted(opts))
        made, finish = writable(output)
        if buffer(made)[1] >= DIRECT:
            given = [readable(each) for each in given]
            operation = self._channel.exchange("scatter", (output, made, given), finish, _ranked(given),
                                               [(opts.rootRank, buffer(made))])
        else:
            flat = buffers.joined(given) if given else None
            operation = self._channel.scatter("scatter", (output, made, flat), finish, buffer(made),
                                              None if flat is None else buffer(flat), opts.rootRank)
        return self._work(begun, operation, [output], opts)

    def alltoall_base(self, output: Any, input: Any, output_split_sizes: Sequence[int], input_split_sizes: Sequence[int],
                      opts: Any = None) -> Work:
        """Pieces of `input` along its first dimension go to the ranks, and theirs come into `output`; equal ones where no sizes
        are given.
        """
        if output.dtype is not input.dtype:
            raise RuntimeError(f"Expected tensors to have the same dtype, not {output.dtype} and {input.dtype}")
        sent = self._splits(input, input_split_sizes)
        received = self._splits(output, output_split_sizes)
        # With splits, sizes differ between ranks by intent.
        begun = self._begin("all_to_all_single", [] if input_split_sizes or output_split_sizes else [input])
        given = readable(input)
        made, finish = writable(output)
        if not (input_split_sizes or output_split_sizes) and sent[0] < DIRECT:
            operation = self._channel.all_to_all("all_to_all_single", (given, output, made), finish, buffer(given), buffer(made))
        else:
            operation = self._channel.exchange("all_to_all_single", (given, output, made), finish, _cut(given, sent),
                                               _cut(made, received))
        return self._work(begun, operation, [output], opts)

    all_to_all_single = alltoall_base

    def alltoall(self, outputs: Tensors, inputs: Tensors, opts: Any = None) -> Work:
        """outputs[r] becomes inputs[rank] of rank r."""
        for name, each in (("output", outputs), ("input", inputs)):
            if len(each) != self.size():
                raise RuntimeError(f"all_to_all: the {name} list has {len(each)} tensors for {self.size()} ranks")
        begun = self._begin("all_to_all", [])
        given = [readable(each) for each in inputs]
        places, finish = _places(outputs)
        operation = self._channel.exchange("all_to_all", (given, outputs, places), finish, _ranked(given), _ranked(places))
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

    # ---------------------------------------------------------------------------------------------- barriers

    def barrier(self, opts: Any = None) -> Work:
        """Complete when all ranks have called it."""
        opts = _options(BarrierOptions, opts)
        begun = self._begin("barrier", [], timeout=opts.timeout)
        return self._work(begun, self._channel.barrier("barrier"), [], opts)

    def monitored_barrier(self, timeout: timedelta | None = None, wait_all_ranks: bool = False) -> None:
        """A barrier through the store. After the timeout rank 0 raises RuntimeError that names the missing rank, or all."""
        seconds = self._seconds(timeout)
        number, self._barriers = self._barriers, self._barriers + 1
        milliseconds = round(seconds * 1000)
        self._world.begun(self._name, Fingerprint("monitored_barrier", []))
        self._store.set(f"barrier/{number}/{self._rank}", b"")
        if self._rank == 0:
            end = time.monotonic() + seconds
            missing = []
            for rank in range(self.size()):
                try:
                    self._store.wait([f"barrier/{number}/{rank}"], timedelta(seconds=max(end - time.monotonic(), 0.001)))
                except DistStoreError:
                    missing.append(rank)
                    if not wait_all_ranks:
                        break
            if missing:
                who = f"Ranks {', '.join(map(str, missing))}" if wait_all_ranks else f"Rank {missing[0]}"
                error = f"[Rank 0]: {who} failed to pass monitoredBarrier in {milliseconds} ms"
                self._store.set(f"barrier/{number}/open", error)
                raise RuntimeError(error)
            self._store.set(f"barrier/{number}/open", b"")
            return
        try:
            self._store.wait([f"barrier/{number}/open"], timedelta(seconds=seconds + 5))
            error = self._store.get(f"barrier/{number}/open").decode()
        except DistStoreError:
            error = f"Rank 0 failed to pass monitoredBarrier in {milliseconds} ms"
        if error:
            raise RuntimeError(
                f"Rank {self._rank} successfully reached monitoredBarrier, but received errors while waiting for send/recv from "
                f"rank 0. Please check rank 0 logs for faulty rank. ({error})")

    # ---------------------------------------------------------------------------------------------- messages

    def send(self, tensors: Any, dst: int, tag: int = 0) -> Work:
        """Send a tensor to a rank."""
        (tensor,) = _listed(tensors)
        self._rank_of("send", dst)
        begun = self._message("send", tensor, f"to rank {self._ranks[dst]}")
        given = readable(tensor)
        return self._work(begun, self._channel.send(str(begun[0]), (given,), buffer(given), dst, tag), [tensor], None)

    def recv(self, tensors: Any, src: int, tag: int = 0) -> Work:
        """Receive a tensor from a rank."""
        self._rank_of("recv", src)
        return self._receive(tensors, src, tag)

    def recv_anysource(self, tensors: Any, tag: int = 0) -> Work:
        """Receive a tensor from whichever rank sends one first."""
        return self._receive(tensors, None, tag)

    def _receive(self, tensors: Any, src: int | None, tag: int) -> Work:
        (tensor,) = _listed(tensors)
        begun = self._message("recv", tensor, "from any rank" if src is None else f"from rank {self._ranks[src]}")
        made, finish = writable(tensor)
        operation = self._channel.receive(str(begun[0]), (tensor, made), finish, buffer(made), src, tag)
        return self._work(begun, operation, [tensor], None, source=lambda rank: rank)

    def _message(self, name: str, tensor: Any, whom: str) -> tuple[Any, int]:
        """Messages aren't calls that all ranks make: they are not counted."""
        return Fingerprint(f"{name} {whom}", [tensor._layout]), 0

    # ---------------------------------------------------------------------------------------------- checks

    def _rank_of(self, name: str, rank: int) -> None:
        if not 0 <= rank < self.size():
            kind = "root " if name not in ("send", "recv") else ""
            raise RuntimeError(f"ProcessGroupGloo::{name}: invalid {kind}rank: {rank}")

    def _same_sizes(self, name: str, given: Any, others: Tensors) -> None:
        for index, other in enumerate(others):
            if other.shape != given.shape:
                raise RuntimeError(f"ProcessGroupGloo::{name}: invalid tensor size at index {index} (expected {_shape(given)}, "
                                   f"got {_shape(other)})")
            if other.dtype is not given.dtype:
                raise RuntimeError(f"ProcessGroupGloo::{name}: invalid tensor type at index {index} (expected {given.dtype}, "
                                   f"got {other.dtype})")


def _combined(op: Any) -> str:
    """A reduction, unless it is the usual one."""
    kind = reduce_ops.kind_of(op)
    return "" if kind == ReduceOp.SUM else kind.name


def _rooted(options: Any, op: Any = ReduceOp.SUM) -> str:
    """A root, and a reduction."""
    return ", ".join(filter(None, (f"root {options.rootRank}", _combined(op))))


def _shape(tensor: Any) -> str:
    return f"({', '.join(map(str, tensor.shape))})"


def _ranked(tensors: Tensors) -> list[tuple[int, buffers.Buffer]]:
    """The memory of a tensor for each rank."""
    return [(rank, buffer(tensor)) for rank, tensor in enumerate(tensors)]


def _places(tensors: Tensors) -> tuple[list[Any], buffers.Finish]:
    """Contiguous tensors in which results may be made, and what copies them to `tensors` then."""
    pairs = [writable(tensor) for tensor in tensors]
    finish = None
    for _, each in pairs:
        finish = buffers.both(finish, each)
    return [made for made, _ in pairs], finish


def _cut(tensor: Any, sizes: Sequence[int]) -> list[tuple[int, buffers.Buffer]]:
    """Pieces of a tensor's memory, of so many bytes each, for the ranks in turn."""
    pieces, address = [], tensor.data_ptr()
    for rank, size in enumerate(sizes):
        pieces.append((rank, (address, size)))
        address += size
    return pieces


def _listed(tensors: Any) -> list[Any]:
    return [tensors] if isinstance(tensors, torch.Tensor) else list(tensors)


def _inner(lists: Any) -> list[Any]:
    """The tensors of a list of one list, or of a list."""
    return list(lists[0]) if lists and not isinstance(lists[0], torch.Tensor) else list(lists)


def _options(kind: Any, given: Any) -> Any:
    if isinstance(given, ReduceOp):
        options = kind()
        options.reduceOp = given
        return options
    return kind() if given is None else given


def _together(works: list[Work]) -> Work:
    return works[0] if len(works) == 1 else Works(works)


__all__ = ["ProcessGroup"]
