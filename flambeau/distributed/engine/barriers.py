"""Barriers of a group of the engine: by MPI, and by the store for saying who is missing.

Stands on calls; the group is made of it.
"""

from __future__ import annotations

import time
from datetime import timedelta
from typing import Any

from flambeau.distributed.engine.calls import Calls
from flambeau.distributed.engine.lists import options_of
from flambeau.distributed.errors import DistStoreError
from flambeau.distributed.fingerprints import Fingerprint
from flambeau.distributed.group_options import BarrierOptions
from flambeau.distributed.work import Work


class Barriers(Calls):
    """barrier and monitored_barrier."""

    def barrier(self, opts: Any = None) -> Work:
        """Complete when all ranks have called it."""
        opts = options_of(BarrierOptions, opts)
        begun = self._begin("barrier", [], timeout=opts.timeout)
        return self._work(begun, self._channel.barrier(begun[0]), [], opts)

    def monitored_barrier(self, timeout: timedelta | None = None, wait_all_ranks: bool = False) -> None:
        """A barrier through the store. After the timeout rank 0 raises RuntimeError that names the missing rank, or all."""
        seconds = self._seconds(timeout)
        number, self._barriers = self._barriers, self._barriers + 1
        milliseconds = round(seconds * 1000)
        self._world.begun(self._name, Fingerprint("monitored_barrier", []))
        self._store.set(f"barrier/{number}/{self._rank}", b"")
        if self._rank == 0:
            end = time.monotonic() + seconds
            missing = []
            for rank in range(self.size()):
                try:
                    self._store.wait([f"barrier/{number}/{rank}"], timedelta(seconds=max(end - time.monotonic(), 0.001)))
                except DistStoreError:
                    missing.append(rank)
                    if not wait_all_ranks:
                        break
            if missing:
                who = f"Ranks {', '.join(map(str, missing))}" if wait_all_ranks else f"Rank {missing[0]}"
                error = f"[Rank 0]: {who} failed to pass monitoredBarrier in {milliseconds} ms"
                self._store.set(f"barrier/{number}/open", error)
                raise RuntimeError(error)
            self._store.set(f"barrier/{number}/open", b"")
            return
        try:
            self._store.wait([f"barrier/{number}/open"], timedelta(seconds=seconds + 5))
            error = self._store.get(f"barrier/{number}/open").decode()
        except DistStoreError:
            error = f"Rank 0 failed to pass monitoredBarrier in {milliseconds} ms"
        if error:
            raise RuntimeError(
                f"Rank {self._rank} successfully reached monitoredBarrier, but received errors while waiting for send/recv from "
                f"rank 0. Please check rank 0 logs for faulty rank. ({error})"
            )
