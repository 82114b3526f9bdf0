"""The process of one version of a model: loads it, computes once what requests need, and forks workers on demand.

Workers share with it, and so with each other, the pages of weights, packed weights and compiled code; a worker that dies is
replaced by a fork, without loading anything. It ends when the front end does. Started by pool as `python -c`, with a socket
on which the front end asks for workers. Stands on models and worker.
"""

from __future__ import annotations

import contextlib
import json
import logging
import mmap
import os
import signal
import socket
import sys
import tempfile
import time
from types import FrameType
from typing import TYPE_CHECKING, Any, NoReturn

from flambeau.serve import archives, logs
from flambeau.serve.frames import BEGUN
from flambeau.serve.settings import ModelSettings

if TYPE_CHECKING:
    from flambeau.serve.service import Service

log = logging.getLogger(__name__)


class Host:
    """Forks workers of a service for whoever asks on the control socket."""

    def __init__(self, control: socket.socket, settings: ModelSettings, threads: int) -> None:
        self.control, self.settings, self.threads = control, settings, threads
        self.workers: set[int] = set()

    def tell(self, **what: Any) -> None:
        self.control.send(json.dumps(what).encode())

    def reap(self, number: int = 0, frame: FrameType | None = None) -> None:
        """Tell the front end which workers have ended, and how."""
        while True:
            try:
                process, status = os.waitpid(-1, os.WNOHANG)
            except ChildProcessError:
                return
            if not process:
                return
            self.workers.discard(process)
            try:
                self.tell(ended=process, status=os.waitstatus_to_exitcode(status))
            except OSError:
                return

    def run(self, folder: str) -> None:
        """Load the model, whose archive is unpacked into the folder, and fork workers until the front end is gone."""
        start = time.perf_counter()
        try:
            import flambeau as torch
            from flambeau.serve import models

            torch.set_num_threads(self.threads)
            service = models.load(self.settings, folder)
            sample = None
            if self.settings.sample:
                with open(self.settings.sample, "rb") as file:
                    sample = file.read()
            service.warm_up(sample)
        except Exception as problem:
            log.error("%s %s can't be served", self.settings.name, self.settings.version, exc_info=problem)
            message = (str(problem).splitlines() or [""])[0]
            self.tell(failed=f"{type(problem).__name__}: {message}"[:2000])
            return
        signal.signal(signal.SIGCHLD, self.reap)
        self.tell(
            ready={
                "seconds": time.perf_counter() - start,
                "routes": sorted(service.routes),
                "max_batch_size": service.max_batch_size,
                "continuous": service.continuous,
                "metadata": service.metadata(),
            }
        )
        while True:
            try:
                asked, descriptors, _, _ = socket.recv_fds(self.control, 1 << 16, 2)
            except ConnectionError:
                return
            if not asked:
                return
            process = os.fork()
            if process == 0:
                self.worker(descriptors[0], descriptors[1], service)
            self.workers.add(process)
            for descriptor in descriptors:
                os.close(descriptor)

    def worker(self, descriptor: int, begun: int, service: Service) -> NoReturn:
        """What a fork does. Nothing of the host's is put in order by it, however it ends."""
        from flambeau.serve.worker import work

        status = 1
        try:
            signal.signal(signal.SIGCHLD, signal.SIG_DFL)
            signal.signal(signal.SIGTERM, nothing)
            self.control.close()
            work(socket.socket(fileno=descriptor), mmap.mmap(begun, BEGUN.size), service, self.settings)
            status = 0
        except BaseException as problem:  # SystemExit of a handler's as well
            log.error("a worker ends", exc_info=problem)
        finally:
            os._exit(status)

    def end(self) -> None:
        """End the workers, who have nothing more to answer, and wait for them: they don't outlive this process."""
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        for process in self.workers:
            with contextlib.suppress(ChildProcessError):
                if os.waitpid(process, os.WNOHANG)[0] == 0:
                    os.kill(process, signal.SIGKILL)
                    os.waitpid(process, 0)


def nothing(number: int, frame: FrameType | None) -> None:
    """A signal that changes nothing. What is executed doesn't inherit it, as it would SIG_IGN."""


def main() -> None:
    """`python -c "from flambeau.serve.host import main; main()" DESCRIPTOR SETTINGS THREADS LOG`."""
    descriptor, settings, threads, form = sys.argv[1:5]
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, nothing)  # service managers send it to all processes; requests under way are answered first
    os.register_at_fork(after_in_child=lambda: signal.signal(signal.SIGTERM, signal.SIG_DFL))  # what handlers start ends by it
    logs.set_up(form)
    with tempfile.TemporaryDirectory(
        prefix="model-", dir=os.environ.get(archives.UNPACKED), ignore_cleanup_errors=True
    ) as folder:
        with socket.socket(fileno=int(descriptor)) as control:
            host = Host(control, ModelSettings(**json.loads(settings)), int(threads))
            try:
                host.run(folder)
            except ConnectionError:  # the front end is gone
                pass
            finally:
                host.end()
    sys.stderr.flush()
    if os.getpgrp() == os.getpid():
        os.killpg(0, signal.SIGKILL)  # what handlers have started ends with it
    os._exit(0)  # there is nothing to be put in order, and the front end waits
