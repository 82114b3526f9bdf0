"""All parameters as one vector, and back."""

from __future__ import annotations

from collections.abc import Iterable

import flambeau
from flambeau.core.tensor.tensor import Tensor


def _check_device(tensor: Tensor, device: object) -> object:
    """The device of the first tensor; TypeError where another differs."""
    if device is not None and tensor.device != device:
        raise TypeError("Found two parameters on different devices, this is currently not supported.")
    return tensor.device


def parameters_to_vector(parameters: Iterable[Tensor]) -> Tensor:
    """The parameters flattened and joined: (sum of numel)."""
    device = None
    parts = []
    for parameter in parameters:
        device = _check_device(parameter, device)
        parts.append(parameter.view(-1))
    return flambeau.cat(parts)


def vector_to_parameters(vec: Tensor, parameters: Iterable[Tensor]) -> None:
    """Write a vector (sum of numel) back into the parameters, which become views of it."""
    if not isinstance(vec, Tensor):
        raise TypeError(f"expected torch.Tensor, but got: {flambeau.typename(vec)}")
    device = None
    start = 0
    for parameter in parameters:
        device = _check_device(parameter, device)
        count = parameter.numel()
        parameter.data = vec[start : start + count].view_as(parameter).data
        start += count
