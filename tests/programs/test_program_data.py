"""Programs that load data: datasets, samplers, workers, collation."""

import pytest
from implementation import torch

nn = torch.nn
data = torch.utils.data
DataLoader, Dataset = data.DataLoader, data.Dataset


class CustomDataset(Dataset):
    def __init__(self, inputs, labels, transform=None):
        self.inputs, self.labels, self.transform = inputs, labels, transform

    def __len__(self):
        return len(self.inputs)

    def __getitem__(self, idx):
        sample = self.inputs[idx]
        if self.transform:
            sample = self.transform(sample)
        return sample, self.labels[idx]


@pytest.fixture
def dataset():
    return CustomDataset(torch.arange(20.0).view(10, 2), torch.arange(10))


def test_batches(dataset):
    loader = DataLoader(dataset, batch_size=4)
    batches = list(loader)
    assert len(loader) == 3 and [tuple(x.shape) for x, _ in batches] == [(4, 2), (4, 2), (2, 2)]
    assert batches[1][1].tolist() == [4, 5, 6, 7] and batches[0][0].dtype is torch.float32
    assert len(DataLoader(dataset, batch_size=4, drop_last=True)) == 2


def test_a_transform_is_applied(dataset):
    dataset.transform = lambda sample: sample * 10
    inputs, _ = next(iter(DataLoader(dataset, batch_size=2)))
    assert inputs.tolist() == [[0, 10], [20, 30]]


def test_shuffling_draws_the_order_of_pytorch():
    torch.manual_seed(3)
    order = [batch.tolist() for batch in DataLoader(list(range(10)), batch_size=4, shuffle=True)]
    assert order == [[6, 2, 0, 1], [8, 3, 5, 4], [7, 9]]


def test_random_split_draws_the_parts_of_pytorch():
    generator = torch.Generator().manual_seed(42)
    parts = data.random_split(range(10), [7, 3], generator=generator)
    assert [list(part) for part in parts] == [[2, 6, 1, 8, 4, 5, 0], [9, 3, 7]]
    assert [len(part) for part in data.random_split(range(10), [0.75, 0.25])] == [8, 2]


@pytest.mark.parametrize("persistent", [False, True])
def test_workers(dataset, persistent):
    loader = DataLoader(dataset, batch_size=3, num_workers=2, prefetch_factor=2, persistent_workers=persistent, drop_last=True)
    for _ in range(2):
        assert [labels.tolist() for _, labels in loader] == [[0, 1, 2], [3, 4, 5], [6, 7, 8]]


def test_an_error_in_a_worker_names_the_worker():
    class Broken(Dataset):
        def __len__(self):
            return 4

        def __getitem__(self, idx):
            raise ValueError(f"no sample {idx}")

    with pytest.raises(ValueError, match="Caught ValueError in DataLoader worker process 0"):
        next(iter(DataLoader(Broken(), num_workers=1)))


@pytest.mark.filterwarnings("ignore:.*pin_memory.*:UserWarning")
def test_pinned_memory_is_asked_for_without_an_accelerator(dataset):
    inputs, _ = next(iter(DataLoader(dataset, batch_size=2, pin_memory=True)))
    assert inputs.shape == (2, 2)


def test_own_collation_pads_sequences():
    sequences = [(torch.ones(3), torch.tensor(0)), (torch.ones(5), torch.tensor(1))]

    def pad_collate_fn(batch):
        inputs, labels = zip(*batch)
        padded = torch.zeros(len(inputs), max(len(x) for x in inputs))
        for i, x in enumerate(inputs):
            padded[i, : len(x)] = x
        return padded, torch.stack(labels)

    def collate_fn(batch):
        samples, labels = zip(*batch)
        return nn.utils.rnn.pad_sequence(samples, batch_first=True), torch.stack(labels)

    for function in (pad_collate_fn, collate_fn):
        samples, labels = next(iter(DataLoader(sequences, batch_size=2, collate_fn=function)))
        assert samples.tolist() == [[1, 1, 1, 0, 0], [1, 1, 1, 1, 1]] and labels.tolist() == [0, 1]


def test_default_collation_keeps_the_structure():
    samples = [{"x": 1.5, "y": (i, torch.tensor(i)), "name": "a"} for i in range(2)]
    (batch,) = DataLoader(samples, batch_size=2)
    assert batch["x"].dtype is torch.float64 and batch["name"] == ["a", "a"]
    assert [part.tolist() for part in batch["y"]] == [[0, 1], [0, 1]]


def test_samplers():
    assert list(data.SequentialSampler(range(3))) == [0, 1, 2]
    weighted = data.WeightedRandomSampler([0.0, 1.0, 0.0], num_samples=5)
    assert list(weighted) == [1] * 5
    assert list(data.BatchSampler(data.SequentialSampler(range(5)), 2, drop_last=False)) == [[0, 1], [2, 3], [4]]
    assert list(data.Subset([10, 11, 12], [2, 0])) == [12, 10]
    assert len(data.ConcatDataset([range(3), range(4)])) == 7


def test_iterable_dataset():
    class Stream(data.IterableDataset):
        def __iter__(self):
            return iter(range(5))

    assert [batch.tolist() for batch in DataLoader(Stream(), batch_size=2)] == [[0, 1], [2, 3], [4]]


def test_distributed_sampler_divides_the_indices():
    parts = [list(data.distributed.DistributedSampler(range(6), num_replicas=2, rank=rank, shuffle=False)) for rank in (0, 1)]
    assert parts == [[0, 2, 4], [1, 3, 5]]
