"""torch.distributed.tensor.parallel.api: parallelize_module, which applies styles to submodules by their names."""

from __future__ import annotations

import warnings
from fnmatch import fnmatch

from flambeau import nn
from flambeau.distributed.device_mesh import DeviceMesh, _mesh_resources
from flambeau.distributed.tensor.parallel.style import ParallelStyle

__all__ = ["parallelize_module"]


def parallelize_module(
    module: nn.Module,
    device_mesh: DeviceMesh | None = None,
    parallelize_plan: ParallelStyle | dict[str, ParallelStyle] | None = None,
    *,
    src_data_rank: int | None = 0,
) -> nn.Module:
    """Tensor parallelism: divides a module, in place, as a plan says, and returns it.

    Args:
        device_mesh: of one dimension (`mesh["tp"]`); by default that of the `with` block.
        parallelize_plan: a style for the module, or styles by submodules' names, whose parts may be patterns (`"layers.*.w1"`). A
            name that nothing has is warned of and left out.
        src_data_rank: the rank whose parameters count; None: each rank cuts its own.
    """
    mesh = device_mesh or _mesh_resources.get_current_mesh()
    if parallelize_plan is None:
        warnings.warn(
            "No parallelize_plan is provided and auto-parallel is not supported "
            "at the moment, so this parallelize_module call will do nothing.",
            stacklevel=2,
        )
        return module
    if isinstance(parallelize_plan, ParallelStyle):
        parallelize_plan.src_data_rank = src_data_rank
        return parallelize_plan._apply(module, mesh)
    if not isinstance(parallelize_plan, dict):
        raise TypeError(
            f"Expect Union[ParallelStyle, Dict[str, ParallelStyle]] for parallelize_plan, {type(parallelize_plan)} found!"
        )
    for path, style in parallelize_plan.items():
        token, _, rest = path.partition(".")
        if not path:
            parallelize_module(module, mesh, style, src_data_rank=src_data_rank)
            continue
        matched = [child for name, child in module.named_children() if fnmatch(name, token)]
        if not matched:
            warnings.warn(
                f"Parallelize plan key '{path}' could not be resolved: "
                f"no submodule matching token '{token}' in module {module}, "
                "skipping this plan entry.",
                stacklevel=2,
            )
        for child in matched:
            parallelize_module(child, mesh, {rest: style} if rest else style, src_data_rank=src_data_rank)
    return module
