"""Operators as modules, whose results are observed and quantized: FloatFunctional and QFunctional. Stands on nn.modules."""

from __future__ import annotations

from typing import Any

import flambeau as torch
from flambeau.nn.modules import Identity, Module

__all__ = ["FXFloatFunctional", "FloatFunctional", "QFunctional"]


class FloatFunctional(Module):
    """The operators of a model that is to be quantized: `self.skip_add.add(x, y)` for x + y.

    The results go through `activation_post_process`, where an observer would be put.
    """

    def __init__(self) -> None:
        super().__init__()
        self.activation_post_process = Identity()

    def forward(self, x: Any) -> Any:
        """RuntimeError: call one of the operators."""
        raise RuntimeError("FloatFunctional is not intended to use the 'forward'. Please use the underlying operation")

    def add(self, x: Any, y: Any) -> Any:
        """x + y."""
        return self.activation_post_process(torch.add(x, y))

    def add_scalar(self, x: Any, y: float) -> Any:
        """x + y for a number y; the result isn't observed."""
        return torch.add(x, y)

    def mul(self, x: Any, y: Any) -> Any:
        """x * y."""
        return self.activation_post_process(torch.mul(x, y))

    def mul_scalar(self, x: Any, y: float) -> Any:
        """x * y for a number y; the result isn't observed."""
        return torch.mul(x, y)

    def cat(self, x: Any, dim: int = 0) -> Any:
        """The tensors of a list joined along `dim`."""
        return self.activation_post_process(torch.cat(x, dim=dim))

    def add_relu(self, x: Any, y: Any) -> Any:
        """relu(x + y)."""
        return self.activation_post_process(torch.nn.functional.relu(torch.add(x, y)))

    def matmul(self, x: Any, y: Any) -> Any:
        """x @ y."""
        return self.activation_post_process(torch.matmul(x, y))


class FXFloatFunctional(Module):
    """FloatFunctional without observers, for models that are prepared by graphs."""

    def forward(self, x: Any) -> Any:
        """RuntimeError: call one of the operators."""
        raise RuntimeError("FloatFunctional is not intended to use the 'forward'. Please use the underlying operation")

    def add(self, x: Any, y: Any) -> Any:
        """x + y."""
        return torch.add(x, y)

    def add_scalar(self, x: Any, y: float) -> Any:
        """x + y for a number y."""
        return torch.add(x, y)

    def mul(self, x: Any, y: Any) -> Any:
        """x * y."""
        return torch.mul(x, y)

    def mul_scalar(self, x: Any, y: float) -> Any:
        """x * y for a number y."""
        return torch.mul(x, y)

    def cat(self, x: Any, dim: int = 0) -> Any:
        """The tensors of a list joined along `dim`."""
        return torch.cat(x, dim=dim)

    def add_relu(self, x: Any, y: Any) -> Any:
        """relu(x + y)."""
        return torch.nn.functional.relu(torch.add(x, y))

    def matmul(self, x: Any, y: Any) -> Any:
        """x @ y."""
        return torch.matmul(x, y)


class QFunctional(Module):
    """The operators of FloatFunctional for quantized tensors, with a scale and zero point for their results."""

    def __init__(self) -> None:
        super().__init__()
        self.scale, self.zero_point = 1.0, 0
        self.activation_post_process = Identity()

    def _save_to_state_dict(self, destination: Any, prefix: str, keep_vars: bool) -> None:
        super()._save_to_state_dict(destination, prefix, keep_vars)
        destination[prefix + "scale"] = torch.tensor(self.scale)
        destination[prefix + "zero_point"] = torch.tensor(self.zero_point)

    def _load_from_state_dict(
        self,
        state_dict: Any,
        prefix: str,
        local_metadata: Any,
        strict: bool,
        missing_keys: list[str],
        unexpected_keys: list[str],
        error_msgs: list[str],
    ) -> None:
        self.scale = float(state_dict.pop(prefix + "scale"))
        self.zero_point = int(state_dict.pop(prefix + "zero_point"))
        super()._load_from_state_dict(state_dict, prefix, local_metadata, False, missing_keys, unexpected_keys, error_msgs)

    def _get_name(self) -> str:
        return "QFunctional"

    def extra_repr(self) -> str:
        return f"scale={self.scale}, zero_point={self.zero_point}"

    def forward(self, x: Any) -> Any:
        """RuntimeError: call one of the operators."""
        raise RuntimeError("Functional is not intended to use the 'forward'. Please use the underlying operation")

    def _observed(self, made: Any) -> Any:
        return self.activation_post_process(made)

    def add(self, x: Any, y: Any) -> Any:
        """x + y."""
        return self._observed(torch.ops.quantized.add(x, y, scale=self.scale, zero_point=self.zero_point))

    def add_scalar(self, x: Any, y: float) -> Any:
        """x + y for a number y; the scale follows from x."""
        return torch.ops.quantized.add_scalar(x, y)

    def mul(self, x: Any, y: Any) -> Any:
        """x * y."""
        return self._observed(torch.ops.quantized.mul(x, y, scale=self.scale, zero_point=self.zero_point))

    def mul_scalar(self, x: Any, y: float) -> Any:
        """x * y for a number y; the scale follows from x."""
        return torch.ops.quantized.mul_scalar(x, y)

    def cat(self, x: Any, dim: int = 0) -> Any:
        """The tensors of a list joined along `dim`."""
        return self._observed(torch.ops.quantized.cat(x, scale=self.scale, zero_point=self.zero_point, dim=dim))

    def add_relu(self, x: Any, y: Any) -> Any:
        """relu(x + y)."""
        return self._observed(torch.ops.quantized.add_relu(x, y, scale=self.scale, zero_point=self.zero_point))

    def matmul(self, x: Any, y: Any) -> Any:
        """x @ y."""
        return self._observed(torch.ops.quantized.matmul(x, y, scale=self.scale, zero_point=self.zero_point))

    @classmethod
    def from_float(cls, mod: Any, use_precomputed_fake_quant: bool = False) -> Any:
        """The module that an observed FloatFunctional becomes."""
        assert type(mod) is FloatFunctional, "QFunctional.from_float expects an instance of FloatFunctional"
        scale, zero_point = mod.activation_post_process.calculate_qparams()
        made = QFunctional()
        made.scale, made.zero_point = float(scale), int(zero_point)
        return made
