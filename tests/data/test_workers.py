"""Worker processes: the order, the seeds, what comes through, and what happens when one fails."""

import gc
import multiprocessing
import os
import random
import signal
import time

import numpy as np
import pytest

import flambeau as torch
from flambeau.utils.data import DataLoader, Dataset, IterableDataset, get_worker_info

pytestmark = pytest.mark.skipif("fork" not in multiprocessing.get_all_start_methods(), reason="needs fork")


class Items(Dataset):
    def __init__(self, item, length=8):
        self.item, self.length = item, length

    def __len__(self):
        return self.length

    def __getitem__(self, index):
        return self.item(index)


def at_three(action):
    return Items(lambda index: action() if index == 3 else index)


class Shares(IterableDataset):
    def __iter__(self):
        number = get_worker_info().id
        return iter(range(number * 10, number * 10 + 3 + 4 * number))


def test_batches_come_in_order():
    def late(index):
        time.sleep(0.01 if index % 2 else 0)
        return index

    loader = DataLoader(Items(late, 20), batch_size=3, num_workers=2)
    assert [batch.tolist() for batch in loader] == [list(range(at, min(at + 3, 20))) for at in range(0, 20, 3)]


def test_shuffle_and_seeds_are_pytorchs():
    torch.manual_seed(7)
    loader = DataLoader(Items(int, 6), batch_size=2, shuffle=True, num_workers=2)
    assert [batch.tolist() for batch in loader] == [[5, 1], [3, 0], [4, 2]]

    def draws(index):
        return get_worker_info().seed, torch.initial_seed(), random.random(), np.random.randint(1 << 30)

    torch.manual_seed(3)
    first, second = list(DataLoader(Items(draws), batch_size=None, num_workers=2))[:2]
    assert first == [937055941807507096, 937055941807507096, 0.21793848432592644, 556139338]
    assert second == [937055941807507097, 937055941807507097, 0.09049729754573688, 582168465]


def test_kept_workers_begin_again():
    torch.manual_seed(3)
    loader = DataLoader(Items(int), batch_size=4, num_workers=2, persistent_workers=True, shuffle=True)
    assert [batch.tolist() for batch in loader] == [[2, 1, 6, 5], [0, 4, 3, 7]]
    assert [batch.tolist() for batch in loader] == [[3, 4, 5, 7], [6, 0, 1, 2]]
    for _ in loader:
        break
    assert sum(len(batch) for batch in loader) == 8


def test_iterable_datasets_in_turn():
    batches = [batch.tolist() for batch in DataLoader(Shares(), batch_size=2, num_workers=2)]
    assert batches == [[0, 1], [10, 11], [2], [12, 13], [14, 15], [16]]


def test_large_strided_and_half_tensors_come_through():
    def item(index):
        return {
            "large": torch.full((64, 1024), float(index)),
            "turned": torch.arange(6.0).reshape(2, 3).t() * index,
            "half": torch.full((5,), float(index), dtype=torch.bfloat16),
            "empty": torch.empty(0, 3),
            "text": "x",
        }

    for number, batch in enumerate(DataLoader(Items(item), batch_size=2, num_workers=2)):
        assert batch["large"].shape == (2, 64, 1024) and batch["large"][1, 0, 0] == 2 * number + 1
        batch["large"].add_(1)
        assert batch["turned"][1].tolist() == [[0, 3 * (2 * number + 1)], [2 * number + 1, 4 * (2 * number + 1)],
                                               [2 * (2 * number + 1), 5 * (2 * number + 1)]]  # fmt: skip
        assert batch["half"].dtype is torch.bfloat16 and batch["empty"].shape == (2, 0, 3)
        assert batch["text"] == ["x", "x"]


def fail():
    raise ValueError("bad item")


def test_errors_are_raised_here():
    with pytest.raises(ValueError, match=r"^Caught ValueError in DataLoader worker process 1.\nOriginal Traceback") as caught:
        list(DataLoader(at_three(fail), batch_size=2, num_workers=2))
    assert "in fail" in str(caught.value) and "ValueError: bad item" in str(caught.value)
    with pytest.raises(KeyError, match="Caught KeyError in DataLoader worker process 1"):
        list(DataLoader(at_three(lambda: {}["x"]), batch_size=2, num_workers=2))
    with pytest.raises(ValueError, match="Caught ValueError in DataLoader worker process 0"):
        list(DataLoader(Items(int), num_workers=1, worker_init_fn=lambda number: fail()))


def test_dead_workers_are_noticed():
    with pytest.raises(RuntimeError, match=r"DataLoader worker \(pid\(s\) \d+\) exited unexpectedly") as caught:
        list(DataLoader(at_three(lambda: os.kill(os.getpid(), signal.SIGKILL)), batch_size=2, num_workers=2))
    assert "is killed by signal: Killed." in str(caught.value.__cause__)
    with pytest.raises(RuntimeError) as caught:
        list(DataLoader(at_three(lambda: os._exit(3)), batch_size=2, num_workers=2))
    assert "exited unexpectedly with exit code 3" in str(caught.value.__cause__)


def test_timeout():
    with pytest.raises(RuntimeError, match=r"DataLoader timed out after 0.2 seconds"):
        list(DataLoader(Items(lambda index: time.sleep(5)), num_workers=1, timeout=0.2))


def test_nothing_stays_behind():
    before = multiprocessing.active_children()
    for _ in DataLoader(Items(int), num_workers=2):
        break
    gc.collect()
    assert set(multiprocessing.active_children()) <= set(before)
    assert get_worker_info() is None


class Broken(torch.utils.data.Dataset):
    def __len__(self):
        return 6

    def __getitem__(self, index):
        if index in (2, 3):
            raise ValueError(f"bad {index}")
        return index


@pytest.mark.parametrize("settings", [{}, {"num_workers": 2}, {"num_workers": 2, "persistent_workers": True}])
def test_an_iterator_goes_on_after_what_a_dataset_raised(settings):
    batches = iter(torch.utils.data.DataLoader(Broken(), **settings))
    seen = []
    for _ in range(6):
        try:
            seen.append(next(batches).item())
        except ValueError as error:
            seen.append(str(error).strip().splitlines()[-1].rpartition(" ")[2])
    assert seen == [0, 1, "2", "3", 4, 5]
    for _ in range(2):
        with pytest.raises(StopIteration):
            next(batches)
