"""CommDebugMode: a block whose collectives are counted, in all and by the module and the pass that they are made in.

Stands on `distributed.watching`, which tells of collectives, and on `_modules`, which knows what runs.
"""

from __future__ import annotations

import json
from collections import defaultdict
from typing import Any

import flambeau as torch
from flambeau.distributed import copying_collectives as copying_collectives  # defines the operators counted by
from flambeau.distributed import watching
from flambeau.distributed.tensor._api import DTensor
from flambeau.distributed.tensor.debug._modules import RunningModules

__all__ = ["CommDebugMode"]

_YELLOW, _PLAIN = "\033[1;33m", "\033[0m"


class CommDebugMode:
    """Counts the collectives that begin inside the block, on any thread of this process.

    Those that DTensors and `_functional_collectives` make count as `torch.ops.c10d_functional.*`, those of torch.distributed, DDP
    and fully_shard as `torch.ops.c10d.*`; a tensor that becomes cut along another dimension counts as one
    `torch.ops._dtensor.shard_dim_alltoall`. A block that is entered again begins at nought.

        mode = CommDebugMode()
        with mode:
            model(x).sum().backward()
        mode.get_comm_counts()[torch.ops.c10d_functional.all_reduce]
    """

    def __init__(self) -> None:
        self._forget()

    def _forget(self) -> None:
        self.comm_counts: defaultdict[Any, int] = defaultdict(int)
        self._modules = RunningModules()
        # by the module's name ("Global" for all), then the pass ("forward", "backward")
        self.comm_module_counts: defaultdict[str, defaultdict[str, defaultdict[Any, int]]] = defaultdict(
            lambda: defaultdict(lambda: defaultdict(int))
        )

    def __enter__(self) -> CommDebugMode:
        self._forget()
        self._modules.begin()
        watching.listeners.append(self._heard)
        return self

    def __exit__(self, *_: Any) -> None:
        watching.listeners.remove(self._heard)
        self._modules.end()

    def _heard(self, namespace: str, name: str) -> None:
        operator = getattr(getattr(torch.ops, namespace), name)
        self.comm_counts[operator] += 1
        module, backward = self._modules.now()
        for place in ("Global", *self._modules.path_of(module)):
            self.comm_module_counts[place]["backward" if backward else "forward"][operator] += 1

    def get_total_counts(self) -> int:
        """How many collectives there were."""
        return sum(self.comm_counts.values())

    def get_comm_counts(self) -> dict[Any, int]:
        """How many there were of each operator; nought for those that weren't."""
        return self.comm_counts

    def get_parameter_info(self) -> dict[str, dict[str, Any]]:
        """The parameters of each module that ran and has some, by the module's name and theirs."""
        return {name: module for name, module in self._modules.parameters.items() if module}

    def get_sharding_info(self) -> dict[str, Any]:
        """The placements of each parameter that is a DTensor, by its name."""
        return {
            f"{name}.{own}": parameter.placements
            for name, module in self._modules.parameters.items()
            for own, parameter in module.items()
            if isinstance(parameter, DTensor)
        }

    def _only_counts(self, noise_level: int) -> None:
        if noise_level != 0:
            raise NotImplementedError(
                f"noise_level={noise_level} lists operators, which aren't recorded here; noise_level=0 lists collectives by "
                "module"
            )

    def generate_comm_debug_tracing_table(self, noise_level: int = 3) -> str:
        """Collectives by module and pass as text. noise_level: 0; NotImplementedError for those that list operators too."""
        self._only_counts(noise_level)
        lines = []
        for name in ("", *self._modules.parameters):
            depth = len(self._modules.path_of(name))
            lines.append("    " * depth + (name or "Global"))
            for when in ("forward", "backward"):
                counts = self.comm_module_counts[name or "Global"][when]
                if counts:
                    lines.append("    " * depth + f"  {when.upper()} PASS")
                    lines += [
                        f"{_YELLOW}{'    ' * (depth + 1)}*{operator}: {count}{_PLAIN}" for operator, count in counts.items()
                    ]
        return "\n".join(lines) + "\n"

    def log_comm_debug_tracing_table_to_file(self, file_name: str = "comm_mode_log.txt", noise_level: int = 3) -> None:
        """Writes `generate_comm_debug_tracing_table` to a file, without colours."""
        table = self.generate_comm_debug_tracing_table(noise_level)
        with open(file_name, "w") as stream:
            stream.write(table.replace(_YELLOW, "").replace(_PLAIN, ""))

    def generate_json_dump(self, file_name: str = "comm_mode_log.json", noise_level: int = 3) -> None:
        """Writes the same as a tree of modules to a JSON file."""
        self._only_counts(noise_level)

        def tree(name: str) -> dict[str, Any]:
            below = [each for each in self._modules.parameters if self._modules.parent_of(each) == name]
            module = self._modules.parameters.get(name, {})
            made = self.comm_module_counts[name or "Global"]
            counts = {
                when: [{"name": str(operator), "count": count} for operator, count in made[when].items()]
                for when in ("forward", "backward")
            }
            return {
                "fqn": name or "Global",
                "module_type": self._modules.kinds.get(name, ""),
                "parameters": [[own, str(p.placements)] for own, p in module.items() if isinstance(p, DTensor)],
                "children": [tree(each) for each in below],
                "collectives_forward": counts["forward"],
                "collectives_backward": counts["backward"],
                "operations_forward": [],
                "operations_backward": [],
            }

        with open(file_name, "w") as stream:
            json.dump(tree(""), stream, indent=4)

    def __repr__(self) -> str:
        return f"CommDebugMode(get_total_counts()={self.get_total_counts()})"
