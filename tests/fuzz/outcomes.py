"""Runs lines of a program under one implementation, describes what each line gave, and compares two descriptions.

A description is plain data (numbers, strings, lists), so that it can be written down as JSON: of a tensor its shape,
strides, offset, dtype, whether it requires grad, which variable it shares memory with, and its values. Stands on NumPy; used
by `writer` (which makes programs), `recorded` (which keeps them) and by `against`, under either implementation.
"""

from __future__ import annotations

import base64
import copy
import pickle
import warnings
from typing import Any

import numpy as np

LARGEST = 3000
"""Tensors of more elements are dropped: programs stay small."""

# What rounding may change, relative and absolute, by the dtype that computed it.
TOLERANCE = {
    "float32": (3e-5, 3e-6), "complex64": (3e-5, 3e-6), "float64": (1e-9, 1e-11), "complex128": (1e-9, 1e-11),
    "float16": (4e-3, 2e-3), "bfloat16": (3e-2, 1e-2),
}  # fmt: skip


class Run:
    """The variables of one program, and what each of its lines gave."""

    def __init__(self, torch: Any, seed: int) -> None:
        self.torch = torch
        self.outcomes: list[Any] = []
        self.space: dict[str, Any] = {"torch": torch, "inf": float("inf"), "nan": float("nan"), "copy": copy, "pickle": pickle}
        torch.manual_seed(seed)

    def tensors(self) -> list[tuple[str, Any]]:
        """The variables that are tensors, in the order in which they were made."""
        return [(n, t) for n, t in self.space.items() if n[0] == "v" and isinstance(t, self.torch.Tensor)]

    def step(self, line: str) -> Any:
        """Execute a line; its outcome."""
        name = line.partition(" = ")[0] if line.startswith("v") and " = " in line else ""
        name = name if name.isidentifier() else ""
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                exec(line, self.space)
        except Exception as error:  # whatever a line raises is its outcome
            outcome = ["raised", type(error).__name__, str(error).split("\nException raised from")[0][:200]]
        else:
            outcome = ["gave", self._keep(name)]
        self.outcomes.append(outcome)
        return outcome

    def _keep(self, name: str) -> Any:
        value = self.space.get(name)
        described = self.describe(value)
        if isinstance(value, (tuple, list)):
            for i, x in enumerate(value[:3]):
                if isinstance(x, self.torch.Tensor):
                    self.space[f"{name}_{i}"] = x
        for n, x in self.tensors():
            if x.numel() > LARGEST:
                del self.space[n]
        return described

    def describe(self, value: Any) -> Any:
        """Plain data that says what a value is."""
        if isinstance(value, self.torch.Tensor):
            return self._tensor(value)
        if isinstance(value, (tuple, list)):
            kind = type(value).__name__ if type(value) in (tuple, list) else "named"
            return ["items", kind, [self.describe(x) for x in value]]
        if isinstance(value, (bool, int, float, str, type(None))):
            return ["plain", type(value).__name__, repr(value)]
        return ["other", str(value).replace("flambeau", "torch") if isinstance(value, self.torch.dtype) else type(value).__name__]

    def _tensor(self, t: Any) -> Any:
        return [
            "tensor",
            list(t.shape),
            list(t.stride()),
            t.storage_offset(),
            str(t.dtype).split(".")[-1],
            t.requires_grad,
            self._alias(t),
            packed(self.values(t)),
        ]

    def _alias(self, t: Any) -> Any:
        """The first variable that is this tensor, or shares its memory; None for memory without bytes."""
        at = _address(t)
        for n, x in self.tensors() if at else ():
            if x is t:
                return [n, "same"]
            if _address(x) == at:
                return [n, "shares"]
        return None

    def values(self, t: Any) -> np.ndarray:
        """The elements as an array of its own; bfloat16 as float32."""
        with self.torch.no_grad():
            t = t.detach().resolve_conj().resolve_neg().clone()
            return (t.float() if t.dtype is self.torch.bfloat16 else t).numpy()

    def finish(self) -> None:
        """Add what all variables, and the gradients of the leaves, are in the end."""
        for n, t in self.tensors():
            self.outcomes.append(["end", n, self._tensor(t)])
            if t.is_leaf and t.requires_grad:
                self.outcomes.append(["end", n + ".grad", None if t.grad is None else self._tensor(t.grad)])


def _address(t: Any) -> int:
    """Where a tensor's storage is; 0 without bytes, or where a transform that has ended left none."""
    try:
        return t.untyped_storage().data_ptr() if t.untyped_storage().nbytes() else 0
    except RuntimeError:
        return 0


def packed(array: np.ndarray) -> list[str]:
    """An array as text: its dtype, and its elements in base64."""
    array = np.ascontiguousarray(array)
    return [array.dtype.str, base64.b64encode(array.tobytes()).decode()]


def unpacked(text: list[str], shape: list[int]) -> np.ndarray:
    """What `packed` was given."""
    return np.frombuffer(base64.b64decode(text[1]), text[0]).reshape(shape)


def magnitude(outcome: Any) -> float:
    """The largest finite element of the tensor that a line gave: what rounding is relative to, further on."""
    if outcome[0] != "gave" or outcome[1][0] != "tensor" or np.dtype(outcome[1][7][0]).kind not in "fc":
        return 0.0
    values = np.abs(unpacked(outcome[1][7], outcome[1][1]))
    return float(values[np.isfinite(values)].max(initial=0.0))


def difference(expected: Any, got: Any, scale: float = 1.0) -> str | None:
    """The kind of the first difference between two descriptions, or None. scale: of the numbers that they were made from."""
    if expected is None or got is None:
        return None if expected is got else "none"
    if expected[0] != got[0]:
        return "kind"
    if expected[0] == "items":
        if expected[1] != got[1] or len(expected[2]) != len(got[2]):
            return "items"
        return next(filter(None, (difference(x, y, scale) for x, y in zip(expected[2], got[2], strict=True))), None)
    if expected[0] == "plain" and expected[1] == got[1] == "float":
        return None if _close(np.array(float(expected[2])), np.array(float(got[2])), "float32", scale) else "value"
    if expected[0] != "tensor":
        return None if expected == got else "value"
    for place, kind in ((1, "shape"), (4, "dtype")):
        if expected[place] != got[place]:
            return kind
    if not _close(unpacked(expected[7], expected[1]), unpacked(got[7], got[1]), expected[4], scale):
        return "value"
    empty = 0 in expected[1]
    for place, kind in ((5, "requires_grad"), (2, "stride"), (3, "offset"), (6, "alias")):
        if expected[place] != got[place] and not (empty and kind in ("stride", "offset")):
            return kind
    return None


def _close(a: np.ndarray, b: np.ndarray, dtype: str, scale: float) -> bool:
    """Whether two arrays hold the same values, as exactly as the dtype promises."""
    if a.dtype.kind in "biu" or b.dtype.kind in "biu":
        return bool((a == b).all())
    if a.dtype.kind == "c":
        return _close(a.real, b.real, dtype, scale) and _close(a.imag, b.imag, dtype, scale)
    relative, absolute = TOLERANCE[dtype]
    a, b = a.astype(np.float64), b.astype(np.float64)
    finite = np.isfinite(a) & np.isfinite(b)
    if not ((a == b) | finite | (np.isnan(a) & np.isnan(b))).all():
        return False
    size = max(1.0, scale, 0.1 * float(np.abs(a[finite]).max(initial=0.0)))
    a, b = a[finite], b[finite]
    return bool((np.abs(a - b) <= absolute * size + relative * np.abs(a)).all())
