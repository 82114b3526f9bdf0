"""Datasets, samplers, collate and the loader in one process: orders, errors and texts as recorded from PyTorch 2.13."""

import collections
import warnings

import numpy as np
import pytest

import flambeau as torch
from flambeau.utils.data import (
    BatchSampler,
    ChainDataset,
    ConcatDataset,
    DataLoader,
    Dataset,
    DistributedSampler,
    IterableDataset,
    RandomSampler,
    StackDataset,
    SubsetRandomSampler,
    TensorDataset,
    WeightedRandomSampler,
    default_collate,
    default_convert,
    get_worker_info,
    random_split,
)


class Count(Dataset):
    def __init__(self, length=6):
        self.length = length

    def __len__(self):
        return self.length

    def __getitem__(self, index):
        return index


class Stream(IterableDataset):
    def __iter__(self):
        return iter(range(5))


class OwnIterator(IterableDataset):
    """Begins again whenever it is asked for its iterator, which it is itself; goes on after its end."""

    def __iter__(self):
        self.given = 0
        return self

    def __next__(self):
        self.given += 1
        if self.given % 6 == 0:
            raise StopIteration
        return self.given


class WrongLength(Stream):
    def __len__(self):
        return 2


def batches(loader):
    return [batch.tolist() for batch in loader]


def next_draw():
    return int(torch.empty((), dtype=torch.int64).random_().item())


# (what is iterated after manual_seed(7), the order, the next draw from the default generator)
ORDERS = {
    "sequence": (lambda: batches(DataLoader(Count(), batch_size=2)), [[0, 1], [2, 3], [4, 5]], 5163590386780219894),
    "shuffle": (
        lambda: batches(DataLoader(Count(), batch_size=2, shuffle=True)), [[5, 1], [3, 0], [4, 2]], 8087222774582268115,
    ),
    "generator": (
        lambda: batches(
            DataLoader(Count(), batch_size=2, shuffle=True, generator=torch.Generator().manual_seed(5))
        ), [[1, 0], [4, 2], [3, 5]], 1407639518939636932,
    ),
    "split": (lambda: [list(part) for part in random_split(Count(), [3, 3])], [[3, 0, 1], [5, 2, 4]], 8821655377875895191),
    "random": (lambda: list(RandomSampler(Count())), [1, 0, 3, 2, 4, 5], 5163590386780219894),
    "more": (
        lambda: list(RandomSampler(Count(), num_samples=15)), [1, 0, 3, 2, 4, 5, 4, 0, 1, 2, 5, 3, 2, 0, 1],
        5163590386780219894,
    ),
    "replacement": (
        lambda: list(RandomSampler(Count(), replacement=True, num_samples=70))[:36],
        [1, 5, 1, 3, 0, 4, 3, 0, 1, 1, 2, 2, 0, 0, 4, 1, 2, 0, 4, 4, 0, 4, 4, 5, 2, 0, 2, 0, 5, 4, 5, 2, 4, 2, 1, 1],
        5163590386780219894,
    ),
    "weighted": (
        lambda: list(WeightedRandomSampler([1, 2, 3.0], 10)), [1, 1, 2, 2, 2, 2, 1, 2, 2, 2], 3306209770279126448,
    ),
    "subset": (lambda: list(SubsetRandomSampler([5, 6, 7, 8])), [8, 7, 5, 6], 5883999051581199939),
    "distributed": (lambda: list(DistributedSampler(Count(), 4, 3, drop_last=True, seed=3)), [2], 1407639518939636932),
    "padded": (lambda: list(DistributedSampler(Count(), 4, 3, shuffle=False)), [3, 1], 1407639518939636932),
}  # fmt: skip


@pytest.mark.parametrize("case", ORDERS)
def test_orders_and_draws(case):
    iterate, order, draw = ORDERS[case]
    torch.manual_seed(7)
    assert iterate() == order
    assert next_draw() == draw


def test_one_generator_for_two_epochs():
    generator = torch.Generator().manual_seed(1)
    sampler = RandomSampler(Count(), generator=generator)
    assert [list(sampler), list(sampler)] == [[1, 5, 2, 0, 3, 4], [2, 5, 0, 1, 3, 4]]


ERRORS = [
    (lambda: DataLoader(Count(), num_workers=-1), ValueError, "num_workers option should be non-negative"),
    (lambda: DataLoader(Count(), timeout=-1), ValueError, "timeout option should be non-negative"),
    (lambda: DataLoader(Count(), prefetch_factor=2), ValueError, "prefetch_factor option could only be specified"),
    (lambda: DataLoader(Count(), persistent_workers=True), ValueError, "persistent_workers option needs num_workers > 0"),
    (lambda: DataLoader(Stream(), shuffle=True), ValueError, "expected unspecified shuffle option, but got shuffle=True"),
    (lambda: DataLoader(Count(), sampler=[1], shuffle=True), ValueError, "mutually exclusive with shuffle"),
    (lambda: DataLoader(Count(), batch_sampler=[[1]], batch_size=2), ValueError, "batch_sampler option is mutually"),
    (lambda: DataLoader(Count(), batch_size=None, drop_last=True), ValueError, "disables auto-batching"),
    (lambda: DataLoader(Count(), batch_size=0), ValueError, "positive integer value, but got batch_size=0"),
    (lambda: DataLoader(Count(0), shuffle=True), ValueError, "but got num_samples=0"),
    (lambda: setattr(DataLoader(Count()), "batch_size", 3), ValueError, "should not be set after DataLoader is init"),
    (lambda: RandomSampler(Count(), replacement=3), TypeError, "replacement should be a boolean value"),
    (lambda: WeightedRandomSampler([[1.0]], 1), ValueError, r"weights have shape \(1, 1\)"),
    (lambda: BatchSampler(Count(), 2, 1), ValueError, "drop_last should be a boolean value, but got drop_last=1"),
    (lambda: DistributedSampler(Count(), 2, 2), ValueError, r"Invalid rank 2, rank should be in the interval \[0, 1\]"),
    (lambda: random_split(Count(), [3, 4]), ValueError, "Sum of input lengths does not equal"),
    (lambda: TensorDataset(torch.ones(2), torch.ones(3)), AssertionError, "Size mismatch between tensors"),
    (lambda: ConcatDataset([]), AssertionError, "datasets should not be an empty iterable"),
    (lambda: ConcatDataset([Count()])[-7], ValueError, "absolute value of index should not exceed dataset length"),
    (lambda: list(ChainDataset([Count()])), AssertionError, "ChainDataset only supports IterableDataset"),
    (lambda: StackDataset(), ValueError, "At least one dataset should be passed"),
    (lambda: Dataset()[0], NotImplementedError, "Subclasses of Dataset should implement __getitem__."),
    (lambda: default_collate([None]), TypeError, "default_collate: batch must contain tensors.*found <class 'NoneType'>"),
    (lambda: default_collate([(1, 2), (1,)]), RuntimeError, "each element in list of batch should be of equal size"),
    (lambda: default_collate([{"a": 1}, {"b": 1}]), KeyError, "a"),
]


@pytest.mark.parametrize("case", range(len(ERRORS)))
def test_errors(case):
    call, kind, message = ERRORS[case]
    with pytest.raises(kind, match=message):
        call()


def test_collate_makes_tensors_and_keeps_containers():
    pair = collections.namedtuple("pair", "x y")
    assert default_collate([1, 2]).dtype is torch.int64
    assert default_collate([1.5, 2]).dtype is torch.float64
    assert default_collate([np.float32(1), np.float32(2)]).dtype is torch.float32
    assert default_collate(["a", "b"]) == ["a", "b"]
    assert default_collate([np.ones(2), np.zeros(2)]).tolist() == [[1, 1], [0, 0]]
    assert default_collate([torch.ones(2), torch.zeros(2)]).shape == (2, 2)
    numbers, texts = default_collate([(1, "a"), (2, "b")])
    assert numbers.tolist() == [1, 2] and texts == ("a", "b")
    made = default_collate([pair(1, 2), pair(3, 4)])
    assert isinstance(made, pair) and made.x.tolist() == [1, 3]
    made = default_collate([collections.OrderedDict(a=1), collections.OrderedDict(a=2)])
    assert isinstance(made, collections.OrderedDict) and made["a"].tolist() == [1, 2]


def test_convert():
    assert default_convert(1) == 1
    assert default_convert({"a": np.int64(2)})["a"].dtype is torch.int64
    assert default_convert((1, np.ones(1)))[1].tolist() == [1.0]


def test_combined_datasets():
    joined = Count(2) + Count(3)
    assert [joined[index] for index in range(5)] == [0, 1, 0, 1, 2] and joined[-1] == 2
    assert list(Stream() + Stream()) == [*range(5), *range(5)]
    assert StackDataset(Count(), Count())[1] == (1, 1) and StackDataset(a=Count())[1] == {"a": 1}
    assert [len(part) for part in random_split(Count(3), [0.1, 0.9])] == [1, 2]


def test_single_items_and_short_batches():
    assert batches(DataLoader(Count(5), batch_size=2, drop_last=True)) == [[0, 1], [2, 3]]
    assert list(DataLoader(Count(3), batch_size=None)) == [0, 1, 2]
    assert batches(DataLoader(Stream(), batch_size=2)) == [[0, 1], [2, 3], [4]]
    assert batches(DataLoader(Stream(), batch_size=2, drop_last=True)) == [[0, 1], [2, 3]]


class StopsAtThree(Count):
    def __getitem__(self, index):
        if index == 3:
            raise StopIteration
        return index


@pytest.mark.parametrize("workers", [0, 2])
def test_iterators_that_begin_again(workers):
    loader = DataLoader(OwnIterator(), batch_size=3, num_workers=workers)
    for _ in range(2):
        assert batches(loader) == [[1, 2, 3]] * (workers or 1) + [[4, 5]] * (workers or 1)
    single = DataLoader(OwnIterator(), batch_size=None, num_workers=workers)
    assert sorted(single) == sorted([1, 2, 3, 4, 5] * (workers or 1))
    assert batches(DataLoader(OwnIterator(), batch_size=3, num_workers=workers, drop_last=True)) == [[1, 2, 3]] * (workers or 1)
    assert batches(DataLoader(StopsAtThree(), num_workers=workers)) == [[0], [1], [2]]


def test_batches_of_a_sampler_that_begins_again():
    assert list(BatchSampler(OwnIterator(), 2, False)) == [[1, 2], [3, 4], [5]]
    assert list(BatchSampler(OwnIterator(), 2, True)) == [[1, 2], [3, 4]]


def test_a_timeout_needs_workers():
    with pytest.raises(AssertionError, match="requires timeout == 0"):
        iter(DataLoader(Count(), timeout=3))


def test_warnings():
    with pytest.warns(UserWarning, match="'pin_memory' argument is set as true but no accelerator is found"):
        list(DataLoader(Count(), pin_memory=True))
    loader = DataLoader(WrongLength())
    assert len(loader) == 2
    with pytest.warns(UserWarning, match="was reported to be 2.*but 3 samples have been fetched"):
        list(loader)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        list(DataLoader(Count()))


def test_no_worker_here():
    assert get_worker_info() is None
