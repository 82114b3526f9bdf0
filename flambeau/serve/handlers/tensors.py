"""Tensors in requests and answers: nested lists, NumPy's files, KServe's inputs and outputs.

Stands on NumPy and the public tensors; used by programs.
"""

from __future__ import annotations

import dataclasses
import io
import math
import struct
from collections.abc import Sequence
from typing import Any

import numpy as np

import flambeau as torch
from flambeau.serve import json_bodies
from flambeau.serve.answers import Answer, Item, Refused, as_json

NPY = ("application/x-npy", "application/octet-stream")
MOST_ELEMENTS = 1 << 28
MOST_AXES = 32  # what NumPy has at least
NUMBERS = frozenset({int, float, bool})

# KServe's names of dtypes: NumPy's, and ours where NumPy has none
KSERVE: dict[str, Any] = {
    "BOOL": np.bool_, "UINT8": np.uint8, "UINT16": np.uint16, "UINT32": np.uint32, "UINT64": np.uint64, "INT8": np.int8,
    "INT16": np.int16, "INT32": np.int32, "INT64": np.int64, "FP16": np.float16, "FP32": np.float32, "FP64": np.float64,
}  # fmt: skip
KSERVE_OF = {str(np.dtype(dtype)): name for name, dtype in KSERVE.items()} | {"bfloat16": "BF16"}


@dataclasses.dataclass(frozen=True)
class Spec:
    """An input of a program: its name, the sizes of its axes (None: any), its dtype where it is known."""

    name: str
    shape: tuple[int | None, ...] | None = None
    dtype: Any = None

    def described(self) -> dict[str, Any]:
        name = KSERVE_OF.get(str(self.dtype).rpartition(".")[2], "FP32")
        return {"name": self.name, "datatype": name, "shape": [-1 if size is None else size for size in self.shape or (None,)]}

    def check(self, tensor: torch.Tensor) -> torch.Tensor:
        """The tensor with the input's dtype; Refused for another shape or a dtype that would lose something."""
        if self.shape is not None:
            fits = tensor.dim() == len(self.shape) and all(
                size is None or size == got for size, got in zip(self.shape, tensor.shape)
            )
            if not fits:
                wanted = ", ".join("any" if size is None else str(size) for size in self.shape)
                raise Refused(400, f"input {self.name} has shape {list(tensor.shape)}; it must be [{wanted}]")
        if self.dtype is not None and tensor.dtype is not self.dtype:
            if not torch.can_cast(tensor.dtype, self.dtype):
                raise Refused(400, f"input {self.name} has dtype {tensor.dtype}; it must be {self.dtype}")
            given, tensor = tensor, tensor.to(self.dtype)
            held = (
                torch.equal(tensor.isfinite(), given.isfinite())
                if self.dtype.is_floating_point
                else torch.equal(tensor.to(given.dtype), given)
            )
            if not held:
                raise Refused(400, f"input {self.name} has numbers that {self.dtype} doesn't hold")
        return tensor


def all_numbers(data: Any) -> bool:
    """Whether nested lists hold numbers and booleans only: of one long text NumPy would make as many bytes for every element."""
    if type(data) is not list:
        return type(data) in NUMBERS
    return set(map(type, data)) <= NUMBERS or all(map(all_numbers, data))


def array_of(data: Any) -> np.ndarray | None:
    """Nested lists of numbers or of booleans, all of one shape; None for anything else."""
    try:
        array = np.asarray(data) if all_numbers(data) else None
    except (ValueError, OverflowError):
        return None
    return array if array is not None and array.dtype.kind in "biuf" and array.dtype != np.uint64 else None


def rounded(array: np.ndarray, dtype: Any, name: str) -> np.ndarray:
    """Floating numbers of JSON in a dtype, each of which they must be within the range of."""
    with np.errstate(over="ignore"):
        array = array.astype(dtype, copy=False)
    if not np.isfinite(array).all():
        raise Refused(400, f"input {name[:80]} has numbers that {array.dtype} doesn't hold")
    return array


def from_lists(data: Any, name: str, dtype: Any = None) -> torch.Tensor:
    """Nested lists of numbers or of booleans. Whole numbers are int64, others float32, or float64 where that is the `dtype`."""
    array = array_of(data)
    if array is None:
        raise Refused(400, f"input {name[:80]}: lists of one length each are wanted, with numbers in them")
    if array.dtype == np.float64:
        array = rounded(array, np.float64 if dtype is torch.float64 else np.float32, name)
    return torch.from_numpy(np.ascontiguousarray(array) if array.ndim else array)


def from_npy(body: bytes) -> torch.Tensor:
    """A tensor from the bytes of a .npy file, in which objects aren't allowed."""
    try:
        stream = io.BytesIO(body)
        version = np.lib.format.read_magic(stream)
        read = np.lib.format.read_array_header_1_0 if version == (1, 0) else np.lib.format.read_array_header_2_0
        shape, _, dtype = read(stream)
        if dtype.hasobject or math.prod(shape) * dtype.itemsize > len(body):
            raise ValueError
        array = np.load(io.BytesIO(body), allow_pickle=False)
        return torch.from_numpy(np.ascontiguousarray(array) if array.ndim else array)
    except Exception:  # the header is Python's text, and NumPy lets through whatever reading it raises
        raise Refused(400, "the body is no .npy file with numbers") from None


def to_npy(tensor: torch.Tensor) -> bytes:
    stream = io.BytesIO()
    tensor = tensor.detach()
    np.save(stream, (tensor.float() if tensor.dtype is torch.bfloat16 else tensor).numpy(), allow_pickle=False)
    return stream.getvalue()


def to_lists(tensor: torch.Tensor) -> Any:
    return tensor.detach().tolist()


class KServe:
    """A request of KServe's protocol, version 2, and what its answer needs to know of it."""

    def __init__(self, item: Item) -> None:
        head = item.headers.get("inference-header-content-length")
        self.binary, text = b"", item.body
        if head is not None:
            if not head.isascii() or not head.isdigit() or int(head) > len(item.body):
                raise Refused(400, "Inference-Header-Content-Length is no length within the body")
            text, self.binary = item.body[: int(head)], item.body[int(head) :]
        content = json_bodies.read(text, item.depth)
        if not isinstance(content, dict) or not isinstance(content.get("inputs"), list) or not content["inputs"]:
            raise Refused(400, 'expected {"inputs": [{"name": ..., "shape": [...], "datatype": ..., "data": [...]}]}')
        self.id = content.get("id")
        parameters = content.get("parameters")
        self.binary_output = isinstance(parameters, dict) and parameters.get("binary_data_output") is True
        outputs = content.get("outputs")
        self.outputs: dict[str, bool] | None = None  # those that are wanted, and whether as binary data
        if outputs is not None:
            if not isinstance(outputs, list) or not all(isinstance(o, dict) and isinstance(o.get("name"), str) for o in outputs):
                raise Refused(400, "outputs are objects with a name")
            self.outputs = {output["name"]: self.wants_binary(output.get("parameters")) for output in outputs}
        self.inputs: dict[str, Any] = {}  # tensors, and lists of bytes for BYTES
        for entry in content["inputs"]:
            self._read(entry)
        if self.binary:
            raise Refused(400, "there is more binary data than the inputs name")

    def wants_binary(self, parameters: Any) -> bool:
        """Whether an output comes as binary data: what it says itself goes before what the request says."""
        given = parameters.get("binary_data") if isinstance(parameters, dict) else None
        return given if isinstance(given, bool) else self.binary_output

    def _read(self, entry: Any) -> None:
        if not isinstance(entry, dict) or not isinstance(entry.get("name"), str):
            raise Refused(400, "an input is an object with a name")
        name, shape, kind = entry["name"], entry.get("shape"), entry.get("datatype")
        if (
            not isinstance(shape, list)
            or len(shape) > MOST_AXES
            or not all(type(size) is int and 0 <= size < 1 << 40 for size in shape)
        ):
            raise Refused(400, f"input {name}: shape is a list of up to {MOST_AXES} sizes")
        count = math.prod(shape)
        if math.prod(size or 1 for size in shape) > MOST_ELEMENTS:
            raise Refused(413, f"input {name}: a shape of more than {MOST_ELEMENTS} elements")
        parameters = entry.get("parameters")
        size = parameters.get("binary_data_size") if isinstance(parameters, dict) else None
        raw = None
        if size is not None:
            if type(size) is not int or not 0 <= size <= len(self.binary):
                raise Refused(400, f"input {name}: binary_data_size is no size within the body")
            raw, self.binary = self.binary[:size], self.binary[size:]
        if kind == "BYTES":
            self.inputs[name] = _texts(entry.get("data"), raw, count, name)
            return
        if kind == "BF16" and raw is not None:
            if len(raw) != 2 * count:
                raise Refused(400, f"input {name}: {len(raw)} bytes for {count} elements of BF16")
            words = torch.from_numpy(np.frombuffer(bytearray(raw), np.int16).reshape(shape))
            self.inputs[name] = words.view(torch.bfloat16)
            return
        if not isinstance(kind, str) or kind not in KSERVE:
            raise Refused(400, f"input {name}: datatype is one of {', '.join(KSERVE)}, BYTES, or BF16 with binary data")
        dtype = np.dtype(KSERVE[kind])
        if raw is not None:
            if len(raw) != dtype.itemsize * count:
                raise Refused(400, f"input {name}: {len(raw)} bytes for {count} elements of {kind}")
            array = np.frombuffer(bytearray(raw), dtype).reshape(shape)
        else:
            given = array_of(entry.get("data"))
            wanted = {"b": "b", "i": "iu", "u": "iu", "f": "iuf"}[dtype.kind]
            if given is None or given.size != count or (count and given.dtype.kind not in wanted):
                raise Refused(400, f"input {name}: data are {count} numbers of {kind}, flat or in the tensor's shape")
            array = (rounded(given, dtype, name) if dtype.kind == "f" else given.astype(dtype)).reshape(shape)
            if dtype.kind in "iu" and count and not np.array_equal(array.reshape(-1), given.reshape(-1)):
                raise Refused(400, f"input {name}: {kind} doesn't hold these numbers")
        self.inputs[name] = torch.from_numpy(np.ascontiguousarray(array) if array.ndim else array)

    def respond(self, item: Item, outputs: Sequence[tuple[str, Any]]) -> Answer:
        """The answer: tensors, and lists of texts, by name."""
        if self.outputs is not None:
            by_name = dict(outputs)
            unknown = [name for name in self.outputs if name not in by_name]
            if unknown:
                raise Refused(400, f"there is no output {unknown[0]!r}; there are {', '.join(by_name)}")
            outputs = [(name, by_name[name]) for name in self.outputs]
        described, binary = [], []
        for name, value in outputs:
            if isinstance(value, torch.Tensor):
                kind = KSERVE_OF.get(str(value.dtype).rpartition(".")[2])
                if kind is None:
                    raise Refused(400, f"output {name} is {value.dtype}, which KServe's protocol doesn't have")
                entry: dict[str, Any] = {"name": name, "shape": list(value.shape), "datatype": kind}
                wanted = self.binary_output if self.outputs is None else self.outputs[name]
                if wanted and kind != "BF16":
                    raw = np.ascontiguousarray(value.detach().numpy()).tobytes()
                    entry["parameters"] = {"binary_data_size": len(raw)}
                    binary.append(raw)
                else:
                    entry["data"] = value.detach().reshape(-1).tolist()
            elif not isinstance(value, list):
                raise Refused(400, f"output {name} is no tensor, and KServe's protocol has nothing else for it")
            else:
                entry = {"name": name, "shape": [len(value)], "datatype": "BYTES", "data": list(value)}
            described.append(entry)
        body: dict[str, Any] = {"model_name": item.model, "model_version": item.version, "outputs": described}
        if isinstance(self.id, str):
            body["id"] = self.id
        text = as_json(body)
        if binary:
            headers = {"inference-header-content-length": str(len(text))}
            return Answer(text + b"".join(binary), type="application/octet-stream", headers=headers)
        return Answer(text)


def _texts(data: Any, raw: bytes | None, count: int, name: str) -> list[str]:
    """Texts of an input of BYTES, from JSON or from lengths and bytes."""
    found: list[str] = []
    try:
        if raw is not None:
            at = 0
            while at < len(raw):
                (size,) = struct.unpack_from("<I", raw, at)
                if at + 4 + size > len(raw):
                    raise ValueError
                found.append(raw[at + 4 : at + 4 + size].decode())
                at += 4 + size
        elif isinstance(data, list) and all(isinstance(text, str) for text in data):
            found = data
        if len(found) != count:
            raise ValueError
    except (ValueError, struct.error):
        raise Refused(400, f"input {name}: data are {count} texts in UTF-8") from None
    return found
