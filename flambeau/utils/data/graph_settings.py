"""torch.utils.data.graph_settings: what the pipes that a pipe is made of are told: shares, seeds, whether they shuffle."""

from __future__ import annotations

import warnings
from typing import Any

import flambeau
from flambeau.utils.data.datapipes.iter.combinatorics import ShufflerIterDataPipe
from flambeau.utils.data.datapipes.iter.sharding import SHARDING_PRIORITIES, _ShardingIterDataPipe
from flambeau.utils.data.graph import DataPipeGraph, traverse_dps
from flambeau.utils.data.sampler import draw_seed

__all__ = ["apply_random_seed", "apply_sharding", "apply_shuffle_seed", "apply_shuffle_settings", "get_all_graph_pipes"]


def get_all_graph_pipes(graph: DataPipeGraph) -> list[Any]:
    """The pipes of a graph, each once."""
    found: dict[int, Any] = {}

    def collect(part: DataPipeGraph) -> None:
        for key, (pipe, inner) in part.items():
            if key not in found:
                found[key] = pipe
                collect(inner)

    collect(graph)
    return list(found.values())


def apply_sharding(
    datapipe: Any, num_of_instances: int, instance_id: int, sharding_group: Any = SHARDING_PRIORITIES.DEFAULT
) -> Any:
    """Divide the items among so many where the pipes have a sharding_filter. RuntimeError for two of them in a row."""

    def divide(graph: DataPipeGraph, divided: Any = None) -> None:
        for pipe, inner in graph.values():
            own = divided
            if isinstance(pipe, _ShardingIterDataPipe) or hasattr(pipe, "apply_sharding"):
                if divided is not None:
                    raise RuntimeError(
                        "Sharding twice on a single pipeline is likely unintended and will cause data loss. "
                        f"Sharding already applied to {divided} while trying to apply to {pipe}"
                    )
                if isinstance(pipe, _ShardingIterDataPipe):
                    pipe.apply_sharding(num_of_instances, instance_id, sharding_group)
                else:
                    pipe.apply_sharding(num_of_instances, instance_id)
                own = pipe
            divide(inner, own)

    divide(traverse_dps(datapipe))
    return datapipe


def _shuffles(pipe: Any) -> bool:
    return callable(getattr(pipe, "set_shuffle", None)) and callable(getattr(pipe, "set_seed", None))


def apply_shuffle_settings(datapipe: Any, shuffle: bool | None = None) -> Any:
    """Switch the pipes that shuffle on or off; returns the pipe, in one that shuffles if there was none to switch on."""
    if shuffle is None:
        return datapipe
    shufflers = [pipe for pipe in get_all_graph_pipes(traverse_dps(datapipe)) if _shuffles(pipe)]
    if shuffle and not shufflers:
        warnings.warn(
            "`shuffle=True` was set, but the datapipe does not contain a `Shuffler`. Adding one at the end. "
            "Be aware that the default buffer size might not be sufficient for your task.",
            stacklevel=2,
        )
        datapipe = ShufflerIterDataPipe(datapipe)
        shufflers = [datapipe]
    for pipe in shufflers:
        pipe.set_shuffle(shuffle)
    return datapipe


def apply_random_seed(datapipe: Any, rng: Any) -> Any:
    """Seed every pipe that has `set_seed` by a draw from the generator; returns the pipe."""
    for pipe in get_all_graph_pipes(traverse_dps(datapipe)):
        if callable(getattr(pipe, "set_seed", None)):
            pipe.set_seed(draw_seed(rng))
    return datapipe


apply_shuffle_seed = apply_random_seed


def begin_epoch(datapipe: Any, seed: int) -> None:
    """Seed the pipes of an epoch, alike in all workers that divide their items."""
    apply_random_seed(datapipe, flambeau.Generator().manual_seed(seed))
