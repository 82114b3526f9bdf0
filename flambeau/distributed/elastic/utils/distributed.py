"""Free ports, and stores at them. Stands on stores."""

from __future__ import annotations

import socket
from datetime import timedelta

from flambeau.distributed.stores import TCPStore

__all__ = ["create_c10d_store", "get_free_port", "get_socket_with_port"]


def get_socket_with_port() -> socket.socket:
    """A socket that listens at a free port of this machine."""
    return socket.create_server(("localhost", 0), backlog=0)


def get_free_port() -> int:
    """A port of this machine that was free a moment ago."""
    with get_socket_with_port() as probe:
        return int(probe.getsockname()[1])


def create_c10d_store(
    is_server: bool,
    server_addr: str,
    server_port: int = -1,
    world_size: int = 1,
    timeout: float = 600,
    wait_for_workers: bool = True,
    retries: int = 3,
    use_libuv: bool | None = None,
) -> TCPStore:
    """A TCPStore, kept here or elsewhere; at a free port without one."""
    port = server_port if server_port != -1 else get_free_port()
    return TCPStore(server_addr, port, world_size, is_server, timedelta(seconds=timeout), wait_for_workers=wait_for_workers)
