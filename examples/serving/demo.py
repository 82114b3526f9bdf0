"""Train a network on handwritten digits, export it, serve it, and call it from 32 clients at once.

    make demo-serve
    python examples/serving/demo.py --seconds 10 --clients 32

It serves the same network in several ways, beside each other: one request at a time and in batches; as an exported program, and
by a Python handler in eager code, compiled, and with weights in 8 bits. It prints requests a second and latencies. Everything
stays on this machine.
"""

import argparse
import asyncio
import json
import os
import select
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from urllib.parse import urlsplit

import numpy as np

import flambeau as torch
from flambeau import nn

HERE = Path(__file__).resolve().parent
ROOT = HERE.parent.parent
WIDTH = 24  # of a progress bar

HANDLERS = '''\
import torch
from torch import nn


class Eager:
    """The network as Python runs it, and a batch of requests as one tensor."""

    def initialize(self, context):
        folder = context.system_properties["model_dir"]
        model = nn.Sequential(nn.Linear(64, 256), nn.ReLU(), nn.Linear(256, 10))
        model.load_state_dict(torch.load(folder + "/digits.pt", weights_only=True))
        self.model = self.prepared(model.eval())

    def prepared(self, model):
        return model

    def handle(self, data, context):
        with torch.inference_mode():
            return self.model(torch.tensor([row["body"] for row in data])).tolist()


class Compiled(Eager):
    """One batch size, for which the network is compiled before the first request: batches are filled up."""

    def prepared(self, model):
        compiled = torch.compile(model)
        return lambda rows: compiled(torch.cat([rows, torch.zeros(32 - len(rows), 64)]))[: len(rows)]


class Int8(Eager):
    """Weights in 8 bits. Inputs are rounded by a scale of their batch, so that an answer depends a little on the others."""

    def prepared(self, model):
        return torch.ao.quantization.quantize_dynamic(model, {nn.Linear}, dtype=torch.qint8)
'''

WAYS = {  # by name: the model's file, the handler's class, rows in a batch
    "program-one-by-one": ("digits.pt2", "", 1),
    "program-in-batches": ("digits.pt2", "", 32),
    "eager-one-by-one": ("digits.pt", "Eager", 1),
    "eager-in-batches": ("digits.pt", "Eager", 32),
    "compiled-in-batches": ("digits.pt", "Compiled", 32),
    "int8-in-batches": ("digits.pt", "Int8", 32),
}
ROUNDED = {"int8-in-batches": 0.01}  # the share of answers that may show another digit than the network in float32


def train(folder: Path) -> tuple[list[bytes], list[int]]:
    """Train for some epochs and write digits.pt2, digits.pt, handlers.py; bodies of requests, and the digits that they show."""
    with np.load(ROOT / "examples" / "data" / "digits.npz") as archive:
        images = torch.from_numpy(archive["images"]).float().reshape(-1, 64) / 16
        labels = torch.from_numpy(archive["labels"]).long()
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(64, 256), nn.ReLU(), nn.Linear(256, 10))
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-3)
    for epoch in range(12):
        order = torch.randperm(1500)
        for at in range(0, 1500, 100):
            rows = order[at : at + 100]
            optimizer.zero_grad()
            loss = nn.functional.cross_entropy(model(images[rows]), labels[rows])
            loss.backward()
            optimizer.step()
        bar("training", epoch + 1, 12, f"loss {loss.item():.3f}")
    model.eval()
    with torch.no_grad():
        found = model(images[1500:]).argmax(1)
    print(f"{(found == labels[1500:]).float().mean().item():.1%} of {len(found)} digits that it hasn't seen are right")
    rows = torch.export.Dim("rows", min=1, max=64)
    program = torch.export.export(model, (images[:2],), dynamic_shapes=({0: rows},))
    torch.export.save(program, folder / "digits.pt2")
    torch.save(model.state_dict(), folder / "digits.pt")
    (folder / "handlers.py").write_text(HANDLERS)
    bodies = [json.dumps([round(x, 4) for x in row]).encode() for row in images[1500:].tolist()]
    return bodies, found.tolist()


def bar(title: str, done: float, total: float, text: str) -> None:
    """A progress bar, redrawn in place on a terminal and shown once at its end anywhere else."""
    live = sys.stdout.isatty()
    if live or done >= total:
        filled = int(WIDTH * min(done, total) / total)
        print(f"{chr(13) if live else ''}{title:28} [{'#' * filled}{'.' * (WIDTH - filled)}] {text}", end="", flush=True)
        print("\033[K" if live else "", end="\n" if done >= total else "", flush=True)


class Caller(asyncio.Protocol):
    """One client: asks again as soon as it has its answer, and looks whether the answer is the one to its own question."""

    def __init__(self, requests: list[tuple[bytes, int]], times: list[float], end: float) -> None:
        self.requests, self.times, self.end = requests, times, end
        self.at = self.wrong = 0
        self.received = b""
        self.done = asyncio.get_running_loop().create_future()

    def connection_made(self, transport) -> None:
        self.transport = transport
        self.ask()

    def ask(self) -> None:
        self.start = time.perf_counter()
        self.transport.write(self.requests[self.at % len(self.requests)][0])

    def data_received(self, data: bytes) -> None:
        self.received += data
        head, found, body = self.received.partition(b"\r\n\r\n")
        if not found:
            return
        size = int(head.lower().partition(b"content-length:")[2].split(b"\r\n")[0])
        if len(body) < size:
            return
        now = time.perf_counter()
        self.times.append(now - self.start)
        right = (
            head.startswith(b"HTTP/1.1 200")
            and int(np.argmax(json.loads(body))) == self.requests[self.at % len(self.requests)][1]
        )
        self.wrong += not right
        self.at += 1
        self.received = b""
        if now < self.end:
            self.ask()
        else:
            self.transport.close()

    def connection_lost(self, problem) -> None:
        if not self.done.done():
            self.done.set_result(self.wrong)


async def call(url: str, name: str, bodies: list[bytes], digits: list[int], clients: int, seconds: float) -> dict[str, float]:
    """Ask from many clients for some seconds."""
    where = urlsplit(url)
    head = f"POST /predictions/{name} HTTP/1.1\r\nHost: {where.netloc}\r\nContent-Type: application/json\r\nContent-Length: "
    requests = [(head.encode() + str(len(body)).encode() + b"\r\n\r\n" + body, digit) for body, digit in zip(bodies, digits)]
    loop, times = asyncio.get_running_loop(), []
    begin = time.perf_counter()
    callers = []
    for number in range(clients):
        own = requests[number:] + requests[:number]
        _, caller = await loop.create_connection(lambda own=own: Caller(own, times, begin + seconds), where.hostname, where.port)
        callers.append(caller)
    waiting = asyncio.gather(*(caller.done for caller in callers))
    while not waiting.done():
        await asyncio.sleep(0.2)
        passed = time.perf_counter() - begin
        bar(name, passed if waiting.done() else min(passed, 0.999 * seconds), seconds, f"{len(times) / passed:6.0f} requests/s")
    times.sort()
    spent = time.perf_counter() - begin
    return {
        "per_second": len(times) / spent,
        "p50": times[len(times) // 2] * 1e3,
        "p99": times[int(0.99 * len(times))] * 1e3,
        "wrong": float(sum(waiting.result())),
        "share": sum(waiting.result()) / len(times),
    }


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--clients", type=int, default=32)
    parser.add_argument("--seconds", type=float, default=5, help="for each way")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        bodies, digits = train(folder)
        settings = "access_log = false\n"
        for title, (path, handler, batch) in WAYS.items():
            settings += f'[[model]]\nname = "{title}"\npath = "{folder / path}"\nmax_batch_size = {batch}\n'
            settings += f'handler = "{folder}/handlers.py:{handler}"\n' if handler else ""
        (folder / "sample.json").write_bytes(bodies[0])
        (folder / "serve.toml").write_text(settings)
        print("==> flambeau serve --config serve.toml")
        command = [sys.executable, "-m", "flambeau_torch", "serve", "--config", str(folder / "serve.toml"), "--log", "text"]
        command += ["--port", "0", "--management-port", "0", "--metrics-port", "0", "--sample", str(folder / "sample.json")]
        path = os.pathsep.join(filter(None, [str(ROOT), os.environ.get("PYTHONPATH")]))
        start = time.perf_counter()
        server = subprocess.Popen(
            command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env={**os.environ, "PYTHONPATH": path}
        )
        try:
            assert server.stdout is not None and server.stderr is not None
            readable, _, _ = select.select([server.stdout], [], [], 300)
            line = server.stdout.readline() if readable else ""
            if not line:
                print(server.stderr.read(), file=sys.stderr)
                return 1
            found = json.loads(line)
            spent = time.perf_counter() - start
            print(f"{len(WAYS)} models are ready after {spent:.1f} s; the page while this runs: {found['page']}")
            results = {}
            for title in WAYS:
                results[title] = asyncio.run(call(found["inference"], title, bodies, digits, options.clients, options.seconds))
        finally:
            server.send_signal(signal.SIGTERM)
            server.communicate(timeout=60)
    print(f"\n{options.clients} clients{'':14}{'requests/s':>12}{'p50':>10}{'p99':>10}{'wrong':>8}")
    for title, one in results.items():
        print(f"{title:24}{one['per_second']:12.0f}{one['p50']:7.1f} ms{one['p99']:7.1f} ms{one['wrong']:8.0f}")
    return int(any(one["share"] > ROUNDED.get(title, 0) for title, one in results.items()))


if __name__ == "__main__":
    sys.exit(main())
