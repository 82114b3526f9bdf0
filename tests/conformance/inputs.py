"""Arguments of samples: tensors from NumPy's frozen generator, the same under every implementation.

`Inputs` is the namespace that a sample's arguments are evaluated in. It can make the same numbers in another dtype, lie them
otherwise in memory, or put given tensors in their places. Stands on NumPy; used by `forms`.
"""

from __future__ import annotations

import zlib
from typing import Any

import numpy as np

WHOLE = {"int64": np.int64, "bool": np.bool_}
FLOATING = {"float64": np.float64, "float32": np.float32, "bfloat16": np.float32}


class Inputs:
    """The tensors of one sample, numbered in the order in which its arguments make them.

    text: gives the seed. dtype: of numbers that a sample doesn't fix. grad: whether those require it. scattered: they have
    gaps and are in column order. given: tensors to use instead of those that would be made, by number.
    """

    def __init__(
        self,
        torch: Any,
        text: str,
        dtype: str = "float32",
        grad: bool = False,
        scattered: bool = False,
        given: dict[int, Any] | None = None,
    ) -> None:
        self.torch, self.dtype, self.grad, self.scattered, self.given = torch, dtype, grad, scattered, given or {}
        self.random = np.random.RandomState(zlib.crc32(text.encode()))  # its streams never change
        self.made: list[Any] = []
        self.numbers: list[int] = []  # of the tensors that may require grad
        self.space = {
            "torch": torch,
            "np": np,
            "inf": float("inf"),
            "nan": float("nan"),
            **{name: getattr(self, name) for name in ("f", "p", "u", "c", "b", "n", "s", "h")},
        }

    def arguments(self, text: str) -> tuple[tuple[Any, ...], dict[str, Any]]:
        """The positional arguments and the keywords that a text gives."""
        return eval(f"(lambda *args, **named: (args, named))({text})", self.space)

    def f(self, *shape: int) -> Any:
        """Any numbers: normally distributed."""
        return self._numbers(self.random.standard_normal(shape))

    def p(self, *shape: int) -> Any:
        """Numbers between 0.1 and 2."""
        return self._numbers(self.random.uniform(0.1, 2.0, shape), above=1)

    def u(self, *shape: int) -> Any:
        """Numbers between -0.9 and 0.9."""
        return self._numbers(self.random.uniform(-0.9, 0.9, shape))

    def c(self, *shape: int) -> Any:
        """Complex numbers, of the precision of the others."""
        values = self.random.standard_normal(shape) + 1j * self.random.standard_normal(shape)
        return self._keep(values.astype(np.complex128 if self.dtype == "float64" else np.complex64), True)

    def b(self, *shape: int) -> Any:
        """Truths."""
        return self._keep(np.asarray(self.random.standard_normal(shape) > 0), False)

    def n(self, low: int, high: int, *shape: int) -> Any:
        """Whole numbers from low to high - 1."""
        return self._keep(self.random.randint(low, high, shape, np.int64), False)

    def s(self, size: int) -> Any:
        """A matrix far from singular."""
        return self._numbers(self.random.standard_normal((size, size)) / size + 2 * np.eye(size))

    def h(self, size: int) -> Any:
        """A symmetric positive definite matrix."""
        half = self.random.standard_normal((size, size)) / size
        return self._numbers(half @ half.T + np.diag(np.arange(1.0, size + 1)))

    def _numbers(self, values: Any, above: int = 0) -> Any:
        values = np.asarray(values, np.float32)  # in float64 the same ones
        if self.dtype == "complex64":
            values = (values + 0.5j * values[..., ::-1] if values.ndim else values * (1 + 0.5j)).astype(np.complex64)
        elif self.dtype == "bool":
            values = values > above
        elif self.dtype in WHOLE:
            values = np.rint(3 * values).astype(WHOLE[self.dtype]) + above
        else:
            values = values.astype(FLOATING[self.dtype])
        return self._keep(values, True)

    def _keep(self, values: Any, differentiable: bool) -> Any:
        number = len(self.made)
        if number in self.given:
            tensor = self.given[number]
        else:
            tensor = self.torch.from_numpy(scattered(values) if self.scattered else np.array(values, order="C"))
            if self.dtype == "bfloat16" and differentiable and values.dtype == np.float32:
                tensor = tensor.to(self.torch.bfloat16)
            if differentiable and values.dtype.kind in "fc":
                self.numbers.append(number)
                tensor.requires_grad_(self.grad)
        self.made.append(tensor)
        return tensor


def scattered(values: np.ndarray) -> np.ndarray:
    """The same elements in column order and with gaps."""
    room = np.zeros([2 * n + 1 for n in reversed(values.shape)], values.dtype)
    place = room[(slice(1, None, 2),) * values.ndim].T
    place[...] = values
    return place


def weights(shape: tuple[int, ...], number: int) -> np.ndarray:
    """Fixed weights of an output's elements, of which a gradient is taken."""
    return np.asarray(np.random.RandomState(number).randint(-64, 65, shape) / 64.0 + 1 / 128.0)
