"""torch.distributed.tensor's factories: zeros, ones, empty, full, rand, randn, where each rank makes its own part.

Stands on `_api`; offered by the room's face.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import flambeau as torch
from flambeau.distributed.device_mesh import DeviceMesh, _mesh_resources
from flambeau.distributed.tensor._api import DTensor
from flambeau.distributed.tensor._dtensor_spec import (
    DTensorSpec,
    TensorMeta,
    contiguous_stride,
    local_shape_and_offset,
    normalized,
)
from flambeau.distributed.tensor.placement_types import Placement

__all__ = ["empty", "full", "ones", "rand", "randn", "zeros"]


def _made(
    make: Callable[..., torch.Tensor],
    size: Sequence[Any],
    mesh: DeviceMesh | None,
    placements: Sequence[Placement] | None,
    requires_grad: bool,
    layout: torch.layout,
    **options: Any,
) -> DTensor:
    mesh = mesh or _mesh_resources.get_current_mesh()
    shape = torch.Size(size[0] if len(size) == 1 and isinstance(size[0], Sequence) else size)
    if placements is not None and len(placements) != mesh.ndim:
        raise AssertionError("mesh dimension does not match the length of placements")
    if layout is not torch.strided:
        raise AssertionError("layout value not supported!")
    placed = normalized(placements, len(shape), mesh)
    part, _ = local_shape_and_offset(shape, mesh, placed)
    local = make(part, device=mesh.device_type, **options)
    spec = DTensorSpec(mesh, placed, TensorMeta(shape, contiguous_stride(shape), local.dtype))
    return DTensor(local, spec, requires_grad=requires_grad)


def _factory(name: str) -> Callable[..., DTensor]:
    make = getattr(torch, name)

    def factory(
        *size: Any,
        dtype: torch.dtype | None = None,
        layout: torch.layout = torch.strided,
        requires_grad: bool = False,
        device_mesh: DeviceMesh | None = None,
        placements: Sequence[Placement] | None = None,
    ) -> DTensor:
        return _made(make, size, device_mesh, placements, requires_grad, layout, dtype=dtype)

    factory.__name__ = factory.__qualname__ = name
    factory.__doc__ = (
        f"As torch.{name}: a DTensor of this whole shape on the mesh (by default that of the `with` block), placed as said (by "
        f"default whole on every rank). Each rank makes its own part{', with its own random numbers' if 'rand' in name else ''}."
    )
    return factory


zeros = _factory("zeros")
ones = _factory("ones")
empty = _factory("empty")
rand = _factory("rand")
randn = _factory("randn")


def full(
    size: Sequence[int],
    fill_value: float,
    *,
    dtype: torch.dtype | None = None,
    layout: torch.layout = torch.strided,
    requires_grad: bool = False,
    device_mesh: DeviceMesh | None = None,
    placements: Sequence[Placement] | None = None,
) -> DTensor:
    """As torch.full: a DTensor of this whole shape filled with a number, of which each rank makes its own part."""
    return _made(torch.full, (size,), device_mesh, placements, requires_grad, layout, fill_value=fill_value, dtype=dtype)
