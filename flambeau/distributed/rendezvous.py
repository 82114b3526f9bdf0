"""torch.distributed.rendezvous: from an address to a store and to this process's rank in the world.

    env://                  RANK, WORLD_SIZE, MASTER_ADDR and MASTER_PORT of the environment; under mpiexec MPI itself
    tcp://host:port         rank 0 keeps a store there
    file:///path            a file that all processes see

rank and world_size may stand in the address, `?rank=0&world_size=2`. Stands on stores and mpi; init_process_group asks it.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from datetime import timedelta
from typing import Any
from urllib.parse import parse_qsl, urlparse

from flambeau.distributed.constants import default_pg_timeout
from flambeau.distributed.mpi import library, world
from flambeau.distributed.stores import FileStore, PrefixStore, Store, TCPStore

__all__ = ["register_rendezvous_handler", "rendezvous"]

Found = Iterator[tuple[Store, int, int]]
_handlers: dict[str, Callable[..., Found]] = {}


def register_rendezvous_handler(scheme: str, handler: Callable[..., Found]) -> None:
    """Have handler(url, timeout=..., ...) find the world of addresses that begin with `scheme`://. It yields (store, rank,
    world_size). Raises RuntimeError if there is one for that.
    """
    if scheme in _handlers:
        raise RuntimeError(f"Rendezvous handler for {scheme}:// already registered")
    _handlers[scheme] = handler


def rendezvous(url: str, rank: int = -1, world_size: int = -1, **kwargs: Any) -> Found:
    """(store, rank, world_size) of an address. Raises RuntimeError for one that nobody knows, AssertionError where rank or
    world_size are given both in the address and beside it.
    """
    if not isinstance(url, str):
        raise RuntimeError(f"`url` must be a string. {type(url)}: {url}")
    if not isinstance(rank, int):
        raise RuntimeError(f"`rank` must be an integer. {rank}")
    if not isinstance(world_size, int):
        raise RuntimeError(f"`world_size` must be an integer. {world_size}")
    address = urlparse(url)
    given = dict(parse_qsl(address.query))
    if rank != -1 or world_size != -1:
        if "rank" in given or "world_size" in given:
            raise AssertionError(f"The url: {url} has node-specific arguments(rank, world_size) already.")
        given.update({name: str(value) for name, value in (("rank", rank), ("world_size", world_size)) if value != -1})
    if address.scheme not in _handlers:
        raise RuntimeError(f"No rendezvous handler for {address.scheme}://")
    query = "&".join(f"{name}={value}" for name, value in given.items())
    return _handlers[address.scheme](address._replace(query=query).geturl(), **kwargs)


def _missing(scheme: str, what: str) -> ValueError:
    return ValueError(f"Error initializing torch.distributed using {scheme}:// rendezvous: {what}")


def _number(scheme: str, given: dict[str, str], name: str) -> int:
    if name not in given:
        raise _missing(scheme, f"{name.replace('_', ' ')} parameter missing")
    try:
        return int(given[name])
    except ValueError:
        raise _missing(scheme, f"{name} is no whole number: {given[name]!r}") from None


def _file(url: str, timeout: timedelta = default_pg_timeout, **kwargs: Any) -> Found:
    address = urlparse(url)
    if not address.path:
        raise _missing("file", "path missing")
    given = dict(parse_qsl(address.query))
    rank, size = _number("file", given, "rank"), _number("file", given, "world_size")
    store = FileStore(address.path, size)
    yield store, rank, size
    raise RuntimeError("Unable to perform rerendezvous using file:// method")


def _tcp(url: str, timeout: timedelta = default_pg_timeout, **kwargs: Any) -> Found:
    address = urlparse(url)
    if address.port is None or address.hostname is None:
        raise _missing("tcp", "port number missing")
    given = dict(parse_qsl(address.query))
    rank, size = _number("tcp", given, "rank"), _number("tcp", given, "world_size")
    yield store_at(address.hostname, address.port, rank, size, timeout), rank, size
    raise RuntimeError("Unable to perform re-rendezvous using tcp:// method")


def _env(url: str, timeout: timedelta = default_pg_timeout, **kwargs: Any) -> Found:
    given = dict(parse_qsl(urlparse(url).query))

    def wanted(name: str) -> str:
        value = os.environ.get(name)
        if value is None:
            raise _missing("env", f"environment variable {name} expected, but not set")
        return value

    if library.started_by_process_manager() and not {"RANK", "MASTER_ADDR"} & set(os.environ):
        yield world.store_under_process_manager(timeout)
    else:
        rank = _number("env", given if "rank" in given else {"rank": wanted("RANK")}, "rank")
        size = _number("env", given if "world_size" in given else {"world_size": wanted("WORLD_SIZE")}, "world_size")
        host = wanted("MASTER_ADDR")
        port = _number("env", {"MASTER_PORT": wanted("MASTER_PORT")}, "MASTER_PORT")
        yield store_at(host, port, rank, size, timeout), rank, size
    raise RuntimeError("Unable to perform re-rendezvous using env:// method")


register_rendezvous_handler("file", _file)
register_rendezvous_handler("tcp", _tcp)
register_rendezvous_handler("env", _env)


def store_at(host: str, port: int, rank: int, size: int, timeout: timedelta) -> Store:
    """The store at a TCP address, which rank 0 keeps, or the launcher where it says so.

    PyTorch's own launcher keeps a store that speaks otherwise: then rank 0 keeps ours at the next port. Nobody waits for the
    others here: whoever makes the world does, and knows who is missing.
    """
    check_rank(rank, size)
    if not 0 <= port < 1 << 16:
        raise ValueError(f"port must have value from 0 to 65535 but was {port}.")
    if os.environ.get("TORCHELASTIC_USE_AGENT_STORE") == "True":
        if os.environ.get("FLAMBEAU_AGENT_STORE") == f"{host}:{port}":
            attempt = f"/worker/attempt_{os.environ.get('TORCHELASTIC_RESTART_COUNT', '0')}"
            return PrefixStore(attempt, TCPStore(host, port, None, False, timeout))
        port += 1
    return TCPStore(host, port, None, rank == 0, timeout, multi_tenant=True)


def check_rank(rank: int, size: int) -> None:
    """Raise ValueError unless it is a rank of a world of that size."""
    if size < 1:
        raise ValueError(f"a world has at least one rank, not {size}")
    if not 0 <= rank < size:
        raise ValueError(f"rank {rank} is not one of a world of {size}: ranks are 0 to {size - 1}")
