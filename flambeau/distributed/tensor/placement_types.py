"""torch.distributed.tensor.placement_types: how a dimension of a mesh holds a tensor. Values, compared by what they say."""

from __future__ import annotations

from typing import Any


class Placement:
    """How a tensor lies on the devices along a dimension of a mesh."""

    _fields: tuple[str, ...] = ()

    def is_shard(self, dim: int | None = None) -> bool:
        """Whether each device has a slice, of this dimension if one is given."""
        return False

    def is_replicate(self) -> bool:
        """Whether each device has the whole tensor."""
        return False

    def is_partial(self, reduce_op: str | None = None) -> bool:
        """Whether the devices' tensors are still to be reduced, by this operation if one is given."""
        return False

    def _values(self) -> tuple[Any, ...]:
        return tuple(getattr(self, name) for name in self._fields)

    def __eq__(self, other: object) -> bool:
        return type(self) is type(other) and self._values() == other._values()  # type: ignore[attr-defined]

    def __hash__(self) -> int:
        return hash((type(self), self._values()))


class Shard(Placement):
    """Each device has a slice along dimension `dim` of the tensor."""

    _fields = ("dim",)

    def __init__(self, dim: int) -> None:
        self.dim = dim

    def is_shard(self, dim: int | None = None) -> bool:
        return dim is None or dim == self.dim

    @staticmethod
    def local_shard_size_and_offset(curr_local_size: int, num_chunks: int, rank: int) -> tuple[int, int]:
        """The size of a rank's chunk and where it begins, when a dimension of this size is cut as torch.chunk does."""
        full = -(-curr_local_size // num_chunks)
        start = min(curr_local_size, full * rank)
        return min(curr_local_size, start + full) - start, start

    def _local_shard_size_and_offset(self, curr_local_size: int, num_chunks: int, rank: int) -> tuple[int, int]:
        return self.local_shard_size_and_offset(curr_local_size, num_chunks, rank)

    def _split_tensor(
        self, tensor: Any, num_chunks: int, *, with_padding: bool = True, contiguous: bool = True
    ) -> tuple[list[Any], list[int]]:
        """A tensor's chunks along `dim`, empty ones too, and by how much each is shorter than the first; `with_padding`: filled
        up to its size with zeros."""
        size = tensor.size(self.dim)
        full = -(-size // num_chunks)
        chunks, missing = [], []
        for rank in range(num_chunks):
            length, start = self.local_shard_size_and_offset(size, num_chunks, rank)
            chunk = tensor.narrow(self.dim, start, length)
            missing.append(full - length)
            if with_padding and length < full:
                shape = list(chunk.shape)
                shape[self.dim] = full
                padded = chunk.new_zeros(shape)
                padded.narrow(self.dim, 0, length).copy_(chunk)
                chunk = padded
            chunks.append(chunk.contiguous() if contiguous else chunk)
        return chunks, missing

    def __repr__(self) -> str:
        return f"Shard(dim={self.dim})"

    def __str__(self) -> str:
        return f"S({self.dim})"


class _StridedShard(Placement):
    """Each device has several slices along dimension `dim`, `split_factor` of them, taken in turn."""

    _fields = ("dim", "split_factor")

    def __init__(self, dim: int, *, split_factor: int) -> None:
        self.dim, self.split_factor = dim, split_factor

    def is_shard(self, dim: int | None = None) -> bool:
        return dim is None or dim == self.dim

    def __repr__(self) -> str:
        return f"_StridedShard(dim={self.dim}, sf={self.split_factor})"

    def __str__(self) -> str:
        return f"_S({self.dim}, {self.split_factor})"


class Replicate(Placement):
    """Each device has the whole tensor."""

    def is_replicate(self) -> bool:
        return True

    def __repr__(self) -> str:
        return "Replicate()"

    def __str__(self) -> str:
        return "R"


class Partial(Placement):
    """The tensor is the reduction of the devices' tensors."""

    _fields = ("reduce_op",)

    def __init__(self, reduce_op: str = "sum") -> None:
        self.reduce_op = reduce_op

    def is_partial(self, reduce_op: str | None = None) -> bool:
        return reduce_op is None or reduce_op == self.reduce_op

    def __repr__(self) -> str:
        return f"Partial({self.reduce_op})"

    def __str__(self) -> str:
        return f"P({self.reduce_op})"


class _NormPartial(Partial):
    """The tensor is the norm of the devices' tensors, element by element: what a norm of parts leaves to be made."""

    _fields = ("norm_type",)

    def __init__(self, norm_type: float = 2) -> None:
        super().__init__("sum")
        self.norm_type = norm_type

    def __repr__(self) -> str:
        return f"_NormPartial({self.norm_type})"

    def __str__(self) -> str:
        return f"_NormP({self.norm_type})"
