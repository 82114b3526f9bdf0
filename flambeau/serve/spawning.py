"""Starts the process that loads a version of a model (host); at first before the front end imports what it needs itself.

Stands on the standard library and settings; used by command and pool.
"""

from __future__ import annotations

import dataclasses
import json
import os
import signal
import socket
import subprocess
import sys

from flambeau.serve.settings import ModelSettings

PROGRAM = "from flambeau.serve.host import main; main()"
Started = tuple["subprocess.Popen[bytes]", socket.socket]


def start(settings: ModelSettings, log_form: str) -> Started:
    """The process, and the socket on which it says that it is ready and is asked for workers. It ends when that is closed."""
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    ours.setblocking(False)
    threads = settings.threads or max(1, len(os.sched_getaffinity(0)) // max(1, settings.workers))
    arguments = [str(theirs.fileno()), json.dumps(dataclasses.asdict(settings)), str(threads), log_form]
    try:
        process = subprocess.Popen(
            [sys.executable, "-u", "-c", PROGRAM, *arguments],  # what handlers print isn't lost with a worker, nor forked
            pass_fds=[theirs.fileno()],
            stdin=subprocess.DEVNULL,
            stdout=sys.stderr,
            start_new_session=True,  # signals of the terminal are for the front end
        )
    finally:
        theirs.close()
    return process, ours


def end(process: subprocess.Popen[bytes], seconds: float) -> None:
    """Wait for a process whose socket is closed; kill it, and what it has started, if it goes on for longer than this."""
    try:
        process.wait(seconds)
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()
