"""The steps in which ranks write a state dict. Used by `state_dict_saver`, and by the process of `_background`."""

from __future__ import annotations

from typing import Any

from flambeau.distributed.checkpoint._storage_utils import call_with_known
from flambeau.distributed.checkpoint._together import Together
from flambeau.distributed.checkpoint.metadata import Metadata
from flambeau.distributed.checkpoint.planner import SavePlanner
from flambeau.distributed.checkpoint.storage import StorageWriter

__all__ = ["write_together"]


def write_together(
    state_dict: dict[str, Any], writer: StorageWriter, planner: SavePlanner, together: Together, use_collectives: bool = True
) -> Metadata:
    """Plans, writes and finishes; every rank of `together` calls it, unless each is to write for itself."""
    central: list[Metadata] = []

    def plan() -> Any:
        planner.set_up_planner(state_dict, writer.storage_meta(), together.is_coordinator)
        call_with_known(
            writer.set_up_storage_writer, together.is_coordinator, rank=together.rank, use_collectives=use_collectives
        )
        return writer.prepare_local_plan(planner.create_local_plan())

    def bring_together(plans: list[Any]) -> list[Any]:
        made, metadata = call_with_known(planner.create_global_plan, plans, whole=use_collectives)
        central.append(metadata)
        return writer.prepare_global_plan(made)

    def finish(results: list[Any]) -> Metadata:
        writer.finish(central[0], results)
        return central[0]

    if not use_collectives:
        (own,) = bring_together([plan()])
        return finish([writer.write_data(planner.finish_plan(own), planner).wait()])
    own = together.reduce_scatter("plan", plan, bring_together)

    def write() -> Any:
        return writer.write_data(planner.finish_plan(own), planner).wait()

    result: Metadata = together.all_reduce("write", write, finish)
    return result
