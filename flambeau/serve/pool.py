"""One version of a model in the front end: its queue, its batches, and the processes that answer them.

A process that loads the model (host) forks the workers, to which batches go over sockets. A worker that dies is replaced;
requests that it had are tried once more, each by itself, and then answered 503. Stands on frames and tickets; used by
registry.
"""

from __future__ import annotations

import asyncio
import collections
import contextlib
import functools
import json
import logging
import mmap
import os
import signal
import socket
import subprocess
import time
from typing import Any

from flambeau.serve import spawning
from flambeau.serve.frames import BEGUN, Buffer, packed
from flambeau.serve.metrics import Measures
from flambeau.serve.settings import ModelSettings
from flambeau.serve.tickets import Refusal, Ticket

log = logging.getLogger(__name__)
TRIES = 2  # workers that a request may be given to
LONGEST_PAUSE = 10.0  # seconds between attempts to replace workers that die at once


class LoadFailed(Exception):
    """The model can't be served; the message is its loader's."""


class Worker(asyncio.Protocol):
    """The front end's side of a worker."""

    def __init__(self, pool: Pool, sock: socket.socket, begun: mmap.mmap | bytearray) -> None:
        self.pool, self.socket, self.buffer = pool, sock, Buffer()
        self.begun = begun  # memory that it shares, in which it writes the number of the batch that it takes
        self.tickets: dict[str, Ticket] = {}  # what it is answering
        self.batches: collections.Counter[int] = collections.Counter()  # by number: how many are unanswered
        self.process = 0  # until it has said its number
        self.started = time.monotonic()
        self.cancelled = 0  # requests that it was told to give up, and hasn't yet
        self.busy_since = 0.0  # since when it owes an answer and has given none
        self.retiring = False
        self.transport: Any = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = transport

    def data_received(self, data: bytes) -> None:
        self.busy_since = time.monotonic()
        self.take(data)
        self.pool.pump()
        if self.retiring and not self.tickets:
            self.transport.close()

    def take(self, data: bytes) -> None:
        """What the worker says: its process, answers, and how many requests it has given up."""
        for header, parts in self.buffer.feed(data):
            self.process = header.get("process", self.process)
            self.cancelled -= header.get("cancelled", 0)
            for head, body in zip(header["answers"], parts):
                if head.get("more"):
                    ticket = self.tickets.get(head["id"])
                else:
                    ticket = self.tickets.pop(head["id"], None)
                    if ticket is not None:
                        self.batches[ticket.batch] -= 1
                        if self.batches[ticket.batch] <= 0:
                            del self.batches[ticket.batch]
                if ticket is not None and not ticket.abandoned:
                    ticket.answer(head, body)

    def connection_lost(self, problem: Exception | None) -> None:
        """What it answered before it died is read, also where the loop found out by writing: no request is computed twice."""
        with contextlib.suppress(OSError):
            while data := self.socket.recv(1 << 20):
                self.take(data)
        self.pool.lost(self)

    def send(self, batch: int, tickets: list[Ticket]) -> None:
        now = time.perf_counter()
        if not self.busy:
            self.busy_since = time.monotonic()
        for ticket in tickets:
            ticket.sent, ticket.batch = now, batch
            self.tickets[ticket.id] = ticket
        self.batches[batch] = len(tickets)
        header = {"items": [ticket.head for ticket in tickets], "depth": self.pool.depth, "batch": batch}
        self.transport.write(packed(header, [ticket.body for ticket in tickets]))

    def cancel(self, ticket: Ticket) -> None:
        """Have a continuous worker give up a request."""
        del self.tickets[ticket.id]
        del self.batches[ticket.batch]
        self.cancelled += 1
        self.transport.write(packed({"cancel": [ticket.id]}))

    @property
    def busy(self) -> bool:
        """Whether it owes an answer, if only that it has given a request up."""
        return bool(self.tickets or self.cancelled)

    @property
    def alone(self) -> bool:
        """Whether it has a request that shares a worker with no other."""
        return any(ticket.alone for ticket in self.tickets.values())

    @property
    def wanted(self) -> bool:
        """Whether somebody waits for what it computes."""
        return any(not ticket.abandoned for ticket in self.tickets.values())

    def described(self) -> dict[str, Any]:
        """What management says of it."""
        begun = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(time.time() - (time.monotonic() - self.started)))
        return {
            "id": str(self.process), "pid": self.process, "startTime": begun, "gpu": False,
            "status": "READY" if self.process else "STARTING",
        }  # fmt: skip

    def kill(self) -> None:
        if self.process:
            with contextlib.suppress(ProcessLookupError):
                os.kill(self.process, signal.SIGKILL)


class Pool:
    """The processes of one version of a model, and the requests that wait for them."""

    def __init__(
        self,
        settings: ModelSettings,
        measures: Measures,
        depth: int = 64,
        log_form: str = "json",
        early: spawning.Started | None = None,
    ) -> None:
        self.settings, self.measures, self.depth, self.log_form = settings, measures, depth, log_form
        self.early = early  # a process that was started before this
        self.wanted = settings.workers
        self.waiting: collections.deque[Ticket] = collections.deque()
        self.workers: list[Worker] = []
        self.host: subprocess.Popen[bytes] | None = None
        self.control: socket.socket | None = None
        self.listening: asyncio.Task[None] | None = None
        self.about: dict[str, Any] = {}  # what the host said of the model
        self.state = "loading"
        self.reason = ""  # why the model can't be loaded again, while its process is gone
        self.batches = 0
        self.deaths = 0
        self.pause = 0.0
        self.scaling = asyncio.Lock()
        self.pumping = False  # whether pump() is called in this round of the event loop anyway
        self.timer: asyncio.TimerHandle | None = None
        self.tasks: set[asyncio.Task[Any]] = set()
        self.loop = asyncio.get_running_loop()
        self.loaded_at = 0.0
        self.names = {"model": settings.name, "version": settings.version}
        self.interval = min(0.5, settings.timeout / 5)
        self.looking = self.loop.call_later(self.interval, self.look_around)

    # -- processes

    async def start(self) -> None:
        """Load the model and start its workers. LoadFailed if it can't be served."""
        await self.start_host()
        await self.scale(self.wanted)
        self.state = "ready"
        self.loaded_at = time.time()

    async def start_host(self) -> None:
        early, self.early = self.early, None
        if early is None:
            early = await asyncio.to_thread(spawning.start, self.settings, self.log_form)
        self.host, ours = early
        self.control = ours
        answer = await self.heard(ours)
        if answer is None or "ready" not in answer:
            ours.close()
            self.reap_host()
            raise LoadFailed(answer["failed"] if answer and "failed" in answer else "its process ended while it loaded the model")
        self.about = answer["ready"]
        self.listening = self.spawn(self.listen(ours))

    async def heard(self, control: socket.socket) -> dict[str, Any] | None:
        try:
            message = await self.loop.sock_recv(control, 1 << 20)
        except OSError:
            return None
        return json.loads(message) if message else None

    def reap_host(self) -> None:
        host, self.host = self.host, None
        if host is not None:
            self.spawn(asyncio.to_thread(host.wait))

    async def listen(self, control: socket.socket) -> None:
        """What the host says of its forks, until it ends; then another is started."""
        while (message := await self.heard(control)) is not None:
            if "ended" not in message:
                continue
            if message["status"] != 0 and self.state != "stopping":
                log.warning("worker %s ended with %s", message["ended"], message["status"], extra=self.names)
            for worker in self.workers:
                if worker.process == message["ended"]:  # what it has started may hold the connection
                    worker.transport.abort()
        control.close()
        self.control = None
        self.reap_host()
        pause = 0.1
        while self.state not in ("stopping", "stopped"):
            log.warning("the process that loaded %s %s ended; it is loaded again", self.settings.name, self.settings.version)
            try:
                await self.start_host()
            except LoadFailed as problem:
                self.reason = str(problem)
                await asyncio.sleep(pause)
                pause = min(2 * pause, LONGEST_PAUSE)
            else:
                self.reason = ""
                await self.scale(self.wanted)
                return

    async def scale(self, wanted: int) -> None:
        """Have so many workers: others are forked, or finish what they have and go."""
        self.wanted = wanted
        async with self.scaling:
            await self._scale(wanted)

    async def _scale(self, wanted: int) -> None:
        staying = [worker for worker in self.workers if not worker.retiring]
        for worker in staying[wanted:]:
            worker.retiring = True
            if not worker.tickets:
                worker.transport.close()
        for _ in range(wanted - len(staying)):
            if self.control is None:
                return
            ours, theirs = socket.socketpair()
            ours.setblocking(False)
            shared = os.memfd_create("flambeau-begun")
            os.ftruncate(shared, BEGUN.size)
            begun = mmap.mmap(shared, BEGUN.size)
            _, worker = await self.loop.create_connection(functools.partial(Worker, self, ours, begun), sock=ours)
            try:
                socket.send_fds(self.control, [b"{}"], [theirs.fileno(), shared])
            except OSError:  # the host is gone, and listen() sees it
                worker.transport.abort()
                return
            finally:
                theirs.close()
                os.close(shared)
            self.workers.append(worker)
        self.pump()

    def lost(self, worker: Worker) -> None:
        """A worker is gone: what it had is tried once more, and another takes its place."""
        if worker in self.workers:
            self.workers.remove(worker)
        orphans = list(worker.tickets.values())
        worker.tickets.clear()
        (begun,) = BEGUN.unpack(worker.begun[: BEGUN.size])
        company = sum(ticket.batch <= begun for ticket in orphans)
        for ticket in reversed(orphans):
            if ticket.abandoned or ticket.future.cancelled():
                continue
            if ticket.batch > begun:
                self.waiting.appendleft(ticket)  # the worker hadn't come to it
                continue
            ticket.tries += 1
            if ticket.begun or ticket.tries >= TRIES:
                ticket.refuse(Refusal(503, "the worker died while it computed this", retry_after=1))
            else:
                ticket.alone = company > 1
                self.waiting.appendleft(ticket)
        if worker.retiring or self.state in ("stopping", "stopped"):
            return
        self.deaths += 1
        self.measures.deaths.inc()
        lived = time.monotonic() - worker.started
        self.pause = 0.0 if lived > 1 else min(max(0.05, 2 * self.pause), LONGEST_PAUSE)
        self.spawn(self.replace(self.pause))

    async def replace(self, pause: float) -> None:
        if pause:
            await asyncio.sleep(pause)
        if self.state not in ("stopping", "stopped"):
            await self.scale(self.wanted)

    def look_around(self) -> None:
        """Requests whose time is up are answered 504; a worker that gives no answer for longer than that is ended."""
        self.looking = self.loop.call_later(self.interval, self.look_around)
        now = time.perf_counter()
        late = [ticket for ticket in self.waiting if ticket.deadline < now]
        late += [ticket for worker in self.workers for ticket in worker.tickets.values() if ticket.deadline < now]
        for ticket in late:
            if not ticket.abandoned:
                self.abandon(ticket)
                ticket.refuse(Refusal(504, f"no answer within {self.settings.timeout:g} s"))
        for worker in self.workers:
            if worker.busy and time.monotonic() - worker.busy_since > self.settings.timeout:
                log.error(
                    "worker %s gave no answer for %s s and is ended", worker.process, self.settings.timeout, extra=self.names
                )
                for ticket in worker.tickets.values():
                    ticket.tries = TRIES  # they had their time
                worker.kill()

    def spawn(self, work: Any) -> asyncio.Task[Any]:
        task = asyncio.ensure_future(work)
        self.tasks.add(task)
        task.add_done_callback(self.tasks.discard)
        return task

    # -- requests

    def submit(self, ticket: Ticket) -> None:
        """Queue a request. Refusal if the queue is full, or nothing will answer it."""
        if self.state in ("stopping", "stopped"):
            raise Refusal(503, "this version is being stopped", retry_after=1)
        if self.wanted == 0:
            raise Refusal(503, "this version has no workers: scale it up first", retry_after=1)
        if len(self.waiting) >= self.settings.queue_size:
            self.measures.full.inc()
            raise Refusal(429, f"{len(self.waiting)} requests wait already", retry_after=1)
        self.waiting.append(ticket)
        if not self.pumping:  # once for all requests that this round of the event loop brings
            self.pumping = True
            self.loop.call_soon(self.pump)

    def abandon(self, ticket: Ticket) -> None:
        """Nobody waits for this request any more."""
        if ticket.abandoned:
            return
        ticket.abandoned = True
        self.measures.cancelled.inc()
        if self.about.get("continuous"):
            for worker in self.workers:
                if ticket.id in worker.tickets:
                    worker.cancel(ticket)
        if ticket.sent == 0.0:
            with contextlib.suppress(ValueError):
                self.waiting.remove(ticket)

    def room(self, worker: Worker) -> int:
        """How many requests a worker may be sent now."""
        if worker.retiring or worker.alone:
            return 0
        most = int(self.about["max_batch_size"])
        if self.about["continuous"]:
            return most - len(worker.tickets)
        return most if len(worker.batches) < self.settings.batches_ahead else 0

    def pump(self) -> None:
        """Hand waiting requests to workers, in batches."""
        self.pumping = False
        while self.waiting:
            free = max(self.workers, key=lambda worker: self.room(worker) / (1 + len(worker.batches)), default=None)
            room = self.room(free) if free is not None else 0
            if free is None or room <= 0:
                return
            delay = self.settings.max_batch_delay / 1e3
            if delay and len(self.waiting) < room and not self.about["continuous"] and self.state == "ready":
                left = self.waiting[0].arrived + delay - time.perf_counter()
                if left > 0:
                    if self.timer is None:
                        self.timer = self.loop.call_later(left, self.timed)
                    return
            batch: list[Ticket] = []
            while self.waiting and len(batch) < room:
                ticket = self.waiting[0]
                if ticket.abandoned or ticket.future.done():
                    self.waiting.popleft()
                elif ticket.alone and batch:
                    break
                elif ticket.alone and free.tickets:
                    free = next((worker for worker in self.workers if not worker.tickets and self.room(worker) > 0), None)
                    if free is None:
                        return
                else:
                    batch.append(self.waiting.popleft())
                    if ticket.alone:
                        break
            if batch:
                self.batches += 1
                if self.about["continuous"]:
                    for ticket in batch:
                        self.batches += 1
                        free.send(self.batches, [ticket])
                else:
                    free.send(self.batches, batch)
                self.measures.batched(len(batch), batch)

    def timed(self) -> None:
        self.timer = None
        self.pump()

    # -- the end

    async def drain(self, seconds: float) -> None:
        """Wait until all requests are answered, at most so long."""
        end = time.monotonic() + seconds
        while time.monotonic() < end and (self.waiting or any(worker.wanted for worker in self.workers)):
            await asyncio.sleep(0.02)

    async def stop(self, seconds: float = 30.0) -> None:
        """Answer what is there, then end the processes; none of them is left."""
        loading = self.state == "loading"
        await self.drain(seconds)
        self.state = "stopping"
        for ticket in self.waiting:
            ticket.refuse(Refusal(503, "the server is stopping", retry_after=1))
        self.waiting.clear()
        self.looking.cancel()
        if self.timer is not None:
            self.timer.cancel()
        for worker in list(self.workers):
            worker.retiring = True
            worker.kill()
            worker.transport.close()
        if self.control is not None:
            with contextlib.suppress(OSError):
                self.control.shutdown(socket.SHUT_RDWR)
        host = self.host
        if host is not None:
            await asyncio.to_thread(spawning.end, host, 0.0 if loading else 5.0)
        self.state = "stopped"

    def processes(self) -> list[int]:
        """The process numbers of the host and the workers."""
        numbers = [worker.process for worker in self.workers if worker.process]
        host = self.host  # metrics are read in a thread of their own
        return ([host.pid] if host is not None else []) + numbers
