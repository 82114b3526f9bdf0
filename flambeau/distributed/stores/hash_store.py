"""A store for the threads of one process. Stands on table_store; programs and tests make it."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from datetime import timedelta
from typing import Any

from flambeau.base.locks import long_lock
from flambeau.base.naming import called
from flambeau.distributed.errors import DistStoreError
from flambeau.distributed.stores.table import Table
from flambeau.distributed.stores.table_store import TableStore


@called("distributed.distributed_c10d", "HashStore")
class HashStore(TableStore):
    """A table in memory, for the threads of this process."""

    def __init__(self) -> None:
        super().__init__()
        self._table = Table()
        self._changed = threading.Condition(long_lock())

    def _ask(self, request: str, *operands: Any) -> Any:
        with self._changed:
            answer = self._table.answer(request, *operands)
            self._changed.notify_all()
            return answer

    def _wait(self, keys: Sequence[str], timeout: timedelta) -> None:
        with self._changed:
            if not self._changed.wait_for(lambda: self._table.check(list(keys)), timeout.total_seconds()):
                raise DistStoreError("Wait timeout")
