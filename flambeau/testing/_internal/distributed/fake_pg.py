"""torch.testing._internal.distributed.fake_pg: importing it makes init_process_group("fake", store=FakeStore(), ...) possible.

One process then is a rank of any world, without the others: for planning. Stands on distributed.fake_group.
"""

from __future__ import annotations

from typing import Any

import flambeau.distributed as dist
from flambeau.distributed.fake_group import FakeProcessGroup

__all__ = ["FakeProcessGroup", "FakeStore"]


class FakeStore(dist.Store):
    """A store for worlds of one process: it keeps nothing."""


def _create_fake_pg(common_opts: Any, backend_opts: Any) -> FakeProcessGroup:
    return FakeProcessGroup._create_internal(common_opts.group_rank, common_opts.group_size, backend_opts)


dist.Backend.register_backend(dist.Backend.FAKE, _create_fake_pg, extended_api=True, devices=["cpu", "cuda", "hpu", "xpu"])
