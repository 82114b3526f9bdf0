"""torch.utils.data.datapipes.iter.selecting: some of the items."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from flambeau.utils.data.datapipes._decorator import functional_datapipe
from flambeau.utils.data.datapipes.datapipe import IterDataPipe
from flambeau.utils.data.datapipes.utils.common import _check_unpickable_fn, validate_input_col

__all__ = ["FilterIterDataPipe"]


@functional_datapipe("filter")
class FilterIterDataPipe(IterDataPipe):
    """The items of which filter_fn, of them or of some of their columns, is true. ValueError where it gives no bool."""

    def __init__(self, datapipe: IterDataPipe, filter_fn: Callable[..., bool], input_col: Any = None) -> None:
        _check_unpickable_fn(filter_fn)
        self.datapipe, self.filter_fn, self.input_col = datapipe, filter_fn, input_col
        validate_input_col(filter_fn, input_col)

    def __iter__(self) -> Iterator[Any]:
        columns = self.input_col
        for item in self.datapipe:
            if columns is None:
                answer = self.filter_fn(item)
            elif isinstance(columns, (list, tuple)):
                answer = self.filter_fn(*[item[column] for column in columns])
            else:
                answer = self.filter_fn(item[columns])
            if not isinstance(answer, bool):
                raise ValueError("Boolean output is required for `filter_fn` of FilterIterDataPipe, got", type(answer))
            if answer:
                yield item
