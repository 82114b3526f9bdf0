"""torch.utils.data.datapipes: pipes of data sets, alone and in a DataLoader, with the orders that PyTorch 2.13 draws."""

from __future__ import annotations

import copy
import functools
import pickle

import pytest

import flambeau as torch
import flambeau.utils.data as data
import flambeau.utils.data.datapipes.iter as iters
import flambeau.utils.data.datapipes.map as maps
from flambeau.utils.data import graph, graph_settings


def double(x):
    return x * 2


def is_even(x):
    return x % 2 == 0


def third(x):
    return x % 3


def numbers(count: int = 10):
    return iters.IterableWrapper(range(count))


def test_functions_and_choices_of_items() -> None:
    pipe = numbers()
    assert list(pipe.map(double).filter(is_even)) == [0, 2, 4, 6, 8, 10, 12, 14, 16, 18] and len(pipe.map(double)) == 10
    pairs = iters.IterableWrapper([(1, 2), (3, 4)])
    assert list(pairs.map(int.__add__, input_col=[0, 1])) == [(3,), (7,)]
    assert list(pairs.map(double, input_col=1)) == [(1, 4), (3, 8)]
    assert list(pairs.map(double, input_col=1, output_col=0)) == [(4, 2), (8, 4)]
    assert list(pairs.map(double, input_col=1, output_col=-1)) == [(1, 2, 4), (3, 4, 8)]
    assert list(iters.IterableWrapper([{"a": 1}]).map(double, input_col="a", output_col="b")) == [{"a": 1, "b": 2}]
    assert list(iters.Sampler(numbers(3))) == [0, 1, 2]
    with pytest.raises(ValueError, match="must be None when `input_col` is None"):
        pipe.map(double, output_col=1)
    with pytest.raises(ValueError, match="can't be called with 2 columns"):
        pairs.map(double, input_col=[0, 1])
    with pytest.raises(TypeError, match="callable function is expected"):
        pipe.map(5)
    with pytest.warns(UserWarning, match="Lambda function is not supported by pickle"):
        pipe.map(functools.partial(lambda a, b: b, 1))


def test_items_together_and_apart() -> None:
    pipe = numbers()
    assert list(pipe.batch(4)) == [[0, 1, 2, 3], [4, 5, 6, 7], [8, 9]] and len(pipe.batch(4)) == 3
    assert list(pipe.batch(4, drop_last=True)) == [[0, 1, 2, 3], [4, 5, 6, 7]] and len(pipe.batch(4, True)) == 2
    assert isinstance(next(iter(pipe.batch(4))), data.DataChunk)
    nested = pipe.batch(2).batch(2)
    assert list(nested.unbatch(1)) == list(pipe.batch(2)) and list(nested.unbatch(-1)) == list(pipe)
    with pytest.raises(IndexError, match="exceeds the depth"):
        list(nested.unbatch(3))
    assert list(pipe.groupby(third)) == [[0, 3, 6, 9], [1, 4, 7], [2, 5, 8]]
    assert list(pipe.groupby(third, buffer_size=4, group_size=2)) == [[0, 3], [1, 4], [2, 5], [6, 9], [7], [8]]
    assert next(iter(pipe.groupby(third, buffer_size=4, keep_key=True))) == (0, [0, 3])
    with pytest.raises(RuntimeError, match="Failed to group items"):
        list(pipe.groupby(double, buffer_size=2, group_size=2))
    assert [batch.tolist() for batch in pipe.batch(5).collate()] == [[0, 1, 2, 3, 4], [5, 6, 7, 8, 9]]


def test_several_pipes_as_one_and_one_as_several() -> None:
    pipe, letters = numbers(4), iters.IterableWrapper("abc")
    assert list(pipe.concat(letters)) == [0, 1, 2, 3, "a", "b", "c"] and len(pipe.concat(letters)) == 7
    assert list(pipe.zip(letters)) == [(0, "a"), (1, "b"), (2, "c")] and len(pipe.zip(letters)) == 3
    assert list(pipe.mux(letters)) == [0, "a", 1, "b", 2, "c"] and len(pipe.mux(letters)) == 6
    left, right = pipe.fork(2)
    assert list(left) == list(right) == [0, 1, 2, 3] and list(right) == [0, 1, 2, 3] and len(left) == 4
    first = iter(left)
    assert next(first) == 0 and next(iter(left)) == 0
    with pytest.raises(RuntimeError, match="has been invalidated"):
        next(first)
    with pytest.raises(BufferError, match="buffer size 2 is insufficient"):
        list(pipe.fork(2, buffer_size=2)[0])
    even, odd = pipe.demux(2, third_is_odd)
    assert list(even) == [0, 2, 3] and list(odd) == [1]
    with pytest.raises(ValueError, match=r"should be between 0 and 1\. 2 is returned"):
        list(pipe.demux(2, third)[0])
    with pytest.raises(TypeError):
        len(even)


def third_is_odd(x):
    return third(x) % 2


def test_orders_are_those_that_pytorch_draws() -> None:
    pipe = numbers()
    torch.manual_seed(0)
    assert list(pipe.shuffle()) == [3, 5, 0, 1, 9, 6, 2, 7, 4, 8]
    assert list(pipe.shuffle(buffer_size=3).set_seed(5)) == [2, 1, 3, 4, 5, 7, 8, 9, 0, 6]
    assert list(pipe.shuffle().set_shuffle(False)) == list(range(10))
    indexed = maps.SequenceWrapper([5, 6, 7, 8])
    torch.manual_seed(0)
    assert list(indexed.shuffle()) == [7, 5, 8, 6] and list(indexed.shuffle().set_seed(1)) == [8, 5, 7, 6]


def test_pipes_that_are_indexed() -> None:
    pipe = maps.SequenceWrapper([5, 6, 7, 8])
    assert list(pipe.map(double)) == [10, 12, 14, 16] and list(pipe.batch(3)) == [[5, 6, 7], [8]] and len(pipe.batch(3)) == 2
    assert list(pipe.concat(pipe)) == [5, 6, 7, 8] * 2 and pipe.zip(pipe)[1] == (6, 6) and len(pipe.zip(pipe)) == 4
    assert isinstance(pipe, data.MapDataPipe) and not isinstance(pipe, data.IterDataPipe)
    with pytest.raises(IndexError, match="Index 2 is out of bound"):
        pipe.batch(3)[2]
    with pytest.raises(IndexError, match="one of the input MapDataPipes SequenceWrapperMapDataPipe"):
        pipe.zip(pipe)[9]


def test_errors_say_in_which_pipe_they_were_raised() -> None:
    words = r"thrown by __iter__ of MapperIterDataPipe\(datapipe=IterableWrapperIterDataPipe, fn=len, "
    with pytest.raises(TypeError, match=words):
        list(numbers().map(lens).map(double))


def lens(x):
    return len(x)


lens.__name__ = "len"


def test_names_of_classes_become_methods() -> None:
    @data.functional_datapipe("twice_for_a_test")
    class Twice(data.IterDataPipe):
        def __init__(self, pipe, times=2):
            self.pipe, self.times, self.begun = pipe, times, 0

        def reset(self):
            self.begun += 1

        def __iter__(self):
            for item in self.pipe:
                yield from [item] * self.times

    made = numbers(2).twice_for_a_test(times=3)
    assert list(made) == [0, 0, 0, 1, 1, 1] == list(made) and made.begun == 2 and "twice_for_a_test" in dir(made)
    assert repr(made).endswith("Twice")
    with pytest.raises(Exception, match="already taken"):
        data.functional_datapipe("twice_for_a_test")(Twice)
    with pytest.raises(AttributeError, match="'Twice' object has no attribute 'surely_not"):
        made.surely_not
    del data.IterDataPipe.functions["twice_for_a_test"]


def test_pipes_are_copied_and_pickled() -> None:
    pipe = numbers(3).map(double).shuffle()
    assert sorted(copy.deepcopy(pipe)) == sorted(pickle.loads(pickle.dumps(pipe))) == [0, 2, 4]
    left, right = pickle.loads(pickle.dumps(numbers(3).fork(2)))
    assert list(left) == list(right) == [0, 1, 2]


def test_the_pipes_that_a_pipe_is_made_of() -> None:
    source = numbers()
    left, right = source.sharding_filter().map(double).fork(2)
    made = left.zip(right)
    pipes = graph_settings.get_all_graph_pipes(graph.traverse_dps(made))
    assert [type(pipe).__name__ for pipe in pipes] == [
        "ZipperIterDataPipe",
        "_ChildDataPipe",
        "MapperIterDataPipe",
        "ShardingFilterIterDataPipe",
        "IterableWrapperIterDataPipe",
        "_ChildDataPipe",
    ]
    graph_settings.apply_sharding(made, 3, 1)
    assert list(made) == [(2, 2), (8, 8), (14, 14)]
    with pytest.raises(RuntimeError, match="Sharding twice"):
        graph_settings.apply_sharding(source.sharding_filter().sharding_filter(), 2, 0)
    with pytest.warns(UserWarning, match="does not contain a `Shuffler`"):
        assert isinstance(graph_settings.apply_shuffle_settings(source, True), iters.Shuffler)
    with pytest.raises(ValueError, match="should be smaller than"):
        source.sharding_filter().apply_sharding(2, 2)


def test_a_loader_of_pipes() -> None:
    assert [batch.tolist() for batch in data.DataLoader(numbers(5), batch_size=3)] == [[0, 1, 2], [3, 4]]
    torch.manual_seed(0)
    loader = data.DataLoader(numbers().shuffle(), batch_size=4, shuffle=True)
    assert [batch.tolist() for batch in loader] == [[9, 0, 5, 7], [4, 1, 3, 8], [6, 2]]
    still = data.DataLoader(numbers().shuffle(), batch_size=4, shuffle=False)
    assert [batch.tolist() for batch in still] == [[0, 1, 2, 3], [4, 5, 6, 7], [8, 9]]


@pytest.mark.parametrize("persistent", [False, True])
def test_workers_divide_a_shuffled_pipe(persistent: bool) -> None:
    pipe = numbers(12).shuffle().sharding_filter()
    loader = data.DataLoader(pipe, batch_size=2, num_workers=2, persistent_workers=persistent)
    orders = [[item for batch in loader for item in batch.tolist()] for _ in range(3)]
    assert all(sorted(order) == list(range(12)) for order in orders) and len({tuple(order) for order in orders}) > 1
