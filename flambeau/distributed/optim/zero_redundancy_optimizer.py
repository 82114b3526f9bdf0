"""ZeroRedundancyOptimizer: each rank keeps the states of some of the parameters, and updates those for all.

The first stage of ZeRO (Rajbhandari et al. 2020: Memory Optimizations Toward Training Trillion Parameter Models). Parameters go
to ranks from the largest to the smallest, each to the rank with least so far. Stands on the collectives.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import flambeau as torch
from flambeau.distributed import distributed_c10d as c10d
from flambeau.distributed.algorithms.join import Join, Joinable, JoinHook

__all__ = ["ZeroRedundancyOptimizer"]


def _typename(value: Any) -> str:
    return torch.typename(value)


def _all_parameters(params: Any) -> tuple[list[Any], list[torch.Tensor]]:
    """What an optimizer is made of as a list, and the parameters in it."""
    if isinstance(params, torch.Tensor) or not isinstance(params, Iterable):
        wanted = "Tensors" if isinstance(params, torch.Tensor) else "Tensors or dicts"
        raise TypeError(f"`params` argument should be an iterable of {wanted}, but got {_typename(params)}")
    given = list(params)
    if not given:
        raise ValueError("ZeroRedundancyOptimizer got an empty parameter list")
    if all(isinstance(each, torch.Tensor) for each in given):
        found = given
    elif all(isinstance(each, dict) for each in given):
        if not all("params" in group for group in given):
            raise ValueError(
                "Each parameter group passed-in via `params` must have a 'params' key mapping to the parameters in the group"
            )
        found = [parameter for group in given for parameter in group["params"]]
    else:
        raise TypeError("`params` argument should be an iterable of Tensors or dicts")
    first = _typename(found[0])
    for parameter in found:
        if parameter.is_sparse or _typename(parameter) != first:
            both = f"got {first}" if parameter.is_sparse else f"got both {first} and {_typename(parameter)}"
            raise ValueError(f"ZeroRedundancyOptimizer only supports using the same dense type for all parameters but {both}")
    return given, found


class _JoinHook(JoinHook):
    """Of a process that has no data any more: it still steps, with the gradients that it has, since it owns states."""

    def __init__(self, zero: ZeroRedundancyOptimizer) -> None:
        self._zero = zero

    def main_hook(self) -> None:
        self._zero.step()


class ZeroRedundancyOptimizer(torch.optim.Optimizer, Joinable):
    """An optimizer whose states are divided over the ranks; parameters are sent to all after each step.

    Args:
        params: as of any optimizer, of one dense type, the same on every rank.
        optimizer_class: the optimizer, made on each rank of its own parameters with `defaults`.
        process_group: the ranks, by default all.
        parameters_as_bucket_view: taken for what it allows; what is sent together is joined for that.
        overlap_with_ddp: NotImplementedError: make the step after backward.
    """

    def __init__(
        self,
        params: Any,
        optimizer_class: type[torch.optim.Optimizer],
        process_group: Any = None,
        parameters_as_bucket_view: bool = False,
        overlap_with_ddp: bool = False,
        **defaults: Any,
    ) -> None:
        if overlap_with_ddp:
            raise NotImplementedError("overlap_with_ddp=True: leave it out, and call step() after backward()")
        given, _ = _all_parameters(params)
        self.initialized = False
        self.process_group = process_group if process_group is not None else c10d._get_default_group()
        self.world_size = c10d.get_world_size(self.process_group)
        self.rank = c10d.get_rank(self.process_group)
        torch.optim.Optimizer.__init__(self, given, defaults)
        Joinable.__init__(self)
        self._partition = self._divided()
        self.optim = optimizer_class(self._partition[self.rank], **defaults)
        self._consolidated: list[dict[str, Any]] = []
        self._settings(self.optim.param_groups, self.param_groups)
        for own in self.param_groups:  # those of which this rank has nothing know the defaults as well
            for key, value in self.optim.defaults.items():
                own.setdefault(key, value)
        self.initialized = True

    def _divided(self) -> list[list[dict[str, Any]]]:
        """Of each rank its parameter groups, as many as there are."""
        sizes = [0] * self.world_size
        result: list[list[dict[str, Any]]] = [[] for _ in sizes]
        for group in self.param_groups:
            for each in result:
                each.append({**group, "params": []})
            for parameter in sorted(group["params"], key=lambda p: p.numel(), reverse=True):
                rank = sizes.index(min(sizes))
                result[rank][-1]["params"].append(parameter)
                sizes[rank] += parameter.numel()
        # An optimizer takes no group without parameters: those have their place, but nobody's.
        return [[each for each in groups if each["params"]] or [_nothing(groups)] for groups in result]

    def add_param_group(self, param_group: dict[str, Any]) -> None:
        """Adds parameters. Every rank calls it."""
        super().add_param_group(param_group)
        if not self.initialized:
            return
        before = {id(p) for group in self.optim.param_groups for p in group["params"]}
        self._partition = self._divided()
        for group in self._partition[self.rank]:
            new = [p for p in group["params"] if id(p) not in before]
            if new:
                self.optim.add_param_group({**group, "params": new})

    def _owner(self) -> dict[int, int]:
        return {id(p): rank for rank, groups in enumerate(self._partition) for group in groups for p in group["params"]}

    def _settings(self, source: list[dict[str, Any]], target: list[dict[str, Any]]) -> None:
        """Copies the groups' settings, such as learning rates, by the parameters that they have."""
        of = {id(p): group for group in source for p in group["params"]}
        for group in target:
            found = next((of[id(p)] for p in group["params"] if id(p) in of), None)
            if found is not None:
                group.update({key: value for key, value in found.items() if key != "params"})

    def step(self, closure: Callable[[], float] | None = None, **kwargs: Any) -> Any:
        """The local optimizer's step, after which every rank sends what it updated. Every rank calls it."""
        Join.notify_join_context(self)
        self._settings(self.param_groups, self.optim.param_groups)
        loss = self.optim.step(**kwargs) if closure is None else self.optim.step(closure, **kwargs)
        self._settings(self.optim.param_groups, self.param_groups)
        self._send()
        return loss

    def join_hook(self, **kwargs: Any) -> JoinHook:
        """What Join calls when this process's data have ended."""
        return _JoinHook(self)

    @property
    def join_device(self) -> Any:
        """The device of its collectives."""
        return self.param_groups[0]["params"][0].device

    @property
    def join_process_group(self) -> Any:
        """The group of its collectives."""
        return self.process_group

    @torch.no_grad()
    def _send(self) -> None:
        for rank, groups in enumerate(self._partition):
            parameters = [p for group in groups for p in group["params"]]
            source = c10d.get_global_rank(self.process_group, rank)
            by_dtype: dict[Any, list[torch.Tensor]] = {}
            for parameter in parameters:
                by_dtype.setdefault(parameter.dtype, []).append(parameter)
            for same in by_dtype.values():
                flat = torch.cat([p.detach().reshape(-1) for p in same])
                c10d.broadcast(flat, src=source, group=self.process_group)
                if rank != self.rank:
                    for parameter, part in zip(same, flat.split([p.numel() for p in same]), strict=True):
                        parameter.data.copy_(part.view(parameter.shape))

    def consolidate_state_dict(self, to: int = 0) -> None:
        """Gathers all ranks' states on one, whose `state_dict` has them then. Every rank calls it."""
        found: list[Any] | None = [None] * self.world_size if self.rank == to else None
        target = c10d.get_global_rank(self.process_group, to)
        c10d.gather_object(self._own_states(), found, dst=target, group=self.process_group)
        self._consolidated = found or []

    def _own_states(self) -> dict[int, Any]:
        """This rank's states by the parameters' numbers among all."""
        numbers = {id(p): index for index, p in enumerate(p for group in self.param_groups for p in group["params"])}
        return {numbers[id(p)]: dict(state) for p, state in self.optim.state.items() if id(p) in numbers}

    def state_dict(self) -> dict[str, Any]:
        """The states of all parameters, as they were when `consolidate_state_dict` was called. RuntimeError where it wasn't."""
        if not self._consolidated:
            raise RuntimeError(
                "Optimizer state has not been consolidated on this rank. "
                f"Please call `consolidate_state_dict(to={self.rank})` on "
                "all ranks beforehand if you meant to save the global state."
            )
        result: dict[str, Any] = super().state_dict()
        result["state"] = dict(sorted((index, state) for each in self._consolidated for index, state in each.items()))
        return result

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Takes what `state_dict` gave; each rank keeps its own. The dict stays as it is."""
        parameters = [p for group in self.param_groups for p in group["params"]]
        owner = self._owner()
        for index, state in state_dict["state"].items():
            parameter = parameters[index]
            if owner[id(parameter)] == self.rank and state is not None:
                self.optim.state[parameter] = {
                    key: value.clone() if isinstance(value, torch.Tensor) else value for key, value in state.items()
                }
        super().load_state_dict({**state_dict, "state": {}})
        self._settings(self.param_groups, self.optim.param_groups)


def _nothing(groups: list[dict[str, Any]]) -> dict[str, Any]:
    """A group for a rank that has no parameters: an empty tensor, which a step leaves alone."""
    return {**groups[0], "params": [torch.nn.Parameter(torch.empty(0))]}
