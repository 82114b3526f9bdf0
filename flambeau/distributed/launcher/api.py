"""torch.distributed.launcher.api: starting a function or a command in several processes, from Python.

Stands on elastic.node_agent; run uses it.
"""

from __future__ import annotations

import signal
import uuid
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from flambeau.distributed.elastic.function_processes import FunctionCall
from flambeau.distributed.elastic.multiprocessing.api import DefaultLogsSpecs, LogsSpecs, Std, to_map
from flambeau.distributed.elastic.node_agent import Agent

__all__ = ["LaunchConfig", "elastic_launch", "launch_agent"]

_BACKENDS = ("static", "c10d")
_SIGNALS = "SIGTERM,SIGINT,SIGHUP,SIGQUIT"


@dataclass
class LaunchConfig:
    """How processes are started: on how many nodes, how many on each, where nodes meet, and what happens to failures and output.

    rdzv_endpoint: host:port; empty or port 0 for one node alone. rdzv_backend: "static" (node rank 0 keeps the store, and
    rdzv_configs["rank"] is the node's), else the first that comes at the address. start_method: of a function's processes.
    """

    min_nodes: int
    max_nodes: int
    nproc_per_node: int
    logs_specs: LogsSpecs | None = None
    run_id: str = ""
    role: str = "default"
    rdzv_endpoint: str = ""
    rdzv_backend: str = "c10d"
    rdzv_configs: dict[str, Any] = field(default_factory=dict)
    rdzv_timeout: int = -1
    max_restarts: int = 3
    monitor_interval: float = 0.1
    start_method: str = "spawn"
    log_line_prefix_template: str | None = None
    metrics_cfg: dict[str, str] = field(default_factory=dict)
    local_addr: str | None = None
    event_log_handler: str = "null"
    numa_options: Any = None
    signals_to_handle: str = _SIGNALS

    def __post_init__(self) -> None:
        if not 0 < self.min_nodes <= self.max_nodes:
            raise ValueError(f"numbers of nodes are MIN:MAX with 0 < MIN <= MAX, not {self.min_nodes}:{self.max_nodes}")
        if self.nproc_per_node < 1:
            raise ValueError(f"a node has at least one process, not {self.nproc_per_node}")
        if self.monitor_interval <= 0:
            raise ValueError(f"the seconds between two looks at the processes are more than 0, not {self.monitor_interval}")
        if self.rdzv_backend not in _BACKENDS:
            raise ValueError(f"nodes meet by the rendezvous backend {' or '.join(_BACKENDS)}, not {self.rdzv_backend!r}")
        if self.max_nodes > 1 and not self.rdzv_endpoint:
            raise ValueError("several nodes need an endpoint at which they meet, --rdzv-endpoint HOST:PORT")
        port = self.rdzv_endpoint.rpartition(":")[2]
        if ":" in self.rdzv_endpoint and not port.isdigit() and "]" not in port:
            raise ValueError(f"an endpoint is HOST:PORT, not {self.rdzv_endpoint!r}")
        for name in ("rank", "timeout", "join_timeout", "last_call_timeout"):
            try:
                float(self.rdzv_configs.get(name, 0))
            except ValueError:
                raise ValueError(f"{name} is a number, not {self.rdzv_configs[name]!r}") from None
        if self.numa_options is not None:
            raise NotImplementedError("processes aren't bound to memory nodes: leave numa_options out, and use numactl")
        self.logs_specs = self.logs_specs or DefaultLogsSpecs()
        for name in self.signals:
            if not isinstance(getattr(signal, name, None), signal.Signals):
                raise ValueError(f"there is no signal {name!r} to hand on")
        self.run_id = self.run_id or uuid.uuid4().hex

    @property
    def host(self) -> str:
        """The machine at which nodes meet."""
        return self.rdzv_endpoint.rpartition(":")[0].strip("[]") or self.rdzv_endpoint or "localhost"

    @property
    def port(self) -> int:
        """The port at which nodes meet; 0 leaves it to the system."""
        text = self.rdzv_endpoint.rpartition(":")[2] if ":" in self.rdzv_endpoint else ""
        return int(text) if text.isdigit() else 29400 if self.rdzv_endpoint and self.max_nodes > 1 else 0

    @property
    def node_rank(self) -> int:
        """This node's rank, -1 for the order of arrival."""
        return int(self.rdzv_configs.get("rank", -1)) if self.rdzv_backend == "static" else -1

    @property
    def keeps_store(self) -> bool | None:
        """Whether this node keeps the store; None: if the address is its own and free."""
        if self.max_nodes == 1:
            return True
        return self.node_rank == 0 if self.rdzv_backend == "static" else None

    @property
    def join_timeout(self) -> float:
        """Seconds that nodes wait for each other."""
        return float(
            self.rdzv_configs.get(
                "join_timeout", self.rdzv_configs.get("timeout", self.rdzv_timeout if self.rdzv_timeout > 0 else 900)
            )
        )

    @property
    def last_call_timeout(self) -> float:
        """Seconds for which the smallest number of nodes wait for more."""
        return float(self.rdzv_configs.get("last_call_timeout", 30))

    @property
    def signals(self) -> list[str]:
        """The signals that are handed on."""
        return [name.strip() for name in self.signals_to_handle.split(",") if name.strip()]

    def streams(self) -> tuple[list[Std], list[Std]]:
        """Of each process what goes to files only, and what is shown too."""
        assert self.logs_specs is not None
        redirects, tee = (to_map(each, self.nproc_per_node) for each in (self.logs_specs._redirects, self.logs_specs._tee))
        return [*redirects.values()], [*tee.values()]


class elastic_launch:
    """elastic_launch(config, entrypoint)(*args): a function or a command with these arguments in all processes, until they have
    ended. Returns what the function returned, of this node's processes by their ranks. Raises ChildFailedError if one fails for
    the last time.
    """

    def __init__(self, config: LaunchConfig, entrypoint: Callable[..., Any] | str | None) -> None:
        self._config, self._entrypoint = config, entrypoint

    def __call__(self, *args: Any) -> dict[int, Any]:
        return launch_agent(self._config, self._entrypoint, list(args))


def launch_agent(config: LaunchConfig, entrypoint: Callable[..., Any] | str | None, args: list[Any]) -> dict[int, Any]:
    """Run a function or a command; what it returned (None of a command) by the ranks of this node's processes."""
    if entrypoint is None:
        raise ValueError("elastic_launch needs a function or a command")
    if not isinstance(entrypoint, str):
        return Agent(config, entrypoint.__qualname__, FunctionCall(entrypoint, tuple(args), config.start_method)).run()
    name = next((str(arg) for arg in [*args] if str(arg).endswith(".py")), entrypoint)
    return Agent(config, name, [entrypoint, *map(str, args)]).run()
