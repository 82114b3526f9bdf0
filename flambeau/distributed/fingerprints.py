"""What a collective call is, in a form that ranks compare: always by a digest, and word by word before every call where
TORCH_DISTRIBUTED_DEBUG is DETAIL.

Stands on base; process groups use it, and messages about calls print it.
"""

from __future__ import annotations

import hashlib
import json
import zlib
from collections.abc import Sequence
from typing import Any

_BYTES = 1024  # of an encoded call
_DIGESTS = 4096  # digests that are kept
_SHORT = 200  # characters of a fact that is told as it is
_TYPES = {          # PyTorch's names of calls
    "all_reduce": "ALLREDUCE", "all_gather": "ALLGATHER", "all_gather_into_tensor": "_ALLGATHER_BASE",
    "reduce_scatter_tensor": "_REDUCE_SCATTER_BASE", "all_to_all": "ALLTOALL", "all_to_all_single": "ALLTOALL_BASE",
}  # fmt: skip

_digests: dict[tuple[Any, ...], int] = {}


class Fingerprint:
    """A call and the layouts of its tensors; how: what else ranks must agree on, its root or its reduction.

    sized: whether ranks must agree on the numbers of elements.
    """

    __slots__ = ("call", "how", "layouts", "sized")

    def __init__(self, call: str, layouts: Sequence[Any], how: str = "", sized: bool = True) -> None:
        self.call, self.layouts, self.how, self.sized = call, layouts, how, sized

    def __str__(self) -> str:
        words = [f"{layout.dtype.name}{list(layout.shape)}" for layout in self.layouts[:4]]
        words += ["..."] * (len(self.layouts) > 4) + [self.how] * bool(self.how)
        return f"{self.call}({', '.join(words)})"

    def digest(self) -> int:
        """63 bits of what the ranks must agree on."""
        key = (self.call, self.how, self.sized, *self.layouts)
        found = _digests.get(key)
        if found is None:
            if len(_digests) >= _DIGESTS:
                _digests.clear()
            text = repr((self.call, self.how, self._sizes(), self._dtypes())).encode()
            found = _digests[key] = int.from_bytes(hashlib.blake2b(text, digest_size=8).digest(), "little") >> 1
        return found

    def facts(self) -> list[Any]:
        """What the digest stands for, in a few bytes: call, sizes, dtypes, and the rest."""
        return [
            self.call,
            *(each if len(str(each)) < _SHORT else zlib.crc32(str(each).encode()) for each in (self._sizes(), self._dtypes())),
            self.how,
        ]

    def _sizes(self) -> list[int] | None:
        return [layout.numel for layout in self.layouts] if self.sized else None

    def _dtypes(self) -> list[str]:
        return [layout.dtype.name for layout in self.layouts]

    def encoded(self, number: int) -> bytes:
        """The call in a fixed number of bytes."""
        layouts = self.layouts if self.sized else ()
        shapes = [list(layout.shape) for layout in layouts]
        dtypes = [layout.dtype.scalar_name for layout in layouts]
        entry = [number - 1, _TYPES.get(self.call, self.call.upper()), shapes, dtypes, self.how]
        text = json.dumps(entry).encode()
        if len(text) > _BYTES:  # long lists of tensors: what is common to all, and a digest of the rest
            entry[2:4] = [[[zlib.crc32(str(shapes).encode())]], dtypes[:1]]
            text = json.dumps(entry).encode()
        return text.ljust(_BYTES)


def _described(entry: list[Any]) -> str:
    number, kind, shapes, dtypes, _ = entry
    if not shapes:
        return f"CollectiveFingerPrint(SequenceNumber={number}, OpType={kind})"
    listed = ", ".join(" ".join(map(str, shape)) for shape in shapes)
    return (
        f"CollectiveFingerPrint(SequenceNumber={number}, OpType={kind}, TensorShape=[{listed}], "
        f"TensorDtypes={' '.join(dtypes)}, TensorDeviceTypes=cpu)"
    )


def compare(encoded: Sequence[bytes], own: int) -> None:
    """Raise RuntimeError if the calls of the ranks differ. own: this rank."""
    entries = [json.loads(text) for text in encoded]
    mine = entries[own]
    for rank, other in enumerate(entries):
        if other == mine:
            continue
        words = []
        for index, name, show in (
            (0, "Sequence number", str),
            (1, "Op type", str),
            (2, "Tensor Tensor shapes", lambda shapes: ", ".join(" ".join(map(str, shape)) for shape in shapes)),
            (3, "Tensor Tensor dtypes", " ".join),
            (4, "Arguments", lambda how: how or "SUM"),
        ):
            if other[index] != mine[index] and (index < 4 or other[1] == mine[1]):  # other calls have other arguments
                words.append(f"  {name}: {show(mine[index])}vs {show(other[index])}")
        raise RuntimeError(
            f"Detected mismatch between collectives on ranks. Rank {own} is running collective: {_described(mine)}, but Rank "
            f"{rank} is running collective: {_described(other)}.Collectives differ in the following aspects: {''.join(words)}"
        )
