"""How one module is divided over the ranks of a mesh: parameters distributed, inputs and outputs placed.

A style's parameters become DTensors (`distribute_module`), and hooks place what goes in and comes out. Used by
`parallel.api.parallelize_module`.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any

import flambeau as torch
from flambeau import nn
from flambeau.distributed.device_mesh import DeviceMesh
from flambeau.distributed.tensor._api import DTensor, distribute_module, distribute_tensor
from flambeau.distributed.tensor.placement_types import Placement, Replicate, Shard

__all__ = [
    "ColwiseParallel", "ParallelStyle", "PrepareModuleInput", "PrepareModuleInputOutput", "PrepareModuleOutput",
    "RowwiseParallel", "SequenceParallel",
]  # fmt: skip

Layouts = Placement | tuple[Placement | None, ...]


class ParallelStyle(ABC):
    """How a module is parallelized: subclasses say what `_apply` makes of it."""

    src_data_rank: int | None = 0

    @abstractmethod
    def _apply(self, module: nn.Module, device_mesh: DeviceMesh) -> nn.Module:
        """Parallelizes the module in place."""


def _placed(value: Any, mesh: DeviceMesh, layout: Placement, desired: Placement) -> DTensor:
    """A tensor that lies as `layout` says (unless it is a DTensor, which knows) as one that lies as `desired`."""
    tensor = value if isinstance(value, DTensor) else DTensor.from_local(value, mesh, (layout,), run_check=False)
    return tensor if tensor.placements == (desired,) else tensor.redistribute(placements=(desired,))


class _Dividing(ParallelStyle):
    """A style that divides the parameters of linear layers and embeddings."""

    #: By the kind of module: how each parameter is placed, and what the input has to be.
    _parameters: dict[type[nn.Module], dict[str, Placement]]
    input_layouts: tuple[Placement]
    output_layouts: tuple[Placement]
    use_local_output: bool

    def _desired_input(self, module: nn.Module) -> Placement:
        raise NotImplementedError

    def _kind(self, module: nn.Module) -> type[nn.Module]:
        for kind in self._parameters:
            if isinstance(module, kind):
                return kind
        raise NotImplementedError(f"{type(self).__name__} currently only support nn.Linear and nn.Embedding!")

    def _apply(self, module: nn.Module, device_mesh: DeviceMesh) -> nn.Module:
        placements = self._parameters[self._kind(module)]
        desired = self._desired_input(module)

        def divide(name: str, part: nn.Module, mesh: DeviceMesh) -> None:
            for own, parameter in list(part.named_parameters(recurse=False)):
                whole = distribute_tensor(parameter.data, mesh, [placements[own]], src_data_rank=self.src_data_rank)
                part.register_parameter(own, nn.Parameter(whole, requires_grad=parameter.requires_grad))

        def inputs(part: nn.Module, given: tuple[Any, ...], mesh: DeviceMesh) -> Any:
            return (_placed(given[0], mesh, self.input_layouts[0], desired), *given[1:])

        def outputs(part: nn.Module, made: DTensor, mesh: DeviceMesh) -> torch.Tensor:
            if made.placements != self.output_layouts:
                made = made.redistribute(placements=self.output_layouts)
            return made.to_local() if self.use_local_output else made

        return distribute_module(module, device_mesh, divide, inputs, outputs)


class ColwiseParallel(_Dividing):
    """Each rank computes some of the outputs of an nn.Linear, or some of the features of an nn.Embedding.

    Args:
        input_layouts: how the input lies, if it is a plain tensor; by default every rank has it.
        output_layouts: how the output shall lie; by default cut along its last dimension, as it arises.
        use_local_output: hand out each rank's part rather than a DTensor.
    """

    _parameters = {nn.Linear: {"weight": Shard(0), "bias": Shard(0)}, nn.Embedding: {"weight": Shard(1)}}

    def __init__(
        self, *, input_layouts: Placement | None = None, output_layouts: Placement | None = None, use_local_output: bool = True
    ) -> None:
        self.input_layouts = (input_layouts or Replicate(),)
        self.output_layouts = (output_layouts or Shard(-1),)
        self.use_local_output = use_local_output

    def _desired_input(self, module: nn.Module) -> Placement:
        return Replicate()


class RowwiseParallel(_Dividing):
    """Each rank has some of the inputs of an nn.Linear, or some of the rows of an nn.Embedding; what they give is summed.

    Args:
        input_layouts: how the input lies, if it is a plain tensor; by default cut along its last dimension.
        output_layouts: how the output shall lie; by default every rank gets it, by all-reduce. `Shard`: by reduce-scatter.
        use_local_output: hand out each rank's part rather than a DTensor.
    """

    _parameters = {nn.Linear: {"weight": Shard(1), "bias": Replicate()}, nn.Embedding: {"weight": Shard(0)}}

    def __init__(
        self, *, input_layouts: Placement | None = None, output_layouts: Placement | None = None, use_local_output: bool = True
    ) -> None:
        self.input_layouts = (input_layouts or Shard(-1),)
        self.output_layouts = (output_layouts or Replicate(),)
        self.use_local_output = use_local_output

    def _desired_input(self, module: nn.Module) -> Placement:
        return Replicate() if isinstance(module, nn.Embedding) else Shard(-1)


class SequenceParallel(ParallelStyle):
    """A norm or dropout computed on parts of the sequence; its parameters are whole on every rank.

    Args:
        sequence_dim: the input's dimension that is cut.
        use_local_output: hand out each rank's part rather than a DTensor.
    """

    def __init__(self, *, sequence_dim: int = 1, use_local_output: bool = False) -> None:
        self.sequence_sharding = (Shard(sequence_dim),)
        self.use_local_output = use_local_output

    def _apply(self, module: nn.Module, device_mesh: DeviceMesh) -> nn.Module:
        def replicate(name: str, part: nn.Module, mesh: DeviceMesh) -> None:
            for own, parameter in list(part.named_parameters(recurse=False)):
                # Norms begin with ones, alike on every rank, so nothing is sent.
                whole = DTensor.from_local(parameter.data, mesh, [Replicate()], run_check=False)
                part.register_parameter(own, nn.Parameter(whole, requires_grad=parameter.requires_grad))

        def inputs(part: nn.Module, given: tuple[Any, ...], mesh: DeviceMesh) -> Any:
            if not isinstance(given[0], torch.Tensor):
                raise ValueError(f"expecting input of {part} to be a torch.Tensor or DTensor, but got {given[0]}")
            cut = self.sequence_sharding[0]
            return (_placed(given[0], mesh, cut, cut), *given[1:])

        def outputs(part: nn.Module, made: DTensor, mesh: DeviceMesh) -> torch.Tensor:
            return made.to_local() if self.use_local_output else made

        return distribute_module(module, device_mesh, replicate, inputs, outputs)


def _several(layouts: Layouts | None) -> tuple[Placement | None, ...] | None:
    return (layouts,) if isinstance(layouts, Placement) else layouts


def _prepare(value: Any, mesh: DeviceMesh, layout: Placement | None, desired: Placement | None, local: bool) -> Any:
    """One input or output; None for its layout: it stays as it is."""
    if layout is None:
        return value
    if not isinstance(value, torch.Tensor):
        raise AssertionError("expecting input to be a torch.Tensor!")
    made = _placed(value, mesh, layout, layout if desired is None else desired) if not isinstance(value, DTensor) else value
    if desired is not None and made.placements != (desired,):
        made = made.redistribute(placements=(desired,))
    return made.to_local() if local else made


class PrepareModuleInput(ParallelStyle):
    """Places a module's inputs; the module itself stays as it is.

    Args:
        input_layouts, desired_input_layouts: how each positional input lies and how it shall lie; None leaves it alone.
        input_kwarg_layouts, desired_input_kwarg_layouts: the same by keyword.
        use_local_output: hand the module each rank's part rather than a DTensor.
    """

    def __init__(
        self,
        *,
        input_layouts: Layouts | None = None,
        desired_input_layouts: Layouts | None = None,
        input_kwarg_layouts: dict[str, Placement] | None = None,
        desired_input_kwarg_layouts: dict[str, Placement] | None = None,
        use_local_output: bool = False,
    ) -> None:
        self.input_layouts = _several(input_layouts)
        self.desired_input_layouts = _several(desired_input_layouts)
        self.use_local_output = use_local_output
        if self.input_layouts is not None:
            if self.desired_input_layouts is None:
                raise AssertionError("desired module inputs should not be None!")
            if len(self.input_layouts) != len(self.desired_input_layouts):
                raise AssertionError("input_layouts and desired_input_layouts should have same length!")
        self.with_kwargs = input_kwarg_layouts is not None
        self.input_kwarg_layouts = input_kwarg_layouts or {}
        self.desired_input_kwarg_layouts = desired_input_kwarg_layouts or {}
        if self.with_kwargs and len(self.input_kwarg_layouts) != len(self.desired_input_kwarg_layouts):
            raise AssertionError("input_kwarg_layouts and desired_input_kwarg_layouts should have same length!")

    def _positional(self, inputs: Any, mesh: DeviceMesh) -> Any:
        if self.input_layouts is None or self.desired_input_layouts is None:
            return inputs
        given = inputs if isinstance(inputs, tuple) else (inputs,)
        if len(given) != len(self.input_layouts):
            raise ValueError("module inputs and input_layouts should have same length!")
        each = zip(given, self.input_layouts, self.desired_input_layouts, strict=True)
        return tuple(_prepare(value, mesh, layout, desired, self.use_local_output) for value, layout, desired in each)

    def _apply(self, module: nn.Module, device_mesh: DeviceMesh) -> nn.Module:
        def before(part: nn.Module, given: Any, named: dict[str, Any]) -> Any:
            placed = {
                name: _prepare(
                    value,
                    device_mesh,
                    self.input_kwarg_layouts.get(name),
                    self.desired_input_kwarg_layouts.get(name),
                    self.use_local_output,
                )
                for name, value in named.items()
            }
            return self._positional(given, device_mesh), placed

        if self.with_kwargs:
            module.register_forward_pre_hook(before, with_kwargs=True)
        else:
            module.register_forward_pre_hook(lambda part, given: self._positional(given, device_mesh))
        return module


class PrepareModuleOutput(ParallelStyle):
    """Places a module's outputs; the module itself stays as it is.

    Args:
        output_layouts, desired_output_layouts: how each output lies and how it shall lie; None leaves it alone.
        use_local_output: hand out each rank's part rather than a DTensor.
    """

    def __init__(self, *, output_layouts: Layouts, desired_output_layouts: Layouts, use_local_output: bool = True) -> None:
        self.output_layouts = _several(output_layouts) or ()
        self.desired_output_layouts = _several(desired_output_layouts) or ()
        self.use_local_output = use_local_output
        if len(self.output_layouts) != len(self.desired_output_layouts):
            raise AssertionError("output_layouts and desired_output_layouts should have same length!")

    def _apply(self, module: nn.Module, device_mesh: DeviceMesh) -> nn.Module:
        def after(part: nn.Module, given: Any, outputs: Any) -> Any:
            made = outputs if isinstance(outputs, tuple) else (outputs,)
            if len(made) != len(self.output_layouts):
                raise ValueError("module outputs and output_layouts should have same length!")
            each = zip(made, self.output_layouts, self.desired_output_layouts, strict=True)
            placed = tuple(
                _prepare(value, device_mesh, layout, desired, self.use_local_output) for value, layout, desired in each
            )
            return placed if isinstance(outputs, tuple) else placed[0]

        module.register_forward_hook(after)
        return module


class PrepareModuleInputOutput(ParallelStyle):
    """PrepareModuleInput and PrepareModuleOutput of one module, with their arguments (`use_local_input` for the first's)."""

    def __init__(
        self,
        *,
        input_layouts: Layouts | None = None,
        desired_input_layouts: Layouts | None = None,
        input_kwarg_layouts: dict[str, Placement] | None = None,
        desired_input_kwarg_layouts: dict[str, Placement] | None = None,
        use_local_input: bool = False,
        output_layouts: Layouts,
        desired_output_layouts: Layouts,
        use_local_output: bool = True,
    ) -> None:
        self.prepare_module_input = PrepareModuleInput(
            input_layouts=input_layouts,
            desired_input_layouts=desired_input_layouts,
            input_kwarg_layouts=input_kwarg_layouts,
            desired_input_kwarg_layouts=desired_input_kwarg_layouts,
            use_local_output=use_local_input,
        )
        self.prepare_module_output = PrepareModuleOutput(
            output_layouts=output_layouts, desired_output_layouts=desired_output_layouts, use_local_output=use_local_output
        )

    def _apply(self, module: nn.Module, device_mesh: DeviceMesh) -> nn.Module:
        self.prepare_module_input._apply(module, device_mesh)
        self.prepare_module_output._apply(module, device_mesh)
        return module
