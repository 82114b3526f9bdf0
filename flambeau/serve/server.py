"""The front end's process: loads models, listens on three ports, and ends when it is told to, after what is under way.

Stands on uvicorn, app, management and registry; used by command.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import logging
import os
import secrets
import shutil
import signal
import socket
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import uvicorn

from flambeau.serve import logs
from flambeau.serve.app import InferenceApp
from flambeau.serve.management import Management, metrics_app
from flambeau.serve.metrics import Metrics
from flambeau.serve.pool import LoadFailed
from flambeau.serve.protocol import LimitedProtocol
from flambeau.serve.registry import Registry
from flambeau.serve.settings import ModelSettings, ServerSettings, Wrong
from flambeau.serve.spawning import Started

log = logging.getLogger(__name__)
BACKLOG = 4096


class Listener(uvicorn.Server):
    """uvicorn without its signal handlers, which are this process's own."""

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield


def bound(host: str, port: int) -> socket.socket:
    """A listening socket; OSError if the address can't be had."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    sock = socket.socket(family, socket.SOCK_STREAM)
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        sock.bind((host, port))
    except OSError as problem:
        sock.close()
        raise OSError(problem.errno, f"{host}:{port}: {problem.strerror}") from None
    sock.listen(BACKLOG)
    sock.setblocking(False)
    return sock


class Server:
    """A server and its ports."""

    def __init__(
        self, settings: ServerSettings, models: list[ModelSettings], folder: Path, early: dict[tuple[str, str], Started]
    ) -> None:
        self.settings, self.models = settings, models
        self.folder = folder
        self.ended = asyncio.Event()
        self.metrics = Metrics()
        self.registry = Registry(settings, self.metrics, early)
        self.access = logs.AccessLog(settings.log) if settings.access_log else None
        self.inference = InferenceApp(self.registry, settings, self.access)
        self.inference.draining = True  # until all models are there
        self.token = secrets.token_urlsafe(32)
        self.management = Management(self.registry, self.inference, self.token)

    def listener(self, app: Any) -> Listener:
        protocol = type("Protocol", (LimitedProtocol,), {"settings": self.settings})
        config = uvicorn.Config(
            app, http=protocol, ws="none", lifespan="off", log_config=None, access_log=False, server_header=False,
            backlog=BACKLOG, proxy_headers=False, timeout_keep_alive=int(self.settings.idle_seconds) or 1,
            timeout_graceful_shutdown=max(1, int(self.settings.drain_seconds)),
        )  # fmt: skip
        return Listener(config)

    def write_token(self) -> Path:
        path = Path(self.settings.token_file) if self.settings.token_file else self.folder / "token"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.unlink(missing_ok=True)
        with open(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w") as file:
            file.write(self.token)
        return path

    async def run(self) -> int:
        """Serve until a signal ends it; the exit status."""
        own = self.settings
        try:
            return await self.serve()
        except OSError as problem:
            print(f"flambeau serve: {problem.strerror or problem}", file=sys.stderr)
            return 1
        finally:
            await self.registry.stop(own.drain_seconds)
            if self.access is not None:
                self.access.flush()
            shutil.rmtree(self.folder, ignore_errors=True)

    async def serve(self) -> int:
        own = self.settings
        addresses = [(own.host, own.port), (own.management_host, own.management_port), (own.metrics_host, own.metrics_port)]
        sockets = [bound(*address) for address in addresses]
        loop = asyncio.get_running_loop()
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, self.ended.set)
        applications = (self.inference, self.management.app, metrics_app(self.metrics))
        listeners = [self.listener(app) for app in applications]
        serving = [asyncio.ensure_future(one.serve([sock])) for one, sock in zip(listeners, sockets)]
        token = self.write_token()
        ports = [sock.getsockname()[1] for sock in sockets]
        names = ("inference", "management", "metrics")
        found = {name: f"http://{host}:{port}" for name, (host, _), port in zip(names, addresses, ports)}
        flushing = asyncio.ensure_future(self.flush())
        loading = asyncio.ensure_future(self.load())
        ending = asyncio.ensure_future(self.ended.wait())
        await asyncio.wait({loading, ending}, return_when=asyncio.FIRST_COMPLETED)
        failed = loading.result() if loading.done() else False
        status = 1 if failed else 0
        if not failed and not self.ended.is_set():
            self.inference.draining = False
            log.info("ready", extra={**found, "token_file": str(token)})
            print(
                json.dumps({"ready": True, **found, "token_file": str(token), "page": f"{found['management']}/#{self.token}"}),
                flush=True,
            )
            await self.ended.wait()
        loading.cancel()
        self.inference.draining = True
        if not failed:
            log.info("ending: requests under way are answered")
            await asyncio.sleep(own.unready_seconds)
        for listener in listeners:
            listener.should_exit = True
        await asyncio.gather(*serving, return_exceptions=True)
        flushing.cancel()
        return status

    async def load(self) -> bool:
        """Load all models at once; whether one can't be served."""
        first = {model.name: model.version for model in reversed(self.models)}  # gets the requests, whichever is loaded first
        loads = [self.registry.load(model, default=first[model.name] == model.version) for model in self.models]
        answers = await asyncio.gather(*loads, return_exceptions=True)
        for one in self.registry.models.values():
            one.before.clear()
        failed = False
        for model, answer in zip(self.models, answers):
            if isinstance(answer, BaseException):
                failed = True
                if not isinstance(answer, (LoadFailed, Wrong)):
                    log.error("loading failed", exc_info=answer)
                print(f"flambeau serve: {model.path}: {answer}", file=sys.stderr)
        return failed

    async def flush(self) -> None:
        while True:
            await asyncio.sleep(0.2)
            if self.access is not None:
                self.access.flush()


def run(
    settings: ServerSettings, models: list[ModelSettings], folder: Path, early: dict[tuple[str, str], Started] | None = None
) -> int:
    """Serve until a signal ends it; the exit status. `folder` is private, and removed; `early`: processes that load already."""
    logs.set_up(settings.log)

    async def main() -> int:
        return await Server(settings, models, folder, early or {}).run()

    return asyncio.run(main())
