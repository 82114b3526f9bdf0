"""The processes of one node: starting them with their environment and logs, watching them, ending them with all they started.

Each is the leader of a session of its own, so that nothing of it is left when it is ended, and is ended by the system should
the launcher die. Stands on the standard library and on errors; agent uses it.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import IO, Any

from flambeau.distributed.elastic.function_processes import FunctionCall, FunctionProcess
from flambeau.distributed.elastic.multiprocessing.errors import ProcessFailure

STDOUT, STDERR = 1, 2  # bits of what --redirects and --tee take
_GRACE = 30.0  # seconds from SIGTERM to SIGKILL, as in PyTorch
_PR_SET_PDEATHSIG = 1


def streams_of(text: str, count: int) -> list[int]:
    """What `--tee` or `--redirects` says for each local rank: "3" for all, or "0:3,1:1". Raises ValueError."""
    if ":" not in text:
        chosen = int(text)
        if not 0 <= chosen <= 3:
            raise ValueError(f"streams are 0 (none), 1 (stdout), 2 (stderr) or 3 (both), not {text}")
        return [chosen] * count
    made = [0] * count
    for part in text.split(","):
        rank, _, chosen_text = part.partition(":")
        if not (rank.isdigit() and chosen_text in ("0", "1", "2", "3")):
            raise ValueError(f"each part is <local rank>:<0, 1, 2 or 3>, not {part!r}")
        if int(rank) < count:
            made[int(rank)] = int(chosen_text)
    return made


class Workers:
    """The processes of one attempt, begun at once, each of a command or a function. logs: a folder for their output and errors.

    redirects, tee: for each, which streams go to files only, or to files and, with its name in front of each line, here.
    shown: local ranks whose output is shown at all (None: all).
    """

    def __init__(
        self,
        commands: Sequence[Sequence[str] | FunctionCall],
        environments: Sequence[Mapping[str, str]],
        logs: Path,
        redirects: Sequence[int],
        tee: Sequence[int],
        role: str,
        shown: set[int] | None = None,
    ) -> None:
        self.processes: list[subprocess.Popen[bytes] | FunctionProcess] = []
        self.error_files: list[Path] = []
        self._threads: list[threading.Thread] = []
        self._files: list[IO[bytes]] = []
        self._ended_at: dict[int, float] = {}
        try:
            for local, (command, environment) in enumerate(zip(commands, environments, strict=True)):
                self._start(
                    local,
                    command,
                    environment,
                    logs / str(local),
                    redirects[local],
                    tee[local],
                    role,
                    shown is None or local in shown,
                )
        except BaseException:
            self.end(signal.SIGKILL)
            raise

    def _start(
        self,
        local: int,
        command: Sequence[str] | FunctionCall,
        environment: Mapping[str, str],
        logs: Path,
        redirects: int,
        tee: int,
        role: str,
        shown: bool,
    ) -> None:
        logs.mkdir(parents=True, exist_ok=True)
        error_file = logs / "error.json"
        self.error_files.append(error_file)
        environment = {**environment, "TORCHELASTIC_ERROR_FILE": str(error_file)}
        if isinstance(command, FunctionCall):
            self._start_function(local, command, environment, logs, redirects, tee, role, shown)
            return
        targets: dict[str, Any] = {}
        for name, bit in (("stdout", STDOUT), ("stderr", STDERR)):
            if tee & bit:
                targets[name] = subprocess.PIPE
            elif redirects & bit:
                targets[name] = open(logs / f"{name}.log", "wb")  # noqa: SIM115 - as long as the process
                self._files.append(targets[name])
            elif not shown:
                targets[name] = subprocess.DEVNULL
        process = subprocess.Popen(command, env=environment, start_new_session=True, preexec_fn=_die_with_parent, **targets)
        self.processes.append(process)
        for name, here in (("stdout", sys.stdout), ("stderr", sys.stderr)):
            if targets.get(name) is subprocess.PIPE:
                thread = threading.Thread(
                    target=_copy_lines,
                    daemon=True,
                    args=(getattr(process, name), logs / f"{name}.log", here if shown else None, f"[{role}{local}]:"),
                )
                thread.start()
                self._threads.append(thread)

    def _start_function(
        self,
        local: int,
        call: FunctionCall,
        environment: Mapping[str, str],
        logs: Path,
        redirects: int,
        tee: int,
        role: str,
        shown: bool,
    ) -> None:
        outputs = {
            bit: logs / f"{name}.log" if (redirects | tee) & bit else Path(os.devnull)
            for name, bit in (("stdout", STDOUT), ("stderr", STDERR))
            if (redirects | tee) & bit or not shown
        }
        process = FunctionProcess(call, environment, outputs, logs / "result.pickle", _die_with_parent)
        self.processes.append(process)
        for bit, here in ((STDOUT, sys.stdout), (STDERR, sys.stderr)):
            if tee & bit and shown:
                thread = threading.Thread(
                    target=_follow_lines, daemon=True, args=(outputs[bit], process, here, f"[{role}{local}]:")
                )
                thread.start()
                self._threads.append(thread)

    def poll(self) -> list[int | None]:
        """Each one's exit code; None while it runs."""
        codes = [process.poll() for process in self.processes]
        for local, code in enumerate(codes):
            if code is not None:
                self._ended_at.setdefault(local, time.time())
        return codes

    def failures(self, first_rank: int) -> dict[int, ProcessFailure]:
        """Those that failed, by their ranks in the world."""
        found = {}
        for local, code in enumerate(self.poll()):
            if code:
                failure = ProcessFailure(local, self.processes[local].pid, code, str(self.error_files[local]))
                if failure.error_file == "<N/A>":
                    failure.timestamp = int(self._ended_at[local])
                found[first_rank + local] = failure
        return found

    def send(self, number: int) -> None:
        """Hand a signal on to all that run, and to what they started."""
        for process in self.processes:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.killpg(process.pid, number)

    def end(self, number: int = signal.SIGTERM, grace: float = _GRACE) -> None:
        """End all that run, by a signal and, after a grace, by SIGKILL; and what they leave behind."""
        if any(process.poll() is None for process in self.processes):
            self.send(number)
            self.send(signal.SIGCONT)  # one that was stopped has the other signal only now
            until = time.monotonic() + grace
            while time.monotonic() < until and any(process.poll() is None for process in self.processes):
                time.sleep(0.02)
        self.send(signal.SIGKILL)
        for process in self.processes:
            process.wait()
        for thread in self._threads:
            thread.join(2)
        for file in self._files:
            file.close()


_libc = ctypes.CDLL(None) if sys.platform.startswith("linux") else None


def _die_with_parent() -> None:
    """Between fork and exec: should the launcher die, so does this."""
    if _libc is not None:
        _libc.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)


def _follow_lines(path: Path, process: FunctionProcess, here: Any, prefix: str) -> None:
    """Lines of a file to here, with a prefix, until the process that writes it has ended."""
    written, over = b"", False
    with open(path, "ab+") as file:
        file.seek(0)
        while not over:
            over = process.poll() is not None
            written += file.read()
            *lines, written = written.split(b"\n")
            for line in [*lines, *([written] if over and written else [])]:
                here.write(prefix + line.decode(errors="replace") + "\n")
            here.flush()
            time.sleep(0.02)


def _copy_lines(source: IO[bytes], path: Path, here: Any, prefix: str) -> None:
    """Lines of a stream into a file and, with a prefix, to here."""
    with open(path, "wb") as file, source:
        for line in source:
            file.write(line)
            file.flush()
            if here is not None:
                here.write(prefix + line.decode(errors="replace"))
                here.flush()
