"""Samplers: the order in which a DataLoader takes the items of a dataset.

From the same seed the orders are PyTorch's. Stands on the tensor namespace (randperm, randint, multinomial).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence, Sized
from typing import Any, Generic, TypeVar

import flambeau

Item = TypeVar("Item", covariant=True)
#: RandomSampler with replacement draws this many indices at a time.
CHUNK = 32


def draw_seed(generator: Any = None) -> int:
    """A seed from the generator (None: the default one); one draw of 64 bits."""
    return int(flambeau.empty((), dtype=flambeau.int64).random_(generator=generator).item())


def is_count(value: Any) -> bool:
    """Whether this is a positive integer, and no bool."""
    return isinstance(value, int) and not isinstance(value, bool) and value > 0


class Sampler(Generic[Item]):
    """What gives the keys in order: subclasses write `__iter__`, and `__len__` if they know it."""

    def __iter__(self) -> Iterator[Item]:
        raise NotImplementedError


class SequentialSampler(Sampler[int]):
    """0, 1, 2, ..."""

    data_source: Sized

    def __init__(self, data_source: Sized):
        self.data_source = data_source

    def __iter__(self) -> Iterator[int]:
        return iter(range(len(self.data_source)))

    def __len__(self) -> int:
        return len(self.data_source)


class RandomSampler(Sampler[int]):
    """A random order: each item once, or `num_samples` of them, with replacement if wanted.

    Without a generator each iteration draws its seed from the default one. Raises TypeError and ValueError for arguments of
    the wrong kind.
    """

    data_source: Sized
    replacement: bool

    def __init__(self, data_source: Sized, replacement: bool = False, num_samples: int | None = None, generator: Any = None):
        self.data_source = data_source
        self.replacement = replacement
        self._num_samples = num_samples
        self.generator = generator
        if not isinstance(replacement, bool):
            raise TypeError(f"replacement should be a boolean value, but got replacement={replacement}")
        if not isinstance(self.num_samples, int) or self.num_samples <= 0:
            raise ValueError(f"num_samples should be a positive integer value, but got num_samples={self.num_samples}")

    @property
    def num_samples(self) -> int:
        """How many indices one iteration gives."""
        return len(self.data_source) if self._num_samples is None else self._num_samples

    def __iter__(self) -> Iterator[int]:
        count = len(self.data_source)
        generator = self.generator
        if generator is None:
            generator = flambeau.Generator()
            generator.manual_seed(draw_seed())
        if self.replacement:
            for start in range(0, self.num_samples, CHUNK):
                size = min(CHUNK, self.num_samples - start)
                yield from flambeau.randint(0, count, (size,), dtype=flambeau.int64, generator=generator).tolist()
            return
        for _ in range(self.num_samples // count):
            yield from flambeau.randperm(count, generator=generator).tolist()
        # PyTorch draws this permutation also where nothing is left, and later draws depend on it.
        yield from flambeau.randperm(count, generator=generator).tolist()[: self.num_samples % count]

    def __len__(self) -> int:
        return self.num_samples


class SubsetRandomSampler(Sampler[int]):
    """The given indices in random order."""

    indices: Sequence[int]

    def __init__(self, indices: Sequence[int], generator: Any = None):
        self.indices = indices
        self.generator = generator

    def __iter__(self) -> Iterator[int]:
        for number in flambeau.randperm(len(self.indices), generator=self.generator).tolist():
            yield self.indices[number]

    def __len__(self) -> int:
        return len(self.indices)


class WeightedRandomSampler(Sampler[int]):
    """Indices 0 .. len(weights) - 1 drawn with probabilities proportional to the weights, which need not sum to 1.

    Raises ValueError for arguments of the wrong kind.
    """

    weights: Any
    num_samples: int
    replacement: bool

    def __init__(self, weights: Sequence[float], num_samples: int, replacement: bool = True, generator: Any = None):
        if not is_count(num_samples):
            raise ValueError(f"num_samples should be a positive integer value, but got num_samples={num_samples}")
        if not isinstance(replacement, bool):
            raise ValueError(f"replacement should be a boolean value, but got replacement={replacement}")
        tensor = flambeau.as_tensor(weights, dtype=flambeau.float64)
        if len(tensor.shape) != 1:
            raise ValueError(f"weights should be a 1d sequence but given weights have shape {tuple(tensor.shape)}")
        self.weights = tensor
        self.num_samples = num_samples
        self.replacement = replacement
        self.generator = generator

    def __iter__(self) -> Iterator[int]:
        drawn = flambeau.multinomial(self.weights, self.num_samples, self.replacement, generator=self.generator)
        yield from iter(drawn.tolist())

    def __len__(self) -> int:
        return self.num_samples


class BatchSampler(Sampler[list[int]]):
    """Lists of `batch_size` keys of another sampler; drop_last leaves a short last one out."""

    def __init__(self, sampler: Sampler[int] | Iterable[int], batch_size: int, drop_last: bool):
        if not is_count(batch_size):
            raise ValueError(f"batch_size should be a positive integer value, but got batch_size={batch_size}")
        if not isinstance(drop_last, bool):
            raise ValueError(f"drop_last should be a boolean value, but got drop_last={drop_last}")
        self.sampler = sampler
        self.batch_size = batch_size
        self.drop_last = drop_last

    def __iter__(self) -> Iterator[list[int]]:
        batch = []
        for key in self.sampler:
            batch.append(key)
            if len(batch) == self.batch_size:
                yield batch
                batch = []
        if batch and not self.drop_last:
            yield batch

    def __len__(self) -> int:
        count = len(self.sampler)  # type: ignore[arg-type]
        return count // self.batch_size if self.drop_last else -(-count // self.batch_size)
