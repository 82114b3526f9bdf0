"""DTensor: a tensor whose parts lie on the processes of a mesh, used as if it were whole.

What is called on it goes to `_dispatch`, below autograd, so that gradients are DTensors too. Making one and getting at the
parts is here; `_redistribute` moves parts, `_factories` makes them where they shall be. Stands on `core`'s wrapper subclasses.
"""

from __future__ import annotations

import inspect
import warnings
from collections.abc import Callable, Sequence
from typing import Any

import flambeau as torch
from flambeau import nn
from flambeau.distributed import distributed_c10d as c10d
from flambeau.distributed.device_mesh import DeviceMesh, _mesh_resources
from flambeau.distributed.tensor import _collectives as collectives
from flambeau.distributed.tensor._dtensor_spec import DTensorSpec, TensorMeta, normalized, whole_shape_and_stride
from flambeau.distributed.tensor._redistribute import Redistribute, gradient_placements, redistribute_local_tensor
from flambeau.distributed.tensor.placement_types import Partial, Placement, Replicate, Shard, _StridedShard

__all__ = ["DTensor", "distribute_module", "distribute_tensor"]


class _ToLocal(torch.autograd.Function):
    """The part on this rank; its gradient is the part of a gradient placed as the tensor, or as the caller says."""

    @staticmethod
    def forward(ctx: Any, input: DTensor, placements: tuple[Placement, ...] | None) -> torch.Tensor:
        ctx.spec, ctx.placements = input._spec, placements
        ctx.set_materialize_grads(False)
        return input._local_tensor.view_as(input._local_tensor)

    @staticmethod
    def backward(ctx: Any, gradient: torch.Tensor | None) -> tuple[DTensor | None, None]:  # type: ignore[override]
        if gradient is None:
            return None, None
        spec = ctx.spec
        placements = ctx.placements if ctx.placements is not None else gradient_placements(spec.placements)
        _, stride = whole_shape_and_stride(gradient, spec.mesh, spec.placements)
        return DTensor.from_local(gradient, spec.mesh, placements, shape=spec.shape, stride=tuple(stride)), None


class _FromLocal(torch.autograd.Function):
    """A DTensor of the ranks' parts; its gradient comes back as this rank's part, placed as the tensor or as the caller says."""

    @staticmethod
    def forward(
        ctx: Any, input: torch.Tensor, spec: DTensorSpec, placements: tuple[Placement, ...] | None, run_check: bool
    ) -> DTensor:
        ctx.spec, ctx.placements = spec, placements
        ctx.set_materialize_grads(False)
        if not spec.mesh._is_current_rank_part_of_mesh():
            input = input.new_empty(0)
        elif run_check:
            _check_alike(input, spec.mesh)
            for i, placement in enumerate(spec.placements):
                if placement.is_replicate():
                    input = collectives.broadcast_whole(input, spec.mesh.get_group(i), 0)
        return DTensor(input.view_as(input), spec, requires_grad=False)

    @staticmethod
    def backward(ctx: Any, gradient: DTensor | None) -> tuple[torch.Tensor | None, None, None, None]:  # type: ignore[override]
        if gradient is None:
            return None, None, None, None
        placements = ctx.placements if ctx.placements is not None else gradient_placements(ctx.spec.placements)
        if gradient.placements != placements:
            target = gradient._spec.with_placements(placements)
            return redistribute_local_tensor(gradient._local_tensor, gradient._spec, target), None, None, None
        return gradient.to_local(), None, None, None


def _check_alike(local: torch.Tensor, mesh: DeviceMesh) -> None:
    """ValueError where parts differ between the ranks in shape, stride, dtype or whether they have gradients."""
    own = tuple(local.shape), tuple(local.stride()), local.dtype, local.requires_grad
    for group in mesh.get_all_groups():
        every: list[Any] = [None] * c10d.get_world_size(group)
        c10d.all_gather_object(every, own, group=group)
        if any(other != own for other in every):
            raise ValueError("Inconsistent tensor metadata (including shape and stride) across ranks.")


class DTensor(torch.Tensor):
    """A tensor of which each process of a mesh holds a part, along each dimension of the mesh cut, whole, or to be reduced.

    Made by `distribute_tensor` from a whole tensor, by `DTensor.from_local` from the parts, or by this room's `zeros`, `rand` and
    their kin. Public operators take it, and communicate where the parts alone don't do.
    """

    _local_tensor: torch.Tensor
    _spec: DTensorSpec
    #: What answers operators: the module `_dispatch`, which stands on this class, puts its function here.
    _dispatch: Callable[[Any, tuple[Any, ...], dict[str, Any]], Any]

    @staticmethod
    def __new__(cls, local_tensor: torch.Tensor, spec: DTensorSpec, *, requires_grad: bool) -> DTensor:
        if local_tensor.requires_grad and not requires_grad:
            warnings.warn(
                "To construct DTensor from torch.Tensor, it's recommended to use local_tensor.detach() and make requires_grad "
                "consistent.",
                stacklevel=2,
            )
        meta = spec._meta
        result: DTensor = torch.Tensor._make_wrapper_subclass(
            cls,
            meta.shape,
            strides=meta.stride,
            dtype=local_tensor.dtype,
            device=local_tensor.device,
            layout=local_tensor.layout,
            requires_grad=requires_grad,
        )
        result._spec = spec
        result._local_tensor = local_tensor
        return result

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        """Not for users: see `from_local` and `distribute_tensor`."""

    __torch_function__ = torch._C._disabled_torch_function_impl

    @classmethod
    def __torch_dispatch__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        return cls._dispatch(func, args, kwargs or {})

    def __repr__(self, *, tensor_contents: Any = None) -> str:
        return f"DTensor(local_tensor={self._local_tensor}, device_mesh={self._spec.mesh}, placements={self._spec.placements})"

    def __tensor_flatten__(self) -> tuple[list[str], Any]:
        return ["_local_tensor"], (self._spec, self.requires_grad)

    @staticmethod
    def __tensor_unflatten__(inner_tensors: dict[str, Any], flatten_spec: Any, outer_size: Any, outer_stride: Any) -> DTensor:
        spec, requires_grad = flatten_spec
        meta = TensorMeta(torch.Size(outer_size), tuple(outer_stride), spec.tensor_meta.dtype)
        placed = DTensorSpec(spec.mesh, spec.placements, meta)
        return DTensor(inner_tensors["_local_tensor"], placed, requires_grad=requires_grad)

    @staticmethod
    def __elementwise_parts__(in_out: Sequence[torch.Tensor], inputs: Sequence[torch.Tensor]) -> Any:
        """Operands of an elementwise update as this rank's parts, all placed as the first; None if that can't be."""
        first = in_out[0]
        if not isinstance(first, DTensor) or first._spec.sums:
            return None
        mesh, placements = first.device_mesh, first.placements
        if any(not isinstance(x, DTensor) or (x.device_mesh, x.placements) != (mesh, placements) for x in in_out):
            return None
        parts = []
        for x in inputs:
            if isinstance(x, DTensor) and x.device_mesh == mesh:
                target = x._spec.with_placements(placements if x.ndim else (Replicate(),) * mesh.ndim)
                parts.append(redistribute_local_tensor(x._local_tensor, x._spec, target))
            elif x.ndim == 0 and not isinstance(x, DTensor):
                parts.append(x)
            else:
                return None
        return [x._local_tensor for x in in_out if isinstance(x, DTensor)], parts

    def __reduce_ex__(self, protocol: Any) -> Any:
        return _rebuilt, (self._local_tensor, self._spec, self.requires_grad)

    @staticmethod
    def from_local(
        local_tensor: torch.Tensor,
        device_mesh: DeviceMesh | None = None,
        placements: Sequence[Placement] | None = None,
        *,
        run_check: bool = False,
        shape: torch.Size | None = None,
        stride: tuple[int, ...] | None = None,
        grad_placements: Sequence[Placement] | None = None,
    ) -> DTensor:
        """The tensor whose part on this rank is `local_tensor`. Differentiable; nothing is sent unless `run_check`.

        Args:
            local_tensor: this rank's part, a plain tensor (RuntimeError for a DTensor).
            device_mesh: by default that of the `with` block.
            placements: one per dimension of the mesh; by default every rank has the whole tensor.
            run_check: the ranks compare their parts' shape, stride and dtype (ValueError where they differ), and replicas become
                those of the first rank of each dimension, which sends them.
            shape, stride: the whole tensor's, needed together where parts differ in size.
            grad_placements: how the gradient is placed when it comes back as a plain tensor.
        """
        if isinstance(local_tensor, DTensor):
            raise RuntimeError(f"the local_tensor argument only accepts torch.Tensor but got {type(local_tensor)} value.")
        mesh = device_mesh or _mesh_resources.get_current_mesh()
        if mesh.device_type != local_tensor.device.type and not local_tensor.is_meta:
            local_tensor = local_tensor.to(mesh.device_type)
        placed = normalized(placements, local_tensor.ndim, mesh)
        if (shape is None) != (stride is None):
            raise RuntimeError(f"Found shape:{shape}, stride:{stride}.", "Please pass both shape and stride at the same time.")
        if shape is None or stride is None:
            whole, steps = whole_shape_and_stride(local_tensor, mesh, placed)
            shape, stride = torch.Size(whole), tuple(steps)
        spec = DTensorSpec(mesh, placed, TensorMeta(torch.Size(shape), tuple(stride), local_tensor.dtype))
        gradients = tuple(grad_placements) if grad_placements is not None else None
        result: DTensor = _FromLocal.apply(local_tensor, spec, gradients, run_check)
        return result

    def to_local(self, *, grad_placements: Sequence[Placement] | None = None) -> torch.Tensor:
        """This rank's part, in the same memory. Differentiable: the gradient is taken for one placed as this tensor is (whole
        where this is partial), or as `grad_placements` says."""
        if not torch.is_grad_enabled():
            return self._local_tensor
        result: torch.Tensor = _ToLocal.apply(self, tuple(grad_placements) if grad_placements is not None else None)
        return result

    def redistribute(
        self,
        device_mesh: DeviceMesh | None = None,
        placements: Sequence[Placement] | None = None,
        *,
        async_op: bool = False,
        forward_dtype: torch.dtype | None = None,
        backward_dtype: torch.dtype | None = None,
    ) -> DTensor:
        """The same tensor with other placements, by collectives where parts have to move. Differentiable.

        Args:
            device_mesh: the tensor's own; NotImplementedError for another.
            placements: one per dimension of the mesh. RuntimeError without them, and where one becomes partial.
            async_op: taken for what it allows: the result is ready at once.
            forward_dtype, backward_dtype: what parts are cast to before they are sent, by default not at all.
        """
        mesh = device_mesh or self.device_mesh
        if placements is None:
            raise RuntimeError("placements is needed for redistribute!")
        for own, placement in zip(self.placements, placements, strict=False):
            if placement.is_partial() and own != placement:
                raise RuntimeError(
                    f"Can not redistribute from {own} to {placement}, redistributing to Partial is for internal use only!"
                )
        if mesh != self.device_mesh:
            raise NotImplementedError("Cross device mesh comm not supported yet!")
        placed = normalized(placements, self.ndim, mesh)
        result: DTensor = Redistribute.apply(self, placed, forward_dtype, backward_dtype)
        return result

    def full_tensor(self, *, grad_placements: Sequence[Placement] | None = None) -> torch.Tensor:
        """The whole tensor, on every rank. Differentiable."""
        whole = self.redistribute(placements=[Replicate()] * self.device_mesh.ndim)
        result: torch.Tensor = _ToLocal.apply(whole, tuple(grad_placements) if grad_placements is not None else None)
        return result

    @property
    def device_mesh(self) -> DeviceMesh:
        """The mesh that the parts lie on."""
        return self._spec.mesh

    @property
    def placements(self) -> tuple[Placement, ...]:
        """How the parts lie along each dimension of the mesh."""
        return self._spec.placements


def _rebuilt(local: torch.Tensor, spec: DTensorSpec, requires_grad: bool) -> DTensor:
    return DTensor(local, spec, requires_grad=requires_grad)


def distribute_tensor(
    tensor: torch.Tensor,
    device_mesh: DeviceMesh | None = None,
    placements: Sequence[Placement] | None = None,
    *,
    src_data_rank: int | None = 0,
) -> DTensor:
    """A whole tensor, cut and sent as the placements say.

    Args:
        tensor: the whole tensor, a leaf. A DTensor is returned if it is placed so already.
        device_mesh: by default that of the `with` block.
        placements: one per dimension of the mesh; by default every rank gets the whole. Parts are those of torch.chunk.
        src_data_rank: the rank, in each dimension of the mesh, whose data counts; None: each cuts its own, nothing is sent.

    Raises RuntimeError for a tensor that isn't a leaf, ValueError for placements that don't fit the mesh.
    """
    mesh = device_mesh or _mesh_resources.get_current_mesh()
    if not tensor.is_leaf:
        raise RuntimeError("`distribute_tensor` should be used to distribute leaf tensors! but found non-leaf tensor!")
    if mesh.device_type != tensor.device.type and not tensor.is_meta:
        tensor = tensor.to(mesh.device_type)
    if placements is not None and len(placements) != mesh.ndim:
        raise ValueError(
            "`placements` must have the same length as `device_mesh.ndim`! "
            f"Found placements length: {len(placements)}, and device_mesh.ndim: {mesh.ndim}."
        )
    placed = normalized(placements, tensor.ndim, mesh)
    if isinstance(tensor, DTensor):
        if tensor.device_mesh != mesh:
            raise ValueError(
                f"Cannot distribute a DTensor with device mesh {tensor.device_mesh} to a different device mesh {mesh}."
            )
        if tensor.placements != placed:
            raise ValueError(
                f"Cannot distribute a DTensor with placements {tensor.placements} "
                f"to a different placements {placed}. do you want to call "
                "`redistribute` instead?"
            )
        return tensor
    local = tensor.detach()
    if mesh._is_current_rank_part_of_mesh():
        for i, placement in enumerate(placed):
            if not isinstance(placement, _StridedShard):
                local = _placed(local, mesh, i, placement, src_data_rank)
        for i, placement in enumerate(placed):
            if isinstance(placement, _StridedShard):  # cut last, as everywhere
                local = _placed(local, mesh, i, Shard(placement.dim), src_data_rank)
    else:
        local = local.new_empty(0)
    spec = DTensorSpec(mesh, placed, TensorMeta(tensor.size(), tensor.stride(), tensor.dtype))
    return DTensor(local, spec, requires_grad=tensor.requires_grad)


def _shard_tensor(full_tensor: torch.Tensor, placements: Sequence[Placement], device_mesh: DeviceMesh | None = None) -> DTensor:
    """distribute_tensor of a tensor that all ranks have: each cuts its own part, and nothing is sent."""
    return distribute_tensor(full_tensor, device_mesh, placements, src_data_rank=None)


def _placed(local: torch.Tensor, mesh: DeviceMesh, i: int, placement: Placement, source: int | None) -> torch.Tensor:
    """What a placement along one dimension of the mesh makes of a tensor that all its ranks have."""
    place = mesh.get_coordinate()
    assert place is not None
    sends = source is not None and not local.is_meta
    if isinstance(placement, Shard):
        if sends:
            return collectives.scatter_parts(local, placement.dim, mesh.get_group(i), source or 0)
        return collectives.cut(local, placement.dim, mesh.size(i), place[i])
    if sends:
        local = collectives.broadcast_whole(local, mesh.get_group(i), source or 0)
    if isinstance(placement, Partial):
        if placement.reduce_op == "sum":
            return local / mesh.size(i)
        return local
    if not placement.is_replicate():
        raise RuntimeError(f"Trying to distribute tensor with unsupported placements {placement} on device mesh dimension {i}!")
    return local


def distribute_module(
    module: nn.Module,
    device_mesh: DeviceMesh | None = None,
    partition_fn: Callable[[str, nn.Module, DeviceMesh], None] | None = None,
    input_fn: Callable[..., Any] | None = None,
    output_fn: Callable[..., Any] | None = None,
) -> nn.Module:
    """The module, its parameters and buffers made DTensors in place.

    Args:
        partition_fn: called with each submodule's name, the submodule and the mesh, to distribute its parameters as it likes;
            what it leaves is replicated.
        input_fn: `(module, inputs, mesh)`, run before the forward; what it returns are the inputs.
        output_fn: `(module, outputs, mesh)`, run after it.
    """
    if getattr(module, "_distribute_module_applied", False):
        raise RuntimeError(
            "distribute_module should only be called once on a module, but it has already been called on this module!"
        )
    mesh = device_mesh or _mesh_resources.get_current_mesh()
    for name, part in module.named_modules():
        if partition_fn is not None:
            partition_fn(name, part, mesh)
        _replicate_rest(part, mesh)
    if input_fn is not None:
        before = _hook("input_fn", "inputs", input_fn, mesh)
        module.register_forward_pre_hook(lambda module, inputs: before(module, inputs))
    if output_fn is not None:
        after = _hook("output_fn", "outputs", output_fn, mesh)
        module.register_forward_hook(lambda module, inputs, outputs: after(module, outputs))
    module._distribute_module_applied = True
    return module


def _replicate_rest(module: nn.Module, mesh: DeviceMesh) -> None:
    for name, parameter in module._parameters.items():
        if parameter is not None and not isinstance(parameter, DTensor):
            whole = nn.Parameter(distribute_tensor(parameter.data, mesh), requires_grad=parameter.requires_grad)
            module.register_parameter(name, whole)
    for name, buffer in module._buffers.items():
        if buffer is not None and not isinstance(buffer, DTensor):
            module._buffers[name] = distribute_tensor(buffer, mesh)


def _hook(argument: str, values: str, function: Callable[..., Any], mesh: DeviceMesh) -> Callable[[nn.Module, Any], Any]:
    """`function` as (module, values): with the module, or as it was once, without."""
    count = len(inspect.signature(function).parameters)
    if count == 2:
        warnings.warn(
            f"Deprecating {argument} that takes two arguments ({values}, device_mesh), "
            f"please use {argument} that takes in (module, {values}, device_mesh) instead!",
            FutureWarning,
            stacklevel=4,
        )
        return lambda module, given: function(given, mesh)
    if count == 3:
        return lambda module, given: function(module, given, mesh)
    raise ValueError(f"{argument} should take in 3 arguments, but got {count} arguments!")
