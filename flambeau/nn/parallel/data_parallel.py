"""DataParallel and data_parallel for machines without accelerators, where the module runs unchanged."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from flambeau.nn.modules.module import Module


def _refuse_devices(device_ids: Sequence[Any] | None) -> None:
    if device_ids:
        raise NotImplementedError(
            f"DataParallel over devices {list(device_ids)}: this build computes on the CPU; leave device_ids out to "
            "run the module as it is, or use several processes"
        )


class DataParallel(Module):
    """Splits the batch (dimension dim) over devices. Without devices a call is `module(*inputs)`."""

    def __init__(self, module: Module, device_ids: Sequence[Any] | None = None, output_device: Any = None, dim: int = 0) -> None:
        super().__init__()
        _refuse_devices(device_ids)
        self.module = module
        self.device_ids: list[Any] = []

    def forward(self, *inputs: Any, **kwargs: Any) -> Any:
        return self.module(*inputs, **kwargs)


def data_parallel(
    module: Module,
    inputs: Any,
    device_ids: Sequence[Any] | None = None,
    output_device: Any = None,
    dim: int = 0,
    module_kwargs: dict[str, Any] | None = None,
) -> Any:
    """module(*inputs) with the batch split over devices; without devices, the call itself."""
    _refuse_devices(device_ids)
    if not isinstance(inputs, tuple):
        inputs = () if inputs is None else (inputs,)
    return module(*inputs, **(module_kwargs or {}))
