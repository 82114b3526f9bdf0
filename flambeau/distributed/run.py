"""torch.distributed.run: the command that starts the processes of a training, `torchrun`.

    torchrun --nproc-per-node 2 SCRIPT --epochs 3
    torchrun --nnodes 2 --node-rank 0 --master-addr host0 --master-port 29500 --nproc-per-node 8 SCRIPT
    torchrun --nnodes 1:4 --rdzv-endpoint host0:29400 --rdzv-id job7 --max-restarts 3 SCRIPT

Each process gets RANK, LOCAL_RANK, WORLD_SIZE, MASTER_ADDR and MASTER_PORT, which init_process_group reads. If one fails, all are
ended and, as often as --max-restarts says, begun again. Stands on launcher.api; the console scripts call main.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Callable, Sequence
from typing import Any

from flambeau.distributed.elastic.multiprocessing.api import DefaultLogsSpecs, SignalException, Std
from flambeau.distributed.elastic.multiprocessing.errors import ChildFailedError
from flambeau.distributed.elastic.node_agent import LOCAL_RANK
from flambeau.distributed.errors import DistError
from flambeau.distributed.launcher.api import LaunchConfig, elastic_launch

__all__ = [
    "config_from_args",
    "determine_local_world_size",
    "get_args_parser",
    "main",
    "parse_args",
    "parse_min_max_nnodes",
    "run",
]

_MASTER_PORT = 29500


class _FromEnvironment(argparse.Action):
    """An option whose default is PET_<NAME> of the environment."""

    def __init__(self, dest: str, default: Any = None, **kwargs: Any) -> None:
        super().__init__(dest=dest, default=os.environ.get(f"PET_{dest.upper()}", default), **kwargs)

    def __call__(self, parser: Any, namespace: Any, values: Any, option_string: str | None = None) -> None:
        setattr(namespace, self.dest, values)


class _FlagFromEnvironment(argparse.Action):
    """An option without a value, that PET_<NAME>=1 of the environment sets."""

    def __init__(self, dest: str, **kwargs: Any) -> None:
        super().__init__(dest=dest, nargs=0, default=os.environ.get(f"PET_{dest.upper()}", "0") == "1", **kwargs)

    def __call__(self, parser: Any, namespace: Any, values: Any, option_string: str | None = None) -> None:
        setattr(namespace, self.dest, True)


def get_args_parser() -> argparse.ArgumentParser:
    """The parser of the command's options, each of which may be written with dashes or underscores."""
    parser = argparse.ArgumentParser(prog="torchrun", description="Start the processes of a distributed training.")

    def option(name: str, *more: str, **kwargs: Any) -> None:
        parser.add_argument(
            *more,
            f"--{name}",
            *({f"--{name.replace('-', '_')}"} - {f"--{name}"}),
            action=_FromEnvironment,
            dest=name.replace("-", "_"),
            **kwargs,
        )

    def flag(name: str, *more: str, **kwargs: Any) -> None:
        parser.add_argument(
            *more,
            f"--{name}",
            *({f"--{name.replace('-', '_')}"} - {f"--{name}"}),
            action=_FlagFromEnvironment,
            dest=name.replace("-", "_"),
            **kwargs,
        )

    option("nnodes", default="1:1", help="number of nodes, or MIN:MAX")
    option("nproc-per-node", default="1", help="processes of each node: a number, auto or cpu")
    option("rdzv-backend", default="static", help="how nodes meet: static (by --node-rank) or c10d (as they come)")
    option("rdzv-endpoint", default="", help="where nodes meet: host[:port]")
    option("rdzv-id", default="none", help="the name of this run")
    option("rdzv-conf", default="", help="further settings: timeout=900,last_call_timeout=30,join_timeout=600")
    flag("standalone", help="one node, which needs no address")
    option("max-restarts", type=int, default=0, help="how often processes are begun again after a failure")
    option("monitor-interval", type=float, default=0.1, help="seconds between two looks at the processes")
    option("start-method", default="spawn", choices=["spawn", "fork", "forkserver"], help="taken, and of no effect on commands")
    option("event-log-handler", default="null", help="taken, and of no effect")
    option("role", default="default", help="a name of the processes, in logs")
    flag("module", "-m", help="the program is a module, as with python -m")
    flag("no-python", help="the program is any command")
    flag("run-path", help="run the program by runpy in the process itself: taken as a script")
    option("log-dir", default=None, help="a folder for the processes' output")
    option("redirects", "-r", default="0", help="what goes to files only: 0 none, 1 stdout, 2 stderr, 3 both; or 0:1,1:3")
    option("tee", "-t", default="0", help="what goes to files and is shown with a prefix: as --redirects")
    option("local-ranks-filter", default="", help="whose output is shown: 0,1")
    option("node-rank", type=int, default=0, help="this node's rank")
    option("master-addr", default="127.0.0.1", help="where nodes meet: node rank 0")
    option("master-port", type=int, default=_MASTER_PORT, help="its port")
    option("local-addr", default=None, help="taken, and of no effect")
    option("signals-to-handle", default="SIGTERM,SIGINT,SIGHUP,SIGQUIT", help="signals that are handed on")
    option("numa-binding", default=None, help="taken, and of no effect")
    option("logs-specs", default=None, help="taken, and of no effect")
    parser.add_argument("training_script", help="the program")
    parser.add_argument("training_script_args", nargs=argparse.REMAINDER, help="its arguments")
    return parser


def parse_args(args: Sequence[str] | None = None) -> argparse.Namespace:
    """The command's options."""
    return get_args_parser().parse_args(args)


def parse_min_max_nnodes(nnodes: str) -> tuple[int, int]:
    """(least, most) of "2" or "1:4". Raises RuntimeError for anything else."""
    parts = str(nnodes).split(":")
    if len(parts) > 2 or not all(part.strip().isdigit() for part in parts):
        raise RuntimeError(f'nnodes={nnodes} is not in "MIN:MAX" format')
    return int(parts[0]), int(parts[-1])


def determine_local_world_size(nproc_per_node: str) -> int:
    """How many processes a number, "cpu" or "auto" means: "cpu" and "auto" are as many as there are cores."""
    text = str(nproc_per_node)
    if text.isdigit():
        return int(text)
    if text in ("cpu", "auto"):
        return os.cpu_count() or 1
    if text == "gpu":
        raise ValueError("Cuda is not available.")
    raise ValueError(f"Unsupported nproc_per_node value: {nproc_per_node}")


def _settings(text: str) -> dict[str, str]:
    made = {}
    for part in filter(None, text.split(",")):
        name, equals, value = part.partition("=")
        if not equals:
            raise ValueError(f"--rdzv-conf takes <name>=<value>,..., not {part!r}")
        made[name.strip()] = value.strip()
    return made


def config_from_args(args: argparse.Namespace) -> tuple[LaunchConfig, str, list[str]]:
    """(configuration, command, its arguments) of the options. Raises ValueError or RuntimeError for those that can't be."""
    least, most = parse_min_max_nnodes(args.nnodes)
    settings: dict[str, Any] = _settings(args.rdzv_conf)
    backend, endpoint, run_id = args.rdzv_backend, args.rdzv_endpoint, args.rdzv_id
    if args.standalone:
        if most != 1:
            raise ValueError("--standalone is one node: leave --nnodes out")
        backend, endpoint, run_id = "c10d", "localhost:0", ""
    elif backend == "static":
        if not endpoint:
            endpoint = f"{args.master_addr}:{args.master_port}"
        settings["rank"] = args.node_rank
        if least != most:
            if args.rdzv_endpoint:
                backend = "c10d"  # an elastic number of nodes has no fixed ranks
            else:
                raise ValueError("--nnodes MIN:MAX needs --rdzv-endpoint, at which nodes meet as they come")
        elif most > 0 and not 0 <= args.node_rank < most:
            raise ValueError(f"--node-rank {args.node_rank} is not one of {most} nodes")
    shown = None
    if args.local_ranks_filter:
        ranks = args.local_ranks_filter.split(",")
        if not all(rank.strip().isdigit() for rank in ranks):
            raise ValueError(f"--local-ranks-filter takes local ranks, 0,1, not {args.local_ranks_filter!r}")
        shown = {int(rank) for rank in ranks}
    config = LaunchConfig(
        min_nodes=least,
        max_nodes=most,
        nproc_per_node=determine_local_world_size(args.nproc_per_node),
        run_id=run_id,
        role=args.role,
        rdzv_endpoint=endpoint,
        rdzv_backend=backend,
        rdzv_configs=settings,
        max_restarts=int(args.max_restarts),
        monitor_interval=float(args.monitor_interval),
        signals_to_handle=args.signals_to_handle,
        logs_specs=DefaultLogsSpecs(args.log_dir, Std.from_str(str(args.redirects)), Std.from_str(str(args.tee)), shown),
    )
    if args.no_python:
        if args.module:
            raise ValueError("Don't use both the '--no-python' flag and the '--module' flag at the same time.")
        return config, args.training_script, args.training_script_args
    python = os.environ.get("PYTHON_EXEC", sys.executable)
    words = ["-u", *(["-m"] if args.module else []), args.training_script, *args.training_script_args]
    return config, python, words


def run(args: argparse.Namespace, local_rank_argument: bool = False) -> None:
    """Start the processes, and wait until they have ended. local_rank_argument: programs get `--local-rank=N` first."""
    config, command, words = config_from_args(args)
    if local_rank_argument:
        words.insert(len(words) - len(args.training_script_args), f"--local-rank={LOCAL_RANK}")
    if config.nproc_per_node > 1 and "OMP_NUM_THREADS" not in os.environ:
        print(
            f"torchrun: OMP_NUM_THREADS is 1 in each of {config.nproc_per_node} processes, so that they don't compete for "
            "cores; set it for more",
            file=sys.stderr,
        )
    elastic_launch(config, command)(*words)


def guarded(call: Callable[[], None]) -> int:
    """The exit status of a launch: 1 after a failure, 128 and its number after a signal. Says what failed."""
    try:
        call()
    except ChildFailedError as error:
        print(error, file=sys.stderr)
        return 1
    except SignalException as error:
        print(f"torchrun: {error}", file=sys.stderr)
        return 128 + error.sigval
    except (DistError, ValueError, RuntimeError, OSError) as error:
        print(f"torchrun: {error}", file=sys.stderr)
        return 1
    return 0


def main(args: Sequence[str] | None = None) -> int:
    """The command; returns the exit status."""
    parsed = parse_args(args)
    return guarded(lambda: run(parsed))


if __name__ == "__main__":
    sys.exit(main())
