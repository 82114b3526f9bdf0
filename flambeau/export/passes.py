"""torch.export.passes: changes of whole exported programs. Stands on exported_program; used by programs."""

from __future__ import annotations

from typing import Any

import flambeau as torch
import flambeau.utils._pytree as pytree
from flambeau.export.exported_program import ExportedProgram
from flambeau.fx.graph_module import GraphModule

__all__ = ["move_to_device_pass"]


def move_to_device_pass(ep: ExportedProgram, location: torch.device | str | dict[str, str]) -> ExportedProgram:
    """The program itself, with its state, constants, example inputs, and what its graph makes, on another device.

    location: the device, or from the devices there are to others.
    """

    def place(device: Any) -> str:
        if isinstance(location, dict):
            return location.get(str(device), str(device))
        return str(location)

    def moved(x: Any) -> Any:
        if isinstance(x, torch.nn.Parameter):
            return torch.nn.Parameter(x.detach().to(place(x.device)), x.requires_grad)
        return x.to(place(x.device)) if isinstance(x, torch.Tensor) else x

    for held in (ep._state_dict, ep._constants):
        held.update({name: moved(x) for name, x in held.items()})
    if ep.example_inputs is not None:
        args, kwargs = ep.example_inputs
        ep.example_inputs = (pytree.tree_map(moved, args), pytree.tree_map(moved, kwargs))
    for module in ep.graph_module.modules():
        if not isinstance(module, GraphModule):
            continue
        for node in module.graph.nodes:
            if node.kwargs.get("device") is not None:
                node.kwargs = {**node.kwargs, "device": torch.device(place(node.kwargs["device"]))}
            if node.target is torch.ops.aten.to.device:
                node.args = (node.args[0], torch.device(place(node.args[1])), *node.args[2:])
            if node.meta.get("val") is not None:
                node.meta["val"] = pytree.tree_map(moved, node.meta["val"])
        module.recompile()
    ep.validate()
    return ep
