"""Datasets: what a DataLoader reads from, and ways to combine and divide them.

Stands on the tensor namespace only for random permutations. Used by the DataLoader and by programs.
"""

from __future__ import annotations

import bisect
import itertools
import math
import warnings
from abc import abstractmethod
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Generic, TypeVar

import flambeau

Item = TypeVar("Item", covariant=True)


class Dataset(Generic[Item]):
    """Items by key: subclasses write `__getitem__`, and usually `__len__`; `__getitems__`, for a list of keys, is optional."""

    def __getitem__(self, index: Any) -> Item:
        raise NotImplementedError("Subclasses of Dataset should implement __getitem__.")

    def __add__(self, other: Dataset[Item]) -> ConcatDataset[Item]:
        return ConcatDataset([self, other])


class IterableDataset(Dataset[Item], Iterable[Item]):
    """Items in the order in which they come: subclasses write `__iter__`. With several workers each iterates its own copy:
    divide the work by `get_worker_info()`."""

    @abstractmethod
    def __iter__(self) -> Iterator[Item]:
        """The items."""

    def __add__(self, other: Dataset[Item]) -> ChainDataset:  # type: ignore[override]
        return ChainDataset([self, other])


class TensorDataset(Dataset[tuple[Any, ...]]):
    """Rows of tensors: item i is (tensor[i], ...) for tensors of equal first dimension.

    Raises AssertionError if the first dimensions differ.
    """

    def __init__(self, *tensors: Any):
        if any(tensors[0].size(0) != tensor.size(0) for tensor in tensors):
            raise AssertionError("Size mismatch between tensors")
        self.tensors = tensors

    def __getitem__(self, index: Any) -> tuple[Any, ...]:
        return tuple(tensor[index] for tensor in self.tensors)

    def __len__(self) -> int:
        return self.tensors[0].size(0)


class StackDataset(Dataset[Any]):
    """Datasets of equal length side by side: items are tuples, or dicts if the datasets are given by name."""

    def __init__(self, *args: Dataset[Any], **kwargs: Dataset[Any]):
        if args and kwargs:
            raise ValueError(
                "Supported either ``tuple``- (via ``args``) or``dict``- (via ``kwargs``) like input/output, but both types "
                "are given."
            )
        if not args and not kwargs:
            raise ValueError("At least one dataset should be passed")
        self.datasets: Any = args or kwargs
        lengths = [len(dataset) for dataset in (args or kwargs.values())]  # type: ignore[arg-type]
        self._length = lengths[0]
        if any(length != self._length for length in lengths):
            raise ValueError("Size mismatch between datasets")

    def __getitem__(self, index: Any) -> Any:
        if isinstance(self.datasets, dict):
            return {name: dataset[index] for name, dataset in self.datasets.items()}
        return tuple(dataset[index] for dataset in self.datasets)

    def __getitems__(self, indices: list[Any]) -> list[Any]:
        if isinstance(self.datasets, dict):
            columns = [fetch_many(dataset, indices) for dataset in self.datasets.values()]
            return [dict(zip(self.datasets, row, strict=True)) for row in zip(*columns, strict=True)]
        return list(zip(*(fetch_many(dataset, indices) for dataset in self.datasets), strict=True))

    def __len__(self) -> int:
        return self._length


def fetch_many(dataset: Any, indices: list[Any]) -> list[Any]:
    """The items of several keys, by `__getitems__` where the dataset has it. Raises ValueError if it returns too few."""
    if callable(getattr(dataset, "__getitems__", None)):
        items = dataset.__getitems__(indices)
        if len(items) != len(indices):
            raise ValueError(f"Nested dataset's output size mismatch. Expected {len(indices)}, got {len(items)}")
        return items
    return [dataset[index] for index in indices]


class ConcatDataset(Dataset[Item]):
    """One dataset after the other. cumulative_sizes: where each ends."""

    datasets: list[Dataset[Item]]
    cumulative_sizes: list[int]

    @staticmethod
    def cumsum(sequence: Iterable[Any]) -> list[int]:
        """Running sums of the lengths."""
        return list(itertools.accumulate(len(element) for element in sequence))

    def __init__(self, datasets: Iterable[Dataset[Item]]):
        self.datasets = list(datasets)
        if not self.datasets:
            raise AssertionError("datasets should not be an empty iterable")
        if any(isinstance(dataset, IterableDataset) for dataset in self.datasets):
            raise AssertionError("ConcatDataset does not support IterableDataset")
        self.cumulative_sizes = self.cumsum(self.datasets)

    def __len__(self) -> int:
        return self.cumulative_sizes[-1]

    def __getitem__(self, index: int) -> Item:
        if index < 0:
            if -index > len(self):
                raise ValueError("absolute value of index should not exceed dataset length")
            index += len(self)
        which = bisect.bisect_right(self.cumulative_sizes, index)
        return self.datasets[which][index - (self.cumulative_sizes[which - 1] if which else 0)]

    @property
    def cummulative_sizes(self) -> list[int]:
        """The old spelling of cumulative_sizes."""
        warnings.warn("cummulative_sizes attribute is renamed to cumulative_sizes", DeprecationWarning, stacklevel=2)
        return self.cumulative_sizes


class ChainDataset(IterableDataset[Any]):
    """One iterable dataset after the other."""

    def __init__(self, datasets: Iterable[Dataset[Any]]):
        self.datasets = datasets

    def __iter__(self) -> Iterator[Any]:
        for dataset in self.datasets:
            if not isinstance(dataset, IterableDataset):
                raise AssertionError("ChainDataset only supports IterableDataset")
            yield from dataset

    def __len__(self) -> int:
        total = 0
        for dataset in self.datasets:
            if not isinstance(dataset, IterableDataset):
                raise AssertionError("ChainDataset only supports IterableDataset")
            total += len(dataset)  # type: ignore[arg-type]
        return total


class Subset(Dataset[Item]):
    """The items of a dataset at the given indices."""

    dataset: Dataset[Item]
    indices: Sequence[int]

    def __init__(self, dataset: Dataset[Item], indices: Sequence[int]):
        self.dataset = dataset
        self.indices = indices

    def __getitem__(self, index: Any) -> Item:
        if isinstance(index, list):
            return self.dataset[[self.indices[i] for i in index]]
        return self.dataset[self.indices[index]]

    def __getitems__(self, indices: list[int]) -> list[Item]:
        chosen = [self.indices[index] for index in indices]
        if callable(getattr(self.dataset, "__getitems__", None)):
            return self.dataset.__getitems__(chosen)  # type: ignore[attr-defined]
        return [self.dataset[index] for index in chosen]

    def __len__(self) -> int:
        return len(self.indices)


def random_split(dataset: Dataset[Item], lengths: Sequence[int | float], generator: Any = None) -> list[Subset[Item]]:
    """Divide a dataset at random into Subsets of the given lengths, or of the given fractions, which sum to 1.

    What fractions leave over by rounding down goes to the first parts, one item each. Raises ValueError if the lengths don't
    sum to the length of the dataset.
    """
    total = len(dataset)  # type: ignore[arg-type]
    if math.isclose(sum(lengths), 1) and sum(lengths) <= 1:
        sizes: list[int] = []
        for number, fraction in enumerate(lengths):
            if fraction < 0 or fraction > 1:
                raise ValueError(f"Fraction at index {number} is not between 0 and 1")
            sizes.append(math.floor(total * fraction))
        for number in range(total - sum(sizes)):
            sizes[number % len(sizes)] += 1
        for number, size in enumerate(sizes):
            if size == 0:
                warnings.warn(f"Length of split at index {number} is 0. This might result in an empty dataset.", stacklevel=2)
        lengths = sizes
    if sum(lengths) != total:
        raise ValueError("Sum of input lengths does not equal the length of the input dataset!")
    indices = flambeau.randperm(total, generator=generator).tolist()
    ends = list(itertools.accumulate(lengths))
    return [Subset(dataset, indices[end - size : end]) for end, size in zip(ends, lengths, strict=True)]  # type: ignore[misc]
