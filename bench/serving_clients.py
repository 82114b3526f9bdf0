"""Clients of a model server, all in this process: `python serving_clients.py SPECIFICATION.json` asks and looks at every answer.

The specification says where, how many clients, for how long, and gives requests with the answers that are expected. An answer
that belongs to another request, or to none, is wrong. The last line on standard output is a JSON object with the counts and
latencies; the load ends early when standard input does. Used by bench/serving.py.
"""

from __future__ import annotations

import asyncio
import collections
import json
import resource
import sys
import time
from typing import Any
from urllib.parse import urlsplit

import numpy as np


class Requests:
    """What is asked, ready to be sent, and what is known of the answers."""

    def __init__(self, specification: dict[str, Any]) -> None:
        where = urlsplit(specification["url"])
        self.host, self.port = where.hostname, where.port
        with open(specification["file"], encoding="utf-8") as file:
            content = json.load(file)
        self.form, self.model = specification["form"], specification.get("model")
        head = f"POST {where.path} HTTP/1.1\r\nHost: {where.netloc}\r\nContent-Type: application/json\r\nContent-Length: "
        self.sent = []
        for value in content["inputs"]:
            body = json.dumps(self.body(value)).encode()
            self.sent.append(f"{head}{len(body)}\r\n\r\n".encode() + body)
        self.expected = np.array(content["answers"])
        self.tolerance = 1e-5 * np.linalg.norm(self.expected, axis=1).max()
        self.seen: list[set[bytes]] = [set() for _ in self.sent]  # bodies that were looked at and found right

    def body(self, value: Any) -> Any:
        if self.form == "openai":
            return {"model": self.model, "input": value}
        return value if self.form == "plain" else {"data": value}

    def right(self, at: int, body: bytes) -> bool:
        """Whether this is the answer to request `at`."""
        if self.form != "openai" and body in self.seen[at]:
            return True
        try:
            found = json.loads(body)
            if self.form == "openai":
                found = found["data"][0]["embedding"]
            answer = np.asarray(found, np.float64)
        except (ValueError, KeyError, TypeError, IndexError):
            return False
        if answer.shape != self.expected[at].shape or not np.linalg.norm(answer - self.expected[at]) <= self.tolerance:
            return False
        if len(self.seen[at]) < 64:
            self.seen[at].add(body)
        return True


class Load:
    """What the clients have in common: when to end, and the counts."""

    def __init__(self, specification: dict[str, Any]) -> None:
        self.requests = Requests(specification)
        self.most = specification.get("requests")  # at least so many answers, if it is given
        self.end = time.perf_counter() + specification["seconds"] if specification.get("seconds") else None
        self.stopped = not specification.get("until_told")
        self.asked = 0
        self.answers: collections.Counter[str] = collections.Counter()
        self.times: list[float] = []
        self.examples: list[str] = []

    def over(self) -> bool:
        enough = self.most is None or sum(self.answers.values()) >= self.most
        late = self.end is None or time.perf_counter() >= self.end
        return enough and late and self.stopped

    def note(self, kind: str, text: bytes = b"") -> None:
        self.answers[kind] += 1
        if kind != "right" and len(self.examples) < 5:
            self.examples.append(f"{kind}: {text[:300]!r}")


class Client(asyncio.Protocol):
    """Asks again as soon as it has its answer; connects anew where a connection was closed."""

    def __init__(self, load: Load, number: int) -> None:
        self.load, self.at = load, number * 37
        self.received = b""
        self.waiting = False
        self.closed = asyncio.get_running_loop().create_future()

    def connection_made(self, transport: Any) -> None:
        self.transport = transport
        self.ask()

    def ask(self) -> None:
        if self.load.over():
            self.transport.close()
            return
        requests = self.load.requests
        self.at = (self.at + 1) % len(requests.sent)
        self.waiting = True
        self.start = time.perf_counter()
        self.transport.write(requests.sent[self.at])

    def data_received(self, data: bytes) -> None:
        self.received += data
        head, found, body = self.received.partition(b"\r\n\r\n")
        if not found:
            return
        lower = head.lower()
        size = int(lower.partition(b"content-length:")[2].split(b"\r\n")[0])
        if len(body) < size:
            return
        load = self.load
        load.times.append(time.perf_counter() - self.start)
        self.waiting = False
        status = head[9:12]
        if len(body) > size:
            load.note("more than an answer", body)
        elif status != b"200":
            load.note(status.decode("latin-1"), body)
        else:
            load.note("right" if load.requests.right(self.at, body) else "wrong", body)
        self.received = b""
        if b"connection: close" in lower:
            self.transport.close()
        else:
            self.ask()

    def connection_lost(self, problem: Exception | None) -> None:
        if self.waiting:
            self.load.note("no answer", str(problem).encode())
        if not self.closed.done():
            self.closed.set_result(None)


async def run(specification: dict[str, Any]) -> dict[str, Any]:
    load = Load(specification)
    loop = asyncio.get_running_loop()
    if not load.stopped:
        reader = asyncio.StreamReader()
        await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), sys.stdin)

        async def told() -> None:
            await reader.read()
            load.stopped = True

        listening = asyncio.ensure_future(told())
    begin = time.perf_counter()

    async def client(number: int) -> None:
        while not load.over():
            _, one = await loop.create_connection(lambda: Client(load, number), load.requests.host, load.requests.port)
            await one.closed

    async def progress() -> None:
        while True:
            await asyncio.sleep(1)
            print(json.dumps({"answers": sum(load.answers.values())}), flush=True)

    telling = asyncio.ensure_future(progress())
    await asyncio.gather(*map(client, range(specification["clients"])))
    telling.cancel()
    if not specification.get("until_told"):
        listening = telling
    listening.cancel()
    spent = time.perf_counter() - begin
    times = np.sort(load.times)
    usage = resource.getrusage(resource.RUSAGE_SELF)
    return {
        "answers": dict(load.answers),
        "seconds": spent,
        "per_second": len(times) / spent,
        "p50": 1e3 * float(np.quantile(times, 0.5)) if len(times) else None,
        "p99": 1e3 * float(np.quantile(times, 0.99)) if len(times) else None,
        "longest": 1e3 * float(times[-1]) if len(times) else None,
        "client_cpu": usage.ru_utime + usage.ru_stime,
        "examples": load.examples,
    }


if __name__ == "__main__":
    with open(sys.argv[1], encoding="utf-8") as given:
        print(json.dumps({"result": asyncio.run(run(json.load(given)))}), flush=True)
