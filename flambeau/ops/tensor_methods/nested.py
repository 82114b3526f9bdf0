"""Methods of every tensor that have to do with nested ones: of a dense tensor they raise. Stands on core.operator.variants;
attaches to Tensor.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from flambeau.core.operator.publishing import public
from flambeau.core.operator.unsupported import not_run
from flambeau.core.tensor.tensor import Tensor


def _rule(self: Tensor, name: str) -> Any:
    """What answers for a nested tensor. NotImplementedError for a dense one."""
    if getattr(self, "is_nested", False):
        found = self.rules.get(name)  # type: ignore[attr-defined]
        if found is None:
            raise self.refused(name, ())  # type: ignore[attr-defined]
        return found
    raise NotImplementedError(not_run(name, "CPU"))


@public(namespace=False)
def to_padded_tensor(self: Tensor, padding: float, output_size: Sequence[int] | None = None) -> Tensor:
    """The tensors of a nested tensor side by side in a dense one, with `padding` where they end.

    NotImplementedError for a dense tensor.
    """
    return _rule(self, "to_padded_tensor")(self, padding, output_size)


@public(namespace=False)
def _nested_tensor_size(self: Tensor) -> Tensor:
    """The sizes of the tensors of a strided nested tensor. NotImplementedError for a dense tensor."""
    return _rule(self, "_nested_tensor_size")(self)


@public(namespace=False)
def _nested_tensor_strides(self: Tensor) -> Tensor:
    """The strides of the tensors of a strided nested tensor. NotImplementedError for a dense tensor."""
    return _rule(self, "_nested_tensor_strides")(self)


@public(namespace=False)
def _nested_tensor_storage_offsets(self: Tensor) -> Any:
    """Where the tensors of a strided nested tensor begin. NotImplementedError for a dense tensor."""
    return _rule(self, "_nested_tensor_storage_offsets")(self)
