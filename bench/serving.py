"""`flambeau serve` under load: whether every answer is right while it is disturbed, and its speed beside other servers.

    python bench/serving.py correct --requests 100000 --kills 50 --reloads 50 --idle 2000 --slow 200
    python bench/serving.py compare --torch-python /path/bin/python --seconds 20 --rounds 3
    python bench/serving.py start                       # seconds from the process's start to the first answer

`compare` takes systems in turns, one running at a time, in an environment with PyTorch, FastAPI, uvicorn and LitServe for the
others. Clients are a process of their own (serving_clients.py) and look at every answer. Exits with 1 where a bound is missed.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import json
import os
import random
import select
import signal
import socket
import statistics
import subprocess
import sys
import tempfile
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

HERE = Path(__file__).resolve().parent
ROOT = HERE.parent
MODELS = ("mlp", "embedder")


# -- servers


class Served:
    """A server that answers: where, and its process."""

    def __init__(self, process: subprocess.Popen[str], found: dict[str, str], seconds: float) -> None:
        self.process, self.found, self.seconds = process, found, seconds

    def manage(self, method: str, path: str) -> Any:
        """The answer of the management port."""
        token = Path(self.found["token_file"]).read_text()
        request = urllib.request.Request(
            self.found["management"] + path, method=method, headers={"authorization": f"Bearer {token}"}
        )
        with urllib.request.urlopen(request, timeout=300) as answer:
            return json.load(answer)

    def workers(self, model: str) -> list[int]:
        return [worker["pid"] for worker in self.manage("GET", f"/models/{model}")[0]["workers"] if worker["pid"]]

    def metric(self, name: str) -> float:
        """The sum of a metric over models."""
        with urllib.request.urlopen(self.found["metrics"] + "/metrics", timeout=60) as answer:
            lines = answer.read().decode().splitlines()
        return sum(float(line.rpartition(" ")[2]) for line in lines if line.startswith(name))

    def memory(self) -> float:
        """Megabytes of the server's processes, each shared page divided among those that share it."""
        found = 0.0
        for process in [self.process.pid, *descendants(self.process.pid)]:
            with contextlib.suppress(OSError, StopIteration):
                lines = Path(f"/proc/{process}/smaps_rollup").read_text().splitlines()
                found += int(next(line for line in lines if line.startswith("Pss:")).split()[1]) / 1024
        return found

    def settled_memory(self, processes: int) -> float:
        """The same once there are so many processes: versions that were replaced have answered what they had, and are gone."""
        while 1 + len(descendants(self.process.pid)) != processes:
            time.sleep(0.05)
        return self.memory()


def descendants(process: int) -> list[int]:
    try:
        own = [int(one) for task in Path(f"/proc/{process}/task").iterdir() for one in (task / "children").read_text().split()]
    except OSError:
        return []
    return own + [other for one in own for other in descendants(one)]


def ending(process: subprocess.Popen[str]) -> None:
    """End a server and what it has started."""
    process.send_signal(signal.SIGTERM)
    with contextlib.suppress(subprocess.TimeoutExpired):
        process.wait(60)
    with contextlib.suppress(ProcessLookupError):  # LitServe's go on without it, and would take time from those measured next
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()


@contextlib.contextmanager
def flambeau(folder: Path, models: tuple[str, ...] = MODELS, **settings: Any) -> Iterator[Served]:
    """`flambeau serve` with these models, and settings of each."""
    text = "access_log = false\n"
    given = {"max_batch_size": 32, **settings}
    for model in models:
        own = {"name": model, "path": str(folder / "mlp.pt2" if model == "mlp" else folder), **given}
        if model == "embedder":
            own["handler"] = str(HERE / "serving_models.py") + ":Vectors"
        text += "[[model]]\n" + "".join(f"{key} = {json.dumps(value)}\n" for key, value in own.items())
    (folder / "serve.toml").write_text(text)
    command = [sys.executable, "-m", "flambeau_torch", "serve", "--config", str(folder / "serve.toml"), "--log", "text"]
    command += ["--port", "0", "--management-port", "0", "--metrics-port", "0"]
    path = os.pathsep.join(filter(None, [str(ROOT), os.environ.get("PYTHONPATH")]))
    start = time.perf_counter()
    with open(folder / "server.log", "a") as log:
        process = subprocess.Popen(
            command, stdout=subprocess.PIPE, stderr=log, text=True, env={**os.environ, "PYTHONPATH": path}, start_new_session=True
        )
    try:
        assert process.stdout is not None
        readable, _, _ = select.select([process.stdout], [], [], 600)
        line = process.stdout.readline() if readable else ""
        if not line:
            raise SystemExit("flambeau serve didn't start:\n" + (folder / "server.log").read_text()[-3000:])
        yield Served(process, json.loads(line), time.perf_counter() - start)
    finally:
        ending(process)


@contextlib.contextmanager
def peer(python: str, kind: str, model: str, folder: Path) -> Iterator[Served]:
    """A comparison server, once it answers."""
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    start = time.perf_counter()
    with open(folder / f"{kind}.log", "w") as log:
        process = subprocess.Popen(
            [python, str(HERE / "serving_peers.py"), kind, model, str(folder), str(port)],
            stdout=log, stderr=log, text=True, start_new_session=True,
        )  # fmt: skip
    try:
        url = f"http://127.0.0.1:{port}"
        example = json.loads((folder / f"{model}.json").read_text())["inputs"][0]
        while not answers(url + "/predict", {"data": example}):
            if process.poll() is not None or time.perf_counter() - start > 300:
                raise SystemExit(f"{kind} didn't start:\n" + (folder / f"{kind}.log").read_text()[-3000:])
            time.sleep(0.05)
        yield Served(process, {"inference": url}, time.perf_counter() - start)
    finally:
        ending(process)


def answers(url: str, body: Any) -> bool:
    """Whether a request is answered."""
    request = urllib.request.Request(url, json.dumps(body).encode(), {"content-type": "application/json"})
    try:
        with urllib.request.urlopen(request, timeout=300) as answer:
            return bool(answer.status == 200)
    except (urllib.error.URLError, ConnectionError):
        return False


# -- load


class Clients:
    """Clients in a process of their own, from now on."""

    def __init__(self, folder: Path, url: str, model: str, form: str, clients: int, **ends: Any) -> None:
        file = str(folder / f"{model}.json")
        specification = {"url": url, "file": file, "form": form, "clients": clients, "model": model, **ends}
        path = folder / "clients.json"
        path.write_text(json.dumps(specification))
        command = [sys.executable, str(HERE / "serving_clients.py"), str(path)]
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        self.count = 0
        line = self.next()  # it has read the specification
        assert "answers" in line

    def next(self) -> dict[str, Any]:
        assert self.process.stdout is not None
        line = self.process.stdout.readline()
        if not line:
            raise SystemExit("the clients ended")
        found = json.loads(line)
        self.count = found.get("answers", self.count)
        return dict(found)

    def until(self, count: int) -> None:
        """Wait for so many answers."""
        while self.count < count:
            if "result" in self.next():
                raise SystemExit("the clients ended too early")

    def result(self) -> dict[str, Any]:
        """Tell them to end; what they have counted."""
        assert self.process.stdin is not None
        self.process.stdin.close()
        while "result" not in (found := self.next()):
            pass
        self.process.wait()
        return dict(found["result"])


def measured(folder: Path, url: str, model: str, form: str, clients: int, seconds: float) -> dict[str, Any]:
    return Clients(folder, url, model, form, clients, seconds=seconds).result()


class Quiet:
    """Connections that ask nothing, and some that send a request byte by byte; those that the server closes are opened again."""

    def __init__(self, url: str, idle: int, slow: int) -> None:
        self.where = urlsplit(url)
        self.wanted = idle + slow
        self.open: set[int] = set()  # those that were connected once
        self.closed = 0
        self.opened, self.over = threading.Event(), threading.Event()
        self.thread = threading.Thread(target=asyncio.run, args=[self.run(idle)], daemon=True)
        self.thread.start()
        if not self.opened.wait(300):
            raise SystemExit(f"{len(self.open)} of {self.wanted} connections could be opened")

    async def run(self, idle: int) -> None:
        tasks = [asyncio.ensure_future(self.one(number, number >= idle)) for number in range(self.wanted)]
        await asyncio.to_thread(self.over.wait)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    async def one(self, number: int, slow: bool) -> None:
        while True:
            try:
                reader, writer = await asyncio.open_connection(self.where.hostname, self.where.port)
            except OSError:  # the server is busy, or gone
                await asyncio.sleep(0.2)
                continue
            self.open.add(number)
            if len(self.open) == self.wanted:
                self.opened.set()
            try:
                await (self.dripped(reader, writer) if slow else reader.read())
            except ConnectionError:
                pass
            finally:
                writer.close()
            self.closed += 1

    async def dripped(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Send a request slowly, until the server has had enough."""
        head = b"POST /predictions/mlp HTTP/1.1\r\nHost: slow\r\nContent-Length: 500\r\n\r\n"
        for byte in head + b" " * 500:
            writer.write(bytes([byte]))
            await asyncio.sleep(0.2)
            if reader.at_eof() or writer.is_closing():
                return
        await reader.read()

    def end(self) -> None:
        self.over.set()
        self.thread.join()


# -- the runs


def correct(options: argparse.Namespace, folder: Path) -> int:
    """Load with kills, reloads, idle and slow connections; whether an answer was wrong or a request lost."""
    with flambeau(folder, (options.model,), workers=options.workers, threads=1) as server:
        name = options.model
        url, form = server.found["inference"], "plain"
        path = f"/predictions/{name}"
        quiet = Quiet(url, options.idle, options.slow) if options.idle or options.slow else None
        clients = Clients(folder, url + path, name, form, options.clients, requests=options.requests, until_told=True)
        total = max(options.requests, 1)
        events = [(random.random(), "kill") for _ in range(options.kills)]
        events += [(random.random(), "reload") for _ in range(options.reloads)]
        clients.until(total // 10)
        memory = [server.settled_memory(2 + options.workers)]
        killed: set[int] = set()
        for number, (_, event) in enumerate(sorted(events)):
            clients.until(clients.count + total // (2 * len(events)))
            if event == "reload":
                server.manage("POST", f"/models/{name}/reload")
            else:
                while not (alive := sorted(set(server.workers(name)) - killed)):
                    time.sleep(0.02)
                killed.add(alive[number % len(alive)])
                os.kill(alive[number % len(alive)], signal.SIGKILL)
            if number % 10 == 9:
                memory.append(server.settled_memory(2 + options.workers))
                print(f"{number + 1} of {len(events)} events, {clients.count} answers, {memory[-1]:.0f} MB", flush=True)
        clients.until(total)
        result = clients.result()
        deaths = server.metric("flambeau_worker_deaths_total")
        if quiet is not None:
            quiet.end()
        memory.append(server.settled_memory(2 + options.workers))
    counts = dict(result["answers"])
    right = counts.pop("right", 0)
    lines = [
        f"{right:,} right answers of {sum(counts.values()) + right:,} to {options.clients} clients; "
        f"others: {', '.join(f'{count} times {kind}' for kind, count in counts.items()) or 'none'}",
        f"{len(killed)} workers killed ({deaths:.0f} deaths seen), {options.reloads} reloads",
        f"{options.idle:,} idle and {options.slow} slow connections, of which the server closed {quiet.closed if quiet else 0:,}",
        "megabytes of all processes, of the start and after every tenth event: " + " ".join(f"{one:.0f}" for one in memory),
        f"{result['per_second']:.0f} requests/s, p50 {result['p50']:.1f} ms, p99 {result['p99']:.1f} ms",
    ]
    print("\n".join(lines))
    if options.write:
        written(options.write, "correct", lines)
    print("\n".join(result["examples"]))
    allowed = {"503"} if options.kills else set()
    return int(bool(set(counts) - allowed) or right < options.requests * 0.99)


def written(page: Path, name: str, lines: list[str]) -> None:
    """Put lines between a page's marks."""
    before, start, rest = page.read_text(encoding="utf-8").partition(f"<!-- {name}:start -->\n")
    _, end, after = rest.partition(f"<!-- {name}:end -->")
    if not start or not end:
        raise SystemExit(f"{page} has no marks <!-- {name}:start --> and <!-- {name}:end -->")
    page.write_text("".join([before, start, "```\n", *(line + "\n" for line in lines), "```\n", end, after]), encoding="utf-8")


def compare(options: argparse.Namespace, folder: Path) -> int:
    """Systems in turns, one after the other, in short blocks; medians over rounds."""
    status, lines = 0, list[str]()
    for model in options.models:
        found: dict[str, list[dict[str, Any]]] = {}
        for number in range(options.rounds):
            for system in ("flambeau", "fastapi", "fastapi-async", "litserve"):
                with contextlib.ExitStack() as stack:
                    if system == "flambeau":
                        server = stack.enter_context(flambeau(folder, (model,)))
                        url = server.found["inference"] + f"/predictions/{model}"
                    else:
                        server = stack.enter_context(peer(options.torch_python, system, model, folder))
                        url = server.found["inference"] + "/predict"
                    form = "plain" if system == "flambeau" else "data"
                    measured(folder, url, model, form, options.clients, min(3.0, options.seconds))
                    one = measured(folder, url, model, form, options.clients, options.seconds)
                    one["memory"] = server.memory()
                found.setdefault(system, []).append(one)
                print(
                    f"{model} round {number + 1} {system:14} {one['per_second']:8.0f}/s  p99 {one['p99']:7.1f} ms  "
                    f"{one['answers']}", flush=True,
                )  # fmt: skip
        title = f"{model}, {options.clients} clients"
        table = [f"{title:32}{'requests/s':>12}{'p50':>10}{'p99':>10}{'memory':>10}{'wrong':>7}"]
        middle = {name: {key: statistics.median(one[key] for one in all) for key in ("per_second", "p50", "p99", "memory")}
                  for name, all in found.items()}  # fmt: skip
        for name, one in middle.items():
            wrong = sum(count for run in found[name] for kind, count in run["answers"].items() if kind != "right")
            status |= bool(wrong and name == "flambeau")
            print(f"{name:32}{one['per_second']:12.0f}{one['p50']:7.1f} ms{one['p99']:7.1f} ms{one['memory']:7.0f} MB{wrong:7}")
        own = middle.pop("flambeau")
        for name, one in middle.items():
            more, share = own["per_second"] / one["per_second"], own["p99"] / one["p99"]
            fine = more >= 3 and share <= 0.5
            status |= not fine
            table.append(f"against {name:24}{more:11.2f}x{'':10}{share:9.2f}x   {'within' if fine else 'misses'} 3x at 0.5x")
        print("", *table, "", sep="\n", flush=True)
        lines += table
    if options.write:
        written(options.write, "compare", lines)
    return status


def start(options: argparse.Namespace, folder: Path) -> int:
    """Seconds from the start of the process to its first answer, the cache of kernels filled by a run before."""
    status = 0
    for model in options.models:
        example = json.loads((folder / f"{model}.json").read_text())["inputs"][0]
        found = []
        for _ in range(options.rounds + 1):
            begin = time.perf_counter()
            with flambeau(folder, (model,)) as server:
                if not answers(server.found["inference"] + f"/predictions/{model}", example):
                    raise SystemExit("no answer")
                found.append(time.perf_counter() - begin)
        print(f"{model}: first answer after {', '.join(f'{one:.2f}' for one in found[1:])} s (before them {found[0]:.2f} s)")
        status |= min(found[1:]) > 1.5
    return status


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--folder", type=Path, help="where models are, or are to be, written; else a temporary one")
    parser.add_argument("--write", type=Path, metavar="PAGE", help="put the figures between a page's marks")
    parser.add_argument("--clients", type=int, default=32)
    commands = parser.add_subparsers(required=True)
    one = commands.add_parser("correct", help=correct.__doc__)
    one.set_defaults(run=correct)
    one.add_argument("--model", default="mlp", choices=MODELS)
    one.add_argument("--workers", type=int, default=2)
    for name, default in (("requests", 100_000), ("kills", 0), ("reloads", 0), ("idle", 0), ("slow", 0)):
        one.add_argument(f"--{name}", type=int, default=default)
    one = commands.add_parser("compare", help=compare.__doc__)
    one.set_defaults(run=compare)
    one.add_argument("--torch-python", required=True)
    one.add_argument("--seconds", type=float, default=20)
    one.add_argument("--rounds", type=int, default=3)
    one.add_argument("--models", nargs="+", default=MODELS, choices=MODELS)
    one = commands.add_parser("start", help=start.__doc__)
    one.set_defaults(run=start)
    one.add_argument("--rounds", type=int, default=3)
    one.add_argument("--models", nargs="+", default=MODELS, choices=MODELS)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as temporary:
        folder = options.folder or Path(temporary)
        folder.mkdir(parents=True, exist_ok=True)
        wanted = [options.model] if options.run is correct else options.models
        if missing := [model for model in wanted if not (folder / f"{model}.json").exists()]:
            environment = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, [str(ROOT), os.environ.get("PYTHONPATH")]))}
            command = [sys.executable, "-m", "flambeau_torch", "run", str(HERE / "serving_models.py"), str(folder), *missing]
            subprocess.run(command, check=True, env=environment)
        return int(options.run(options, folder))


if __name__ == "__main__":
    sys.exit(main())
