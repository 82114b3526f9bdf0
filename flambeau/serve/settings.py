"""What a server is told: ports and limits, and of each model where it is, how it is batched and by how many workers.

Stands on the standard library; used by command, server, registry and host.
"""

from __future__ import annotations

import dataclasses
import re
import reprlib
import tomllib
from pathlib import Path
from typing import Any

NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,127}")  # of models and versions: one segment of a path, no leading dot


class Wrong(ValueError):
    """A setting or an argument that can't be; the message says which and what it may be."""


@dataclasses.dataclass(frozen=True)
class ModelSettings:
    """One version of a model: where it is and how it is served."""

    name: str
    path: str
    version: str = "1.0"
    task: str | None = None  # of a folder: see handlers.tasks; None: by what is in it
    handler: str | None = None  # a Python file, `file.py:Class`
    max_batch_size: int | None = None  # rows in one call; None: what the kind of model says (1 for programs, 32 for texts)
    max_batch_delay: float = 0.0  # milliseconds that the first request of a batch waits for others while a worker is free
    workers: int = 1
    threads: int | None = None  # of one worker; None: the processors divided among the workers
    queue_size: int = 1024  # requests that wait; more are answered 429
    timeout: float = 60.0  # seconds that a request may take, waiting included
    batches_ahead: int = 2  # batches that are sent to one worker: the second is read while the first is computed
    sample: str | None = None  # a file with the body of a request, for the warm-up

    def __post_init__(self) -> None:
        for what in (self.name, self.version):
            if not NAME.fullmatch(what):
                raise Wrong(f"{what!r} is no name: letters, digits and _ . - are, at most 128")
        for field, least, most in LIMITS:
            value = getattr(self, field)
            if value is not None and not least <= value <= most:
                raise Wrong(f"{field} is {value}; it may be from {least} to {most}")


LIMITS = (
    ("max_batch_size", 1, 4096),
    ("max_batch_delay", 0, 60_000),
    ("workers", 0, 256),
    ("threads", 1, 1024),
    ("queue_size", 1, 1_000_000),
    ("timeout", 0.001, 86_400),
    ("batches_ahead", 1, 16),
)


@dataclasses.dataclass(frozen=True)
class ServerSettings:
    """Addresses, limits of requests, and what is written down."""

    host: str = "127.0.0.1"
    port: int = 8080
    management_host: str = "127.0.0.1"
    management_port: int = 8081
    metrics_host: str = "127.0.0.1"
    metrics_port: int = 8082
    model_store: str | None = None  # the only folder that management loads models from
    token_file: str | None = None  # where the management token is written; None: in a private temporary folder
    body_bytes: int = 8 << 20  # a longer body is answered 413
    pending_bytes: int = 512 << 20  # bodies of all requests together; more are answered 503
    header_bytes: int = 16 << 10  # request line and headers; more are answered 431
    depth: int = 64  # lists and objects in each other, in JSON
    header_seconds: float = 10.0  # from the first byte of a request to the end of its headers
    body_seconds: float = 30.0  # from there to the end of the body
    write_seconds: float = 30.0  # in which a client takes nothing of its answer
    idle_seconds: float = 75.0  # that a connection is kept between requests
    drain_seconds: float = 30.0  # for requests that are under way when the server is told to end
    unready_seconds: float = 0.0  # readiness is refused for so long before connections are (Kubernetes needs some seconds)
    log: str = "json"  # or "text"
    access_log: bool = True


def converted(cls: type, values: dict[str, Any]) -> dict[str, Any]:
    """The values by field, as the fields' types; Wrong for names and values that can't be."""
    fields = {field.name: str(field.type) for field in dataclasses.fields(cls)}
    found = {}
    for name, value in values.items():
        if name not in fields:
            raise Wrong(f"there is no setting {name!r}; there are {', '.join(fields)}")
        kind = fields[name].removesuffix(" | None")
        try:
            if kind == "bool":
                if not isinstance(value, bool) and str(value).lower() not in ("true", "false"):
                    raise ValueError
                found[name] = value if isinstance(value, bool) else str(value).lower() == "true"
            elif kind != "str" and isinstance(value, bool):
                raise ValueError
            elif kind == "int" and isinstance(value, float) and not value.is_integer():
                raise ValueError  # nothing is rounded silently
            else:
                found[name] = {"int": int, "float": float, "str": str}[kind](value)
        except (ValueError, TypeError):
            raise Wrong(f"{name} is {reprlib.repr(value)}; it must be {kind}") from None
    return found


def model_from_argument(text: str, **common: Any) -> ModelSettings:
    """`[NAME=]PATH[@VERSION]` of the command line."""
    name, equals, path = text.partition("=")
    if not equals:
        name, path = "", text
    version = "1.0"
    at = path.rpartition("@")
    if at[1] and not Path(path).exists() and NAME.fullmatch(at[2]):
        path, version = at[0], at[2]
    name = name or Path(path).resolve().name.removesuffix(Path(path).suffix if not Path(path).is_dir() else "")
    return ModelSettings(name=name, path=path, version=version, **common)


def read_file(path: str) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    """The settings of a TOML file: those of the server at the top, of models in [[model]]."""
    try:
        with open(path, "rb") as file:
            table = tomllib.load(file)
    except (OSError, tomllib.TOMLDecodeError) as error:
        raise Wrong(f"{path}: {error}") from None
    models = table.pop("model", [])
    if not isinstance(models, list) or not all(isinstance(model, dict) for model in models):
        raise Wrong(f"{path}: models are tables [[model]]")
    return table, models
