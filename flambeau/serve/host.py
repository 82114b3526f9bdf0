"""The process of one version of a model: loads it, computes once what requests need, and forks workers on demand.

Workers share with it, and so with each other, the pages of weights, packed weights and compiled code; a worker that dies is
replaced by a fork, without loading anything. It ends when the front end does. Started by pool as `python -c`, with a socket
on which the front end asks for workers. Stands on models and worker.
"""

from __future__ import annotations

import json
import logging
import os
import signal
import socket
import sys
import time
from types import FrameType
from typing import Any

from flambeau.serve import logs
from flambeau.serve.settings import ModelSettings

log = logging.getLogger(__name__)


class Host:
    """Forks workers of a service for whoever asks on the control socket."""

    def __init__(self, control: socket.socket, settings: ModelSettings, threads: int) -> None:
        self.control, self.settings, self.threads = control, settings, threads

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
            try:
                self.tell(ended=process, status=os.waitstatus_to_exitcode(status))
            except OSError:
                return

    def run(self) -> None:
        start = time.perf_counter()
        try:
            import flambeau as torch
            from flambeau.serve import models

            torch.set_num_threads(self.threads)
            service = models.load(self.settings)
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
        from flambeau.serve.worker import work

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
                asked, descriptors, _, _ = socket.recv_fds(self.control, 1 << 16, 1)
            except ConnectionError:
                return
            if not asked:
                return
            for descriptor in descriptors:
                process = os.fork()
                if process == 0:
                    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
                    self.control.close()
                    work(socket.socket(fileno=descriptor), service, self.settings)
                    os._exit(0)
                os.close(descriptor)
                self.tell(forked=process)


def main() -> None:
    """`python -c "from flambeau.serve.host import main; main()" DESCRIPTOR SETTINGS THREADS LOG`."""
    descriptor, settings, threads, form = sys.argv[1:5]
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    logs.set_up(form)
    with socket.socket(fileno=int(descriptor)) as control:
        Host(control, ModelSettings(**json.loads(settings)), int(threads)).run()
    sys.stderr.flush()
    os._exit(0)  # there is nothing to be put in order, and the front end waits
