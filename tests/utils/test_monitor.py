"""torch.monitor: events, handlers, and numbers gathered over windows."""

from datetime import datetime, timedelta

import pytest

import flambeau as torch
from flambeau.monitor import (
    Aggregation,
    Event,
    Stat,
    TensorboardEventHandler,
    log_event,
    register_event_handler,
    unregister_event_handler,
)


@pytest.fixture
def events():
    seen = []
    handle = register_event_handler(seen.append)
    yield seen
    unregister_event_handler(handle)


def test_handlers_are_told_until_they_are_taken_back(events):
    event = Event("it", datetime(2020, 1, 1), {"a": "text", "b": 1})
    log_event(event)
    more = []
    handle = register_event_handler(more.append)
    log_event(event)
    unregister_event_handler(handle)
    log_event(event)
    assert events == [event] * 3 and more == [event]
    with pytest.raises(RuntimeError, match="isn't registered"):
        unregister_event_handler(handle)
    for wrong in (
        lambda: register_event_handler(3),
        lambda: log_event(3),
        lambda: Event("a", 3, {}),
        lambda: Event("a", datetime(2020, 1, 1), {"b": []}),
    ):
        with pytest.raises(TypeError):
            wrong()


def test_a_window_of_so_many_numbers(events):
    wanted = (Aggregation.SUM, Aggregation.COUNT, Aggregation.MEAN, Aggregation.MIN, Aggregation.MAX)
    stat = Stat("s", wanted, timedelta(days=9999), 3)
    for number in (1, 2, 6):
        assert stat.get()[Aggregation.SUM] == 0
        stat.add(number)
    assert stat.count == 0 and stat.get() == {
        Aggregation.SUM: 9,
        Aggregation.COUNT: 3,
        Aggregation.MEAN: 3,
        Aggregation.MIN: 1,
        Aggregation.MAX: 6,
    }
    stat.add(5)
    assert stat.count == 0 and [e.name for e in events] == ["torch.monitor.Stat"]
    assert events[0].data == {"s.sum": 9, "s.count": 3, "s.mean": 3, "s.min": 1, "s.max": 6}


def test_windows_that_end_by_time_and_with_the_object(events, monkeypatch):
    now = 1000.0
    monkeypatch.setattr(torch.monitor.time, "monotonic", lambda: now)
    stat = Stat("t", [Aggregation.SUM], timedelta(seconds=10))
    stat.add(1)
    stat.add(2)
    now = 1010.0
    stat.add(7)
    assert stat.count == 1 and [e.data for e in events] == [{"t.sum": 3}]
    del stat
    assert events[-1].data == {"t.sum": 7}


def test_tensorboard_gets_the_numbers():
    written = []

    class Writer:
        def add_scalar(self, *args, **kwargs):
            written.append((args, kwargs))

    handler = TensorboardEventHandler(Writer())
    handler(Event("torch.monitor.Stat", datetime.fromtimestamp(5), {"q.sum": 2.0}))
    handler(Event("other", datetime.fromtimestamp(5), {"q.sum": 2.0}))
    assert written == [(("q.sum", 2.0), {"walltime": 5.0})]
