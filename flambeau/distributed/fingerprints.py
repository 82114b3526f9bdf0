"""What a collective call is, in a form that ranks compare: TORCH_DISTRIBUTED_DEBUG=DETAIL makes every call begin with that.

Stands on base; process groups use it, and messages about calls print it.
"""

from __future__ import annotations

import json
import zlib
from collections.abc import Sequence
from typing import Any

_BYTES = 1024       # of an encoded call
_TYPES = {          # PyTorch's names of calls
    "all_reduce": "ALLREDUCE", "all_gather": "ALLGATHER", "all_gather_into_tensor": "_ALLGATHER_BASE",
    "reduce_scatter_tensor": "_REDUCE_SCATTER_BASE", "all_to_all": "ALLTOALL", "all_to_all_single": "ALLTOALL_BASE",
}  # fmt: skip


class Fingerprint:
    """A call and the layouts of its tensors; how: what else ranks must agree on, its root or its reduction."""

    __slots__ = ("call", "how", "layouts")

    def __init__(self, call: str, layouts: Sequence[Any], how: str = "") -> None:
        self.call, self.layouts, self.how = call, layouts, how

    def __str__(self) -> str:
        words = [f"{layout.dtype.name}{list(layout.shape)}" for layout in self.layouts[:4]]
        words += ["..."] * (len(self.layouts) > 4) + [self.how] * bool(self.how)
        return f"{self.call}({', '.join(words)})"

    def encoded(self, number: int) -> bytes:
        """The call in a fixed number of bytes."""
        shapes = [list(layout.shape) for layout in self.layouts]
        dtypes = [layout.dtype.scalar_name for layout in self.layouts]
        entry = [number - 1, _TYPES.get(self.call, self.call.upper()), shapes, dtypes, self.how]
        text = json.dumps(entry).encode()
        if len(text) > _BYTES:      # long lists of tensors: what is common to all, and a digest of the rest
            entry[2:4] = [[[zlib.crc32(str(shapes).encode())]], dtypes[:1]]
            text = json.dumps(entry).encode()
        return text.ljust(_BYTES)


def _described(entry: list[Any]) -> str:
    number, kind, shapes, dtypes, _ = entry
    if not shapes:
        return f"CollectiveFingerPrint(SequenceNumber={number}, OpType={kind})"
    listed = ", ".join(" ".join(map(str, shape)) for shape in shapes)
    return (f"CollectiveFingerPrint(SequenceNumber={number}, OpType={kind}, TensorShape=[{listed}], "
            f"TensorDtypes={' '.join(dtypes)}, TensorDeviceTypes=cpu)")


def compare(encoded: Sequence[bytes], own: int) -> None:
    """Raise RuntimeError if the calls of the ranks differ. own: this rank."""
    entries = [json.loads(text) for text in encoded]
    mine = entries[own]
    for rank, other in enumerate(entries):
        if other == mine:
            continue
        words = []
        for index, name, show in (
            (0, "Sequence number", str), (1, "Op type", str),
            (2, "Tensor Tensor shapes", lambda shapes: ", ".join(" ".join(map(str, shape)) for shape in shapes)),
            (3, "Tensor Tensor dtypes", " ".join), (4, "Arguments", lambda how: how or "SUM"),
        ):
            if other[index] != mine[index] and (index < 4 or other[1] == mine[1]):   # other calls have other arguments
                words.append(f"  {name}: {show(mine[index])}vs {show(other[index])}")
        raise RuntimeError(
            f"Detected mismatch between collectives on ranks. Rank {own} is running collective: {_described(mine)}, but Rank "
            f"{rank} is running collective: {_described(other)}.Collectives differ in the following aspects: {''.join(words)}")
