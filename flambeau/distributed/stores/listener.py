"""Sockets between processes: listening, letting others in (a world of many needs many file descriptors at rank 0), and noticing
that the machine at the other end is gone.

Stands on the standard library; the server of TCP stores and the lifelines use it.
"""

from __future__ import annotations

import errno
import resource
import socket
import time

from flambeau.base.warn import warn_once
from flambeau.distributed.errors import DistNetworkError

_NONE_LEFT = (errno.EMFILE, errno.ENFILE)
_IDLE, _BETWEEN, _PROBES = 5, 2, 4  # seconds of silence before a question, between questions; how many aren't answered
_PAUSE = 0.1  # seconds for which nobody is let in when there is no descriptor for it


def listening(port: int, backlog: int = 1024, descriptor: int | None = None, host: str = "") -> socket.socket:
    """A socket that listens at a port of this machine (0: any), for all networks or at one address. Raises DistNetworkError if it
    is taken.
    """
    if descriptor is not None:
        taken = socket.socket(fileno=descriptor)
        taken.listen(backlog)
        return taken
    try:
        if host:
            return socket.create_server((host, port), backlog=backlog)
        if socket.has_dualstack_ipv6():
            return socket.create_server(("", port), family=socket.AF_INET6, dualstack_ipv6=True, backlog=backlog)
        return socket.create_server(("", port), backlog=backlog)
    except (OSError, OverflowError) as error:
        raise DistNetworkError(
            f"The server socket has failed to listen on any local network address. port: {port}, message: "
            f"{getattr(error, 'strerror', None) or error}"
        ) from None


def accepted(listener: socket.socket) -> socket.socket:
    """The connection that waits there, for which the process's limit of open files is raised if need be, as far as it may be.

    Raises OSError: nobody waits, or there is no descriptor left, which is said once.
    """
    try:
        return listener.accept()[0]
    except OSError as error:
        if error.errno not in _NONE_LEFT:
            raise
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft != hard:
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    try:
        return listener.accept()[0]
    except OSError as error:
        if error.errno in _NONE_LEFT:
            warn_once(
                f"rank 0 keeps connections to every process, and can't have more than {hard} files open: raise the hard "
                "limit (ulimit -Hn) where it runs",
                RuntimeWarning,
            )
            time.sleep(_PAUSE)
        raise


def prepare(connection: socket.socket) -> None:
    """Send without delay, and have a connection end soon after the machine at its other end was cut off: asked now and then
    when all is quiet, and by a limit to how long what was sent may stay unanswered.
    """
    connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    for option, value in (
        ("TCP_KEEPIDLE", _IDLE),
        ("TCP_KEEPINTVL", _BETWEEN),
        ("TCP_KEEPCNT", _PROBES),
        ("TCP_USER_TIMEOUT", (_IDLE + _BETWEEN * _PROBES) * 1000),
    ):
        if hasattr(socket, option):  # not on every system
            connection.setsockopt(socket.IPPROTO_TCP, getattr(socket, option), value)
