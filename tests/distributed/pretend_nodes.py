"""Pretend machines: network namespaces of this machine with a cable between them, made by a test and gone with it.

Each has its own name, its own loopback and an address, and reaches nothing but the other. No rights are needed where the system
lets users have namespaces of their own; `pretend_nodes` skips the test, with the reason, where it doesn't.
"""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import pytest

PREFIX = "10.97.43."


class Nodes:
    """Two nodes: commands run on one of them, and the cable between them."""

    def __init__(self) -> None:
        self._holders: list[subprocess.Popen[str]] = []
        self.started: list[subprocess.Popen[str]] = []
        self.addresses = [PREFIX + "1", PREFIX + "2"]
        self._hold(["unshare", "--user", "--map-root-user", "--net", "--uts"])
        self._hold([*self._inside(0, "--user"), "unshare", "--net", "--uts"])
        self.call(
            0, "ip", "link", "add", "name", "cable", "type", "veth", "peer", "name", "cable", "netns", str(self._holders[1].pid)
        )
        for node, address in enumerate(self.addresses):
            self.call(node, "hostname", f"node{node}")
            self.call(node, "ip", "address", "add", f"{address}/24", "dev", "cable")
            for link in ("lo", "cable"):
                self.call(node, "ip", "link", "set", link, "up")

    def _hold(self, command: Sequence[str]) -> None:
        """A process that lives in new namespaces until its input, which this process keeps, is closed."""
        holder = subprocess.Popen(
            [*command, "sh", "-c", "echo && exec cat"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        self._holders.append(holder)
        assert holder.stdout is not None
        if not holder.stdout.readline():
            raise OSError(holder.communicate()[1].strip())

    def _inside(self, node: int, *namespaces: str) -> list[str]:
        return ["nsenter", "--target", str(self._holders[node].pid), "--preserve-credentials", *namespaces]

    def command(self, node: int, *words: str) -> list[str]:
        """A command as it is run on a node."""
        return [*self._inside(node, "--user", "--net", "--uts"), *words]

    def call(self, node: int, *words: str) -> None:
        """Run a command on a node to its end. Raises OSError if it fails."""
        done = subprocess.run(self.command(node, *words), capture_output=True, text=True, check=False)
        if done.returncode:
            raise OSError(f"{' '.join(words)}: {done.stderr.strip()}")

    def start(self, node: int, *words: str, **options: Any) -> subprocess.Popen[str]:
        """Begin a command on a node."""
        self.started.append(
            subprocess.Popen(self.command(node, *words), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, **options)
        )
        return self.started[-1]

    def cut(self) -> None:
        """Nothing that either node sends arrives any more, and nobody is told."""
        self.call(0, "ip", "link", "set", "cable", "down")

    def close(self) -> None:
        for process in self.started:
            if process.poll() is None:
                process.send_signal(signal.SIGKILL)
            process.communicate()
        for holder in self._holders:
            holder.communicate()


@contextmanager
def pretend_nodes() -> Iterator[Nodes]:
    """Two nodes. Skips the test where they can't be."""
    missing = [name for name in ("ip", "unshare", "nsenter", "hostname") if shutil.which(name, path=_path()) is None]
    if missing:
        pytest.skip(f"needs {', '.join(missing)}, of iproute2 and util-linux")
    nodes = Nodes.__new__(Nodes)
    try:
        try:
            nodes.__init__()  # type: ignore[misc]
        except OSError as error:
            pytest.skip(f"no network namespaces can be made here: {error}")
        yield nodes
    finally:
        nodes.close()


def _path() -> str:
    return os.pathsep.join([os.environ.get("PATH", ""), "/usr/sbin", "/sbin"])
