"""What goes through a worker: requests as the front end read them, and the answers to them.

Stands on the standard library; used by worker and the handlers.
"""

from __future__ import annotations

import dataclasses
import json
import math
from typing import Any

JSON = "application/json"


class Refused(Exception):
    """A request that can't be answered as it is: the status, and what is wrong with it in words for whoever sent it."""

    def __init__(self, status: int, message: str) -> None:
        super().__init__(message)
        self.status = status


@dataclasses.dataclass(slots=True)
class Item:
    """A request: its body, and the route by which it came (predict, kserve, embeddings, completions, chat)."""

    id: str
    route: str
    body: bytes
    type: str = JSON
    accept: str = ""
    headers: dict[str, str] = dataclasses.field(default_factory=dict)
    model: str = ""
    version: str = ""
    depth: int = 64
    request: str = ""  # the id that the client knows it by


@dataclasses.dataclass(slots=True)
class Answer:
    """The answer to a request. `more`: a part of a stream, which others follow."""

    body: bytes
    status: int = 200
    type: str = JSON
    headers: dict[str, str] = dataclasses.field(default_factory=dict)
    more: bool = False


def plain(value: Any) -> Any:
    """A value for JSON, which has no NaN and no infinity: null, as in JavaScript."""
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, dict):
        return {key: plain(one) for key, one in value.items()}
    if isinstance(value, (list, tuple)):
        return [plain(one) for one in value]
    return value


_encoder = json.JSONEncoder(allow_nan=False, separators=(",", ":"))


def as_json(value: Any) -> bytes:
    """A value as JSON; TypeError for what JSON can't hold."""
    try:
        return _encoder.encode(value).encode()
    except ValueError:
        return _encoder.encode(plain(value)).encode()


def error(status: int, message: str, route: str = "predict", kind: str | None = None) -> Answer:
    """A refusal in the form of the route: TorchServe's, KServe's or OpenAI's."""
    if route == "kserve":
        body: dict[str, Any] = {"error": message}
    elif route in ("embeddings", "completions", "chat"):
        family = "invalid_request_error" if status < 500 else "server_error"
        body = {"error": {"message": message, "type": family, "param": None, "code": kind or None}}
    else:
        body = {"code": status, "type": kind or KINDS.get(status, "InternalServerException"), "message": message}
    return Answer(as_json(body), status)


KINDS = {  # TorchServe's words
    400: "BadRequestException",
    401: "InvalidTokenException",
    404: "ResourceNotFoundException",
    405: "MethodNotAllowedException",
    408: "RequestTimeoutException",
    409: "ConflictStatusException",
    413: "RequestEntityTooLargeException",
    415: "UnsupportedMediaTypeException",
    429: "ServiceUnavailableException",
    501: "NotImplementedException",
    503: "ServiceUnavailableException",
    504: "RequestTimeoutException",
}
