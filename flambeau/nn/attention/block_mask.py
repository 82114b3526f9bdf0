"""BlockMask: which blocks of queries and keys meet in flex_attention, as lists of block numbers.

For each row of blocks, `kv_num_blocks` says how many columns hold a block that is masked in part, and `kv_indices` lists all
columns with these in front; `full_kv_*` list the blocks that nothing masks, and `q_*` the same by columns. Written in the
public operators; used by flex_attention.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NoReturn

import flambeau as torch

_DEFAULT_SPARSE_BLOCK_SIZE = 128
MaskMod = Callable[..., Any]


def noop_mask(batch: Any, head: Any, token_q: Any, token_kv: Any) -> Any:
    """The mask_mod that masks nothing."""
    return batch.new_ones(size=(), dtype=torch.bool, device=batch.device)


def sliced_mask_mod_error(batch: Any, head: Any, token_q: Any, token_kv: Any) -> NoReturn:
    """The mask_mod of a slice, whose indices would begin elsewhere: raises RuntimeError."""
    raise RuntimeError(
        "Cannot use mask_mod from a sliced BlockMask. When you slice a BlockMask using [], the mask_mod attribute is reset. "
        "You must set it from the original BlockMask's mask_mod.\n\nIncorrect usage:\n"
        "  base_mask = create_block_mask(my_mask_fn, ...)\n  sliced_mask = base_mask[:, :, block_idx]\n"
        "  sliced_mask.mask_mod = apply_offset(sliced_mask.mask_mod, offset)  # WRONG!\n\nCorrect usage:\n"
        "  base_mask = create_block_mask(my_mask_fn, ...)\n  sliced_mask = base_mask[:, :, block_idx]\n"
        "  sliced_mask.mask_mod = apply_offset(base_mask.mask_mod, offset)  # Use base_mask!"
    )


# ---------------------------------------------------------------- between dense masks of blocks and lists of them


def dense_to_ordered(dense: Any) -> tuple[Any, Any]:
    """(how many, columns with those in front) of each row of a 0/1 tensor of shape (..., rows, columns); int32."""
    dense = dense.to(torch.int32)
    indices = torch.argsort(dense, dim=-1, descending=True, stable=True)
    return dense.sum(dim=-1).to(torch.int32), indices.to(torch.int32).contiguous()


def ordered_to_dense(num_blocks: Any, indices: Any, columns: int) -> Any:
    """The inverse of dense_to_ordered: int32 of shape (..., rows, columns)."""
    listed = torch.arange(indices.shape[-1], device=indices.device) < num_blocks[..., None]
    dense = torch.zeros(*indices.shape[:-1], columns + 1, dtype=torch.int32, device=indices.device)
    where = torch.where(listed, indices.long(), columns)  # what isn't listed goes to a column that is cut off
    return dense.scatter_(-1, where, 1)[..., :columns].contiguous()


def transpose_ordered(num_blocks: Any, indices: Any) -> tuple[Any, Any]:
    """The lists by columns."""
    return dense_to_ordered(ordered_to_dense(num_blocks, indices, indices.shape[-1]).transpose(-2, -1))


def adjust_num_blocks_and_indices(num_blocks: Any, indices: Any, rows: int, columns: int) -> tuple[Any, Any]:
    """The lists of the first rows and columns."""
    dense = ordered_to_dense(num_blocks, indices, indices.shape[-1])
    return dense_to_ordered(dense[..., :rows, :columns])


def round_up(x: int, multiple: int) -> int:
    """The least multiple that isn't smaller."""
    return -(-x // multiple) * multiple


class BlockMask:
    """Which blocks of a (batch, heads, queries, keys) mask hold something.

    Attributes: seq_lengths (queries, keys), BLOCK_SIZE (of queries, of keys), mask_mod, and int32 tensors: kv_num_blocks and
    full_kv_num_blocks of shape (batch, heads, rows of blocks), kv_indices and full_kv_indices (batch, heads, rows, columns),
    q_num_blocks, q_indices, full_q_num_blocks and full_q_indices likewise by columns (or None).
    """

    _TENSOR_ATTRS = (
        "kv_num_blocks",
        "kv_indices",
        "full_kv_num_blocks",
        "full_kv_indices",
        "q_num_blocks",
        "q_indices",
        "full_q_num_blocks",
        "full_q_indices",
    )
    _CONTEXT_ATTRS = ("seq_lengths", "BLOCK_SIZE", "mask_mod")

    def __init__(
        self,
        seq_lengths: tuple[int, int],
        kv_num_blocks: Any,
        kv_indices: Any,
        full_kv_num_blocks: Any,
        full_kv_indices: Any,
        q_num_blocks: Any,
        q_indices: Any,
        full_q_num_blocks: Any,
        full_q_indices: Any,
        BLOCK_SIZE: tuple[int, int] = (_DEFAULT_SPARSE_BLOCK_SIZE, _DEFAULT_SPARSE_BLOCK_SIZE),
        mask_mod: MaskMod = noop_mask,
    ) -> None:
        if kv_indices.dim() < 2:
            raise RuntimeError("BlockMask must have at least 2 dimensions")
        for pair in (
            ("full_kv_num_blocks", full_kv_num_blocks, full_kv_indices),
            ("full_q_num_blocks", full_q_num_blocks, full_q_indices),
        ):
            if (pair[1] is None) != (pair[2] is None):
                raise AssertionError(f"{pair[0]} and {pair[0].replace('num_blocks', 'indices')} must be both provided or omitted")
        self.seq_lengths = seq_lengths
        self.kv_num_blocks, self.kv_indices = kv_num_blocks, kv_indices
        self.full_kv_num_blocks, self.full_kv_indices = full_kv_num_blocks, full_kv_indices
        self.q_num_blocks, self.q_indices = q_num_blocks, q_indices
        self.full_q_num_blocks, self.full_q_indices = full_q_num_blocks, full_q_indices
        self.BLOCK_SIZE = BLOCK_SIZE
        self.mask_mod = mask_mod
        self._made_from: MaskMod | None = None  # the mask_mod from which the blocks were found, if they were

    @classmethod
    def from_kv_blocks(
        cls,
        kv_num_blocks: Any,
        kv_indices: Any,
        full_kv_num_blocks: Any = None,
        full_kv_indices: Any = None,
        BLOCK_SIZE: int | tuple[int, int] = _DEFAULT_SPARSE_BLOCK_SIZE,
        mask_mod: MaskMod | None = None,
        seq_lengths: tuple[int, int] | None = None,
        compute_q_blocks: bool = True,
    ) -> BlockMask:
        """A BlockMask from the lists by rows; those by columns are derived, unless compute_q_blocks is False.

        seq_lengths: of queries and keys, by default the blocks' size times their number.
        Raises RuntimeError for kv_indices of less than 2 dimensions, AssertionError if one full_ tensor comes alone.
        """
        if kv_indices.dim() < 2:
            raise RuntimeError("BlockMask must have at least 2 dimensions")
        if (full_kv_num_blocks is None) != (full_kv_indices is None):
            raise AssertionError("full_kv_num_blocks and full_kv_indices must be both provided or omitted")
        by_columns: list[Any] = [None] * 4
        if compute_q_blocks:
            by_columns[:2] = transpose_ordered(kv_num_blocks, kv_indices)
            if full_kv_num_blocks is not None:
                by_columns[2:] = transpose_ordered(full_kv_num_blocks, full_kv_indices)
        size = (BLOCK_SIZE, BLOCK_SIZE) if isinstance(BLOCK_SIZE, int) else BLOCK_SIZE
        if seq_lengths is None:
            seq_lengths = (kv_indices.shape[-2] * size[0], kv_indices.shape[-1] * size[1])
        return cls(
            seq_lengths,
            kv_num_blocks,
            kv_indices,
            full_kv_num_blocks,
            full_kv_indices,
            *by_columns,
            BLOCK_SIZE=size,
            mask_mod=mask_mod or noop_mask,
        )

    def _like(self, tensors: list[Any], mask_mod: MaskMod) -> BlockMask:
        """With other lists by rows."""
        return BlockMask.from_kv_blocks(
            *tensors,
            BLOCK_SIZE=self.BLOCK_SIZE,
            mask_mod=mask_mod,
            seq_lengths=self.seq_lengths,
            compute_q_blocks=self.q_indices is not None,
        )

    def _rows(self) -> list[Any]:
        return [self.kv_num_blocks, self.kv_indices, self.full_kv_num_blocks, self.full_kv_indices]

    def as_tuple(self, flatten: bool = True) -> tuple[Any, ...]:
        """Everything the mask holds; with flatten=True sizes one by one."""
        tensors = tuple(getattr(self, name) for name in self._TENSOR_ATTRS)
        nothing = (None,) * 4  # PyTorch's orders of writing gradients on GPUs
        if flatten:
            return (*self.seq_lengths, *tensors, *nothing, *self.BLOCK_SIZE, self.mask_mod)
        return (self.seq_lengths, *tensors, *nothing, self.BLOCK_SIZE, self.mask_mod)

    @property
    def shape(self) -> tuple[int, ...]:
        """(batch, heads, queries, keys)."""
        return (*self.kv_indices.shape[:-2], *self.seq_lengths)

    def numel(self) -> int:
        """The number of elements of the mask."""
        total = 1
        for size in self.shape:
            total *= size
        return total

    def sparsity(self) -> float:
        """The share of elements in blocks that aren't computed, in percent; below 0 where blocks reach past the edges."""
        blocks = self.kv_num_blocks.sum()
        if self.full_kv_num_blocks is not None:
            blocks = blocks + self.full_kv_num_blocks.sum()
        computed = blocks.item() * self.BLOCK_SIZE[0] * self.BLOCK_SIZE[1]
        return 100 * (1 - computed / self.numel())

    def to_dense(self) -> Any:
        """1 for each block that is computed: int32 of shape (batch, heads, rows, columns)."""
        columns = self.kv_indices.shape[-1]
        dense = ordered_to_dense(self.kv_num_blocks, self.kv_indices, columns)
        if self.full_kv_num_blocks is not None:
            dense = dense | ordered_to_dense(self.full_kv_num_blocks, self.full_kv_indices, columns)
        return dense

    def to(self, device: Any) -> BlockMask:
        """The mask with its tensors on a device."""
        moved = [None if x is None else x.to(device) for x in map(self.__dict__.get, self._TENSOR_ATTRS)]
        made = BlockMask(self.seq_lengths, *moved, BLOCK_SIZE=self.BLOCK_SIZE, mask_mod=self.mask_mod)
        made._made_from = self._made_from
        return made

    def __getitem__(self, index: Any) -> BlockMask:
        """A selection of batches, heads and rows of blocks; numbers keep their dimension. Its mask_mod has to be set anew."""
        index = index if isinstance(index, tuple) else (index,)
        index = tuple(slice(i, i + 1 or None) if isinstance(i, int) else i for i in index)
        return self._like([None if x is None else x[index] for x in self._rows()], sliced_mask_mod_error)

    def _adjust(self, new_q_len: int, new_kv_len: int) -> BlockMask:
        """The mask of the first queries and keys."""
        rows = -(-new_q_len // self.BLOCK_SIZE[0])
        columns = -(-new_kv_len // self.BLOCK_SIZE[1])
        lists: list[Any] = [*adjust_num_blocks_and_indices(self.kv_num_blocks, self.kv_indices, rows, columns), None, None]
        if self.full_kv_num_blocks is not None:
            lists[2:] = adjust_num_blocks_and_indices(self.full_kv_num_blocks, self.full_kv_indices, rows, columns)
        made = self._like(lists, self.mask_mod)
        made.seq_lengths = (new_q_len, new_kv_len)
        return made

    # ---------------------------------------------------------------- printing

    def __str__(self) -> str:
        return f"BlockMask(shape={self.shape}, sparsity={self.sparsity():.2f}%, \n{self.to_string().strip()}\n)"

    def __repr__(self) -> str:
        def said(name: str) -> str:
            value = getattr(self, name)
            return f"    {name}={None if value is None else value.shape}"

        lines = [said(name) for name in self._TENSOR_ATTRS]
        lines += [
            f"    BLOCK_SIZE={self.BLOCK_SIZE}",
            f"    shape={self.shape}",
            f"    sparsity={self.sparsity():.2f}%",
            f"    mask_mod={getattr(self.mask_mod, '__name__', self.mask_mod)}",
        ]
        return "BlockMask(\n" + ",\n".join(lines) + "\n)"

    def to_string(self, grid_size: int | tuple[int, int] = (20, 20), limit: int = 4) -> str:
        """The blocks as characters, at most grid_size (rows, columns; -1: all) of them for each of `limit` heads.

        A character stands for several blocks where there are more: full, empty, or between.
        """
        dense = self.to_dense()
        dense = dense.reshape(-1, *dense.shape[-2:]).tolist()
        leading = self.shape[:-2]
        rows, columns = (grid_size, grid_size) if isinstance(grid_size, int) else grid_size
        drawn = []
        for number, head in enumerate(dense):
            if number == limit:
                drawn.append("...")
                drawn.append("To print out more, set BlockMask.to_string(limit=N)")
                drawn.append("You can also index (BlockMask[batch, head]) to choose a specific batch or head")
                break
            place = []
            for size in reversed(leading):
                place.append(number % size)
                number //= size
            drawn.append(f"{tuple(reversed(place))}\n{_drawing(head, rows, columns)}")
        return "\n".join(drawn)


def _drawing(blocks: list[list[int]], rows: int, columns: int) -> str:
    """Two characters per cell, one line per row of cells."""
    height = 1 if rows == -1 else max(-(-len(blocks) // rows), 1)
    width = 1 if columns == -1 or not blocks else max(-(-len(blocks[0]) // columns), 1)
    lines = []
    for top in range(0, len(blocks), height):
        line = ""
        for left in range(0, len(blocks[0]), width):
            cell = [x for row in blocks[top : top + height] for x in row[left : left + width]]
            line += "██" if all(cell) else "░░" if any(cell) else "  "
        lines.append(line + "\n")
    return "".join(lines)
