"""torch.utils.data.datapipes.iter.callable: functions of each item."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator
from typing import Any

from flambeau.utils.data._utils.collate import default_collate
from flambeau.utils.data.datapipes._decorator import functional_datapipe
from flambeau.utils.data.datapipes.datapipe import IterDataPipe
from flambeau.utils.data.datapipes.utils.common import _check_unpickable_fn, validate_input_col

__all__ = ["CollatorIterDataPipe", "MapperIterDataPipe"]


@functional_datapipe("map")
class MapperIterDataPipe(IterDataPipe):
    """fn of each item, or of columns of it.

    input_col: which columns fn takes; output_col: which one its result becomes, the first of input_col's, whose others go, if it
    is None; -1: a further one at the end. ValueError for an output without an input.
    """

    def __init__(self, datapipe: IterDataPipe, fn: Callable[..., Any], input_col: Any = None, output_col: Any = None) -> None:
        _check_unpickable_fn(fn)
        if input_col is None and output_col is not None:
            raise ValueError("`output_col` must be None when `input_col` is None.")
        if isinstance(output_col, (list, tuple)):
            if len(output_col) > 1:
                raise ValueError("`output_col` must be a single-element list or tuple")
            output_col = output_col[0]
        self.datapipe, self.fn, self.input_col, self.output_col = datapipe, fn, input_col, output_col
        validate_input_col(fn, input_col)

    def _apply_fn(self, data: Any) -> Any:
        columns = self.input_col
        if columns is None:
            return self.fn(data)
        several = isinstance(columns, (list, tuple))
        result = self.fn(*[data[column] for column in columns]) if several else self.fn(data[columns])
        made = list(data) if isinstance(data, tuple) else copy.copy(data)
        if self.output_col is None:
            made[columns[0] if several else columns] = result
            for column in sorted(columns[1:], reverse=True) if several else ():
                del made[column]
        elif self.output_col == -1:
            made.append(result)
        else:
            made[self.output_col] = result
        return tuple(made) if isinstance(data, tuple) else made

    def __iter__(self) -> Iterator[Any]:
        for data in self.datapipe:
            yield self._apply_fn(data)

    def __len__(self) -> int:
        return len(self.datapipe)  # type: ignore[arg-type]


@functional_datapipe("collate")
class CollatorIterDataPipe(MapperIterDataPipe):
    """Tensors of batches: collate_fn, or conversion, of each. NotImplementedError for conversions by columns of tables."""

    def __init__(
        self,
        datapipe: IterDataPipe,
        conversion: Callable[..., Any] | dict[Any, Any] | None = default_collate,
        collate_fn: Callable[..., Any] | None = None,
    ) -> None:
        if collate_fn is None and not callable(conversion):
            raise NotImplementedError("collate(conversion={...}) is not implemented in flambeau: give a function of the batch")
        super().__init__(datapipe, fn=collate_fn if collate_fn is not None else conversion)  # type: ignore[arg-type]
