"""Stores: the same answers from each kind, waits that end, and strangers who do no harm."""

from __future__ import annotations

import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path

import pytest

import flambeau.distributed as dist
from flambeau.distributed.stores import frames, tcp_server
from flambeau.distributed.stores.tcp_server import GREETING

SHORT = timedelta(milliseconds=150)


def tcp() -> dist.TCPStore:
    return dist.TCPStore("127.0.0.1", 0, is_master=True, timeout=timedelta(seconds=60))


KINDS: dict[str, Callable[[Path], dist.Store]] = {
    "tcp": lambda _: tcp(),
    "hash": lambda _: dist.HashStore(),
    "file": lambda folder: dist.FileStore(str(folder / "store"), 1),
    "prefix": lambda _: dist.PrefixStore("below", tcp()),
}


@pytest.mark.parametrize("kind", KINDS)
def test_what_every_store_does(kind: str, tmp_path: Path) -> None:
    store = KINDS[kind](tmp_path)
    store.set("a", "1")
    store.set("b", b"\0\xff")
    assert (store.get("a"), store.get("b")) == (b"1", b"\0\xff")
    assert (store.add("n", 3), store.add("n", -1), store.get("n")) == (3, 2, b"2")
    swaps = [store.compare_set("s", *pair) for pair in (("x", "y"), ("", "y"), ("q", "z"), ("y", "w"))]
    assert swaps == [b"x", b"y", b"y", b"w"]
    assert store.check(["a"]) and not store.check(["a", "none"])
    store.append("a", "23")
    store.multi_set(["k1", "k2"], ["v1", b"v2"])
    assert store.get("a") == b"123" and store.multi_get(["k1", "k2"]) == [b"v1", b"v2"]
    assert store.num_keys() == 6 + (kind == "file")  # a file counts who uses it
    assert store.delete_key("a") and not store.delete_key("a") and "k1" in store.list_keys() and "a" not in store.list_keys()
    store.queue_push("q", "1")
    assert (store.queue_len("q"), store.queue_pop("q"), store.queue_len("q")) == (1, b"1", 0)
    with pytest.raises(dist.QueueEmptyError, match="queue is empty"):
        store.queue_pop("q", block=False)
    store.set_timeout(SHORT)
    assert store.timeout == SHORT
    for call in (lambda: store.get("none"), lambda: store.wait(["a", "none"]), lambda: store.queue_pop("q")):
        begin = time.monotonic()
        with pytest.raises(dist.DistStoreError, match=r"(?i)wait timeout|Timeout waiting for key: none after 150 ms"):
            call()
        assert time.monotonic() - begin > 0.1
    for wrong in (lambda: store.set("a", 1), lambda: store.set(1, "a"), lambda: store.set_timeout(3)):
        with pytest.raises(TypeError, match="incompatible function arguments"):
            wrong()
    store.set_timeout(timedelta(seconds=60))
    other = store.clone()
    timers = [threading.Timer(0.05, other.set, ("late", "x")), threading.Timer(0.05, other.queue_push, ("q", "y"))]
    for timer in timers:
        timer.start()
    assert store.get("late") == b"x" and store.queue_pop("q") == b"y"


def test_a_file_is_deleted_by_the_last_to_leave(tmp_path: Path) -> None:
    path = tmp_path / "store"
    first, second = dist.FileStore(str(path), 2), dist.FileStore(str(path), 2)
    first.set("a", "1")
    assert second.get("a") == b"1" and second.path == str(path)
    del first
    assert path.exists()
    del second
    assert not path.exists()


def test_a_file_outlives_its_first_store(tmp_path: Path) -> None:
    path = tmp_path / "store"
    first, second = dist.FileStore(str(path), 1), dist.FileStore(str(path), 1)
    del first
    second.set("a", "1")
    assert path.exists() and second.get("a") == b"1"
    del second
    assert not path.exists()


def test_a_file_that_is_something_else(tmp_path: Path) -> None:
    path = tmp_path / "other"
    path.write_bytes(b"\0\0\0\5hello and more of it")
    with pytest.raises(dist.DistStoreError, match="is no file of a store"):
        dist.FileStore(str(path)).get("a")


class OfAProgram(dist.Store):
    """No more than groups ask for."""

    def __init__(self) -> None:
        super().__init__()
        self.table: dict[str, bytes] = {}

    def set(self, key, value):
        assert isinstance(value, bytes)
        self.table[key] = value

    def get(self, key):
        return self.table[key]

    def compare_set(self, key, expected_value, desired_value):
        if self.table.get(key, b"") == expected_value:
            self.table[key] = desired_value
        return self.table[key]


def test_a_store_that_a_program_defines() -> None:
    own = OfAProgram()
    with pytest.raises(RuntimeError, match=r"Not implemented\. OfAProgram has no multi_get"):
        own.multi_get(["a"])
    below = dist.PrefixStore("p", dist.PrefixStore("q", own))
    assert not below.has_extended_api()
    below.append("a", "po")
    below.append("a", "tato")
    below.multi_set(["b", "c"], ["1", b"2"])
    assert below.multi_get(["a", "b", "c"]) == [b"potato", b"1", b"2"] and own.table["q/p/a"] == b"potato"
    with pytest.raises(ValueError, match="store argument cannot be None"):
        dist.PrefixStore("p", None)


def test_addresses_that_name_ranks_twice() -> None:
    with pytest.raises(AssertionError, match="has node-specific arguments"):
        dist.rendezvous("file:///there?rank=1&world_size=16", 1, 16)


def test_strangers_do_no_harm_to_a_server() -> None:
    store = tcp()
    for sent in (
        b"GET / HTTP/1.1\r\n\r\n",
        GREETING + b"\xff\xff\xff\xff",
        GREETING + frames.packed(["wait"]),
        GREETING + frames.packed(["wait", [7], 1]),
        GREETING + frames.packed(["wait", ["a"], 1 << 62]),
        GREETING + frames.packed(["set", "a", 7]),
        GREETING + frames.packed(["multi_set", ["a"], ["b"]]),
        GREETING + frames.packed(["__init__"]),
        GREETING + frames.packed(7),
        GREETING + frames.packed([[], 1]),
    ):
        with socket.create_connection(("127.0.0.1", store.port)) as stranger:
            stranger.settimeout(60)
            stranger.sendall(sent)
            stranger.shutdown(socket.SHUT_WR)
            while stranger.recv(100):
                pass
    store.set("a", "1")
    assert store.get("a") == b"1"


def test_a_silent_stranger_is_sent_away(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tcp_server, "_GREETING_TAKES", 0.2)
    store = tcp()
    with socket.create_connection(("127.0.0.1", store.port), timeout=60) as silent:
        assert silent.recv(1) == b"" and not store.check(["a"])


def test_what_is_too_large_is_refused_and_the_server_lives(monkeypatch: pytest.MonkeyPatch) -> None:
    store = tcp()
    store.add("n", (1 << 63) - 1)
    with pytest.raises(dist.DistStoreError, match="beyond 64 bits"):
        store.add("n", 1)
    with pytest.raises(TypeError, match="incompatible function arguments"):
        store.add("n", 1 << 70)
    store.set_timeout(timedelta(days=1000))
    threading.Timer(0.05, store.clone().set, ("late", "x")).start()
    assert store.get("late") == b"x"
    store.multi_set(["a", "b"], [bytes(600)] * 2)
    monkeypatch.setattr(frames, "LARGEST", 1000)
    with pytest.raises(dist.DistStoreError, match="requests of up to 1000 bytes"):
        store.multi_get(["a", "b"])
    assert len(store.get("a")) == 600


def test_an_interrupted_request_does_not_shift_answers() -> None:
    store = tcp()
    store.set("a", "1")

    def interrupt(number: int, frame: object) -> None:
        raise KeyboardInterrupt

    before = signal.signal(signal.SIGALRM, interrupt)
    try:
        signal.setitimer(signal.ITIMER_REAL, 0.05)
        with pytest.raises(KeyboardInterrupt):
            store.wait(["never"], timedelta(seconds=1))
    finally:
        signal.signal(signal.SIGALRM, before)
    time.sleep(1.2)  # until the request's answer comes
    assert store.get("a") == b"1" and store.add("n", 5) == 5


def test_clients_come_together_or_an_error_says_how_many() -> None:
    store = tcp()
    with pytest.raises(dist.DistStoreError, match="1/2 clients joined"):
        dist.TCPStore("127.0.0.1", 0, 2, True, timeout=timedelta(seconds=1))
    with pytest.raises(dist.DistNetworkError, match=f"failed to listen on any local network address. port: {store.port}"):
        dist.TCPStore("127.0.0.1", store.port, is_master=True)
    dist.TCPStore("127.0.0.1", store.port, 5)  # only the master waits
    with pytest.raises(ValueError, match="TCPStore world size cannot be 0"):
        dist.TCPStore("127.0.0.1", store.port, 0)
    port = store.port
    del store
    with pytest.raises(dist.DistNetworkError, match="timed out after 150ms while trying to connect"):
        dist.TCPStore("127.0.0.1", port, timeout=SHORT)


def test_a_silent_server_is_waited_for() -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        with pytest.raises(dist.DistNetworkError, match=r"timed out after 150ms .*: it doesn't answer"):
            dist.TCPStore("127.0.0.1", silent.getsockname()[1], timeout=SHORT)


def test_what_another_launcher_keeps_at_the_port_is_left_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TORCHELASTIC_USE_AGENT_STORE", "True")
    with socket.create_server(("127.0.0.1", 0)) as silent:  # as PyTorch's, which doesn't answer what it doesn't understand
        port = silent.getsockname()[1]
        store, rank, size = next(dist.rendezvous(f"tcp://127.0.0.1:{port}", 0, 1, timeout=timedelta(seconds=60)))
        assert (store.port, rank, size) == (port + 1, 0, 1)


def test_more_clients_than_files_may_be_open() -> None:
    program = """
import resource
from datetime import timedelta
import flambeau.distributed as dist
resource.setrlimit(resource.RLIMIT_NOFILE, (60, 400))
store = dist.TCPStore("127.0.0.1", 0, None, True, wait_for_workers=False)
clients = [dist.TCPStore("127.0.0.1", store.port) for _ in range(60)]
for number, client in enumerate(clients):
    client.set(str(number), "here")
assert store.get("59") == b"here"
assert resource.getrlimit(resource.RLIMIT_NOFILE)[0] == 400
while True:
    clients.append(dist.TCPStore("127.0.0.1", store.port, timeout=timedelta(seconds=3)))
"""
    run = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=300)
    assert run.returncode == 1
    assert "DistNetworkError: The client socket has timed out after 3000ms" in run.stderr
    assert "can't have more than 400 files open" in run.stderr


@pytest.mark.parametrize("value", [None, True, False, -3, "text", b"\0", [], ["a", [1, b"b"], None]])
def test_frames(value: object) -> None:
    data = frames.packed(value)
    assert frames.Frames().feed(data + data) == [value, value]
    for cut in range(4, len(data)):
        with pytest.raises(frames.FrameError):
            frames.unpacked(data[4:cut])
