"""The inference port: TorchServe's, KServe's and OpenAI's routes to models, liveness and readiness.

One ASGI application without a framework's routing, since each request goes through it. Stands on registry and answers; used
by server.
"""

from __future__ import annotations

import asyncio
import logging
import re
import time
from collections.abc import Awaitable, Callable, MutableMapping
from typing import Any

from flambeau.serve import json_bodies, tickets
from flambeau.serve.answers import Answer, Refused, as_json, error
from flambeau.serve.logs import AccessLog
from flambeau.serve.registry import NotThere, Registry, Version
from flambeau.serve.settings import ServerSettings
from flambeau.serve.tickets import Refusal, Ticket
from flambeau.serve.tracing import Tracer

log = logging.getLogger(__name__)
Scope = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[MutableMapping[str, Any]]]
Send = Callable[[MutableMapping[str, Any]], Awaitable[None]]

GONE = "flambeau.gone"  # in the scope: the functions that are called when the client leaves
STICKY = "x-sticky-id"  # requests with one value of it get one version
OPENAI = {"embeddings": "embeddings", "completions": "completions", "chat/completions": "chat"}
_ID = re.compile(r"[A-Za-z0-9_.-]{1,128}")
_HEADER = re.compile(r"[a-z0-9-]{1,64}")
_VALUE = re.compile(r"[\x20-\x7e]{0,4096}")
_OURS = {
    "content-length",
    "transfer-encoding",
    "connection",
    "content-type",
    "date",
    "server",
    "x-request-id",
    "upgrade",
    "trailer",
}


ABSENT = {  # routes of TorchServe's
    "explanations": "explanations",
    "workflows": "workflows",
    "wfpredict": "workflows",
}


class ClientGone(Exception):
    """Nobody waits for an answer."""


def headers_of(scope: Scope) -> dict[str, str]:
    """Headers by lower-case name; those given twice are joined."""
    found: dict[str, str] = {}
    for name, value in scope["headers"]:
        key, text = name.decode("latin-1"), value.decode("latin-1")
        found[key] = f"{found[key]}, {text}" if key in found else text
    return found


class InferenceApp:
    """Answers on the inference port."""

    def __init__(self, registry: Registry, settings: ServerSettings, access: AccessLog | None) -> None:
        self.registry, self.settings, self.access = registry, settings, access
        self.tracer = Tracer()
        self.draining = False
        self.pending = 0  # bytes of bodies of requests under way

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            return
        started = time.perf_counter()
        headers = headers_of(scope)
        id = headers.get("x-request-id", "")
        if not _ID.fullmatch(id):
            id = tickets.new_id()
        path, method = scope["path"], scope["method"]
        target = self.target(method, path)
        status, version = 500, None
        span = self.tracer.start(
            f"{method} {path}", headers, **{"http.request.method": method, "url.path": path, "request.id": id}
        )
        try:
            if isinstance(target, Answer):
                status = target.status
                await respond(send, target, id, close=method not in ("GET", "HEAD", "OPTIONS"))
            else:
                route, name, wanted = target
                try:
                    status, version = await self.infer(scope, receive, send, headers, id, route, name, wanted)
                except (Refusal, Refused) as refusal:
                    status = refusal.status
                    answer = error(status, str(refusal), route, getattr(refusal, "kind", None))
                    if isinstance(refusal, Refusal) and refusal.retry_after:
                        answer.headers["retry-after"] = str(refusal.retry_after)
                    await respond(send, answer, id, close=status in (408, 413, 415, 503))
        except ClientGone:
            status = 499
        except asyncio.CancelledError:
            status = 503
            raise
        except Exception as problem:
            log.error("a request failed", exc_info=problem, extra={"request": id})
            await respond(send, error(500, f"the server failed; its log says more under {id}"), id, close=True)
        finally:
            self.tracer.end(span, status)
            if self.access is not None:
                own = version.settings if version is not None else None
                names = (own.name, own.version) if own is not None else ("", "")
                self.access.write(id, method, path, status, time.perf_counter() - started, *names)

    # -- where to

    def target(self, method: str, path: str) -> Answer | tuple[str, str | None, str | None]:
        """An answer that is known at once, or the route, the model and the version that a request names."""
        parts = path.split("/")[1:] or [""]  # of `OPTIONS *` there are none
        first = parts[0]
        if first == "predictions" and len(parts) in (2, 3) and parts[1]:
            version = parts[2] if len(parts) == 3 and parts[2] else None
            return ("predict", parts[1], version) if method in ("POST", "PUT") else refused(method, "POST")
        if first == "v2":
            return self.kserve(method, parts[1:])
        if first == "v1":
            rest = "/".join(parts[1:])
            if rest in OPENAI:
                return (OPENAI[rest], None, None) if method == "POST" else refused(method, "POST", OPENAI[rest])
            if len(parts) == 3 and parts[1] == "models" and parts[2].endswith(":predict"):
                return ("predict", parts[2].removesuffix(":predict"), None) if method == "POST" else refused(method, "POST")
            if method in ("GET", "HEAD") and parts[1:2] == ["models"] and len(parts) <= 3:
                return self.listed(parts[2] if len(parts) == 3 else None)
        if method in ("GET", "HEAD"):
            if path in ("/ping", "/readyz"):
                ready = self.ready()
                return Answer(as_json({"status": "Healthy" if ready else "Unhealthy"}), 200 if ready else 503)
            if path == "/livez":
                return Answer(as_json({"status": "Alive"}))
        if first in ABSENT:
            return error(501, f"{ABSENT[first]}: not implemented in flambeau")
        if path == "/" and method in ("GET", "HEAD", "OPTIONS"):
            return Answer(as_json({"server": "flambeau", "routes": ROUTES}))
        return error(404, "Requested resource is not found, please refer to API document.")

    def ready(self) -> bool:
        return not self.draining and self.registry.ready()

    def kserve(self, method: str, parts: list[str]) -> Answer | tuple[str, str | None, str | None]:
        if method == "POST":
            if parts[:1] == ["models"] and parts[-1] == "infer":
                if len(parts) == 3:
                    return "kserve", parts[1], None
                if len(parts) == 5 and parts[2] == "versions":
                    return "kserve", parts[1], parts[3]
            return error(404, "there is no such route", "kserve")
        if method not in ("GET", "HEAD"):
            return refused(method, "GET, POST", "kserve")
        if parts in ([], [""]):
            return Answer(as_json({"name": "flambeau", "version": "1", "extensions": ["binary_tensor_data"]}))
        if parts == ["health", "live"]:
            return Answer(as_json({"live": True}))
        if parts == ["health", "ready"]:
            return Answer(as_json({"ready": self.ready()}), 200 if self.ready() else 503)
        if parts[0] == "models" and len(parts) >= 2:
            ready = parts[-1] == "ready" and len(parts) in (3, 5)
            rest = parts[2:-1] if ready else parts[2:]
            if rest == [] or (len(rest) == 2 and rest[0] == "versions"):
                try:
                    version = self.registry.named(parts[1], rest[1] if rest else None)
                except NotThere as refusal:
                    return error(404, str(refusal), "kserve")
                own, pool = version.settings, version.pool
                if ready:
                    fine = pool.state == "ready" and bool(pool.workers)
                    return Answer(as_json({"name": own.name, "ready": fine}), 200 if fine else 503)
                names = list(self.registry.models[own.name].versions)
                return Answer(as_json({"name": own.name, "versions": names, "platform": "flambeau", **pool.about["metadata"]}))
        return error(404, "there is no such route", "kserve")

    def listed(self, name: str | None) -> Answer:
        """OpenAI's list of models, or one of them."""
        names = [one for one in self.registry.models if name in (None, one)]
        models = [{"id": one, "object": "model", "created": 0, "owned_by": "flambeau"} for one in names]
        if name is None:
            return Answer(as_json({"object": "list", "data": models}))
        if not models:
            return error(404, f"there is no model {name[:200]!r}", "embeddings", "model_not_found")
        return Answer(as_json(models[0]))

    # -- models

    async def infer(
        self,
        scope: Scope,
        receive: Receive,
        send: Send,
        headers: dict[str, str],
        id: str,
        route: str,
        name: str | None,
        wanted: str | None,
    ) -> tuple[int, Version]:
        """Have a model answer a request; the status of the answer. Refused, Refusal for one that it doesn't get."""
        version = None
        if name is not None:
            version = self.registry.find(name, wanted, headers.get(STICKY))
        parts: list[bytes] = []
        try:
            await self.read(receive, headers, parts)
            body = parts[0] if len(parts) == 1 else b"".join(parts)
            parts[:] = [body]
            if version is None:
                version = self.named_in(body, headers)
            return await self.answered(scope, send, headers, id, route, version, body)
        finally:
            self.pending -= sum(map(len, parts))

    def named_in(self, body: bytes, headers: dict[str, str]) -> Version:
        """The version that an OpenAI request names: `name` or `name:version`."""
        content = json_bodies.read(body, self.settings.depth)
        model = content.get("model") if isinstance(content, dict) else None
        if not isinstance(model, str):
            raise Refused(400, '"model" is the name of a model')
        name, _, wanted = model.partition(":")
        try:
            return self.registry.find(name, wanted or None, headers.get(STICKY))
        except NotThere as refusal:
            raise Refusal(404, str(refusal), "model_not_found") from None

    async def read(self, receive: Receive, headers: dict[str, str], parts: list[bytes]) -> None:
        """Read a body, whose parts count as pending as they come; Refused for one that is too long, too slow or encoded."""
        most, size, more = self.settings.body_bytes, 0, True
        if int(headers.get("content-length", 0)) > most:
            raise Refused(413, f"a body has at most {most} bytes")
        if headers.get("content-encoding", "identity").lower() != "identity":
            raise Refused(415, "Content-Encoding isn't taken: send the body as it is")
        try:
            async with asyncio.timeout(self.settings.body_seconds):
                while more:
                    message = await receive()
                    if message["type"] != "http.request":
                        raise ClientGone
                    parts.append(message["body"])
                    more = message["more_body"]
                    size += len(message["body"])
                    self.pending += len(message["body"])
                    if size > most:
                        raise Refused(413, f"a body has at most {most} bytes")
                    if self.pending > self.settings.pending_bytes:
                        raise Refusal(503, "too many bytes of requests wait", retry_after=1)
        except TimeoutError:
            raise Refused(408, f"the body didn't come within {self.settings.body_seconds:g} s") from None

    async def answered(
        self, scope: Scope, send: Send, headers: dict[str, str], id: str, route: str, version: Version, body: bytes
    ) -> tuple[int, Version]:
        pool = version.pool
        if route not in pool.about["routes"]:
            raise Refused(
                400, f"model {version.settings.name} doesn't answer {route}; it answers {', '.join(pool.about['routes'])}"
            )
        kind = headers.get("content-type", "")
        head: dict[str, Any] = {
            "id": tickets.new_id(),
            "request": id,
            "route": route,
            "type": kind,
            "accept": headers.get("accept", ""),
            "headers": headers,
        }
        loop = asyncio.get_running_loop()
        started = time.perf_counter()
        ticket = Ticket(head["id"], head, body, started + pool.settings.timeout, loop)

        def gone() -> None:
            pool.abandon(ticket)
            ticket.refuse(Refusal(499, "the client left"))

        status = 500
        leaving = scope.setdefault(GONE, set())
        leaving.add(gone)
        try:
            pool.submit(ticket)
            answer, text = await ticket.future
            status = answer["status"]
            extra = answer.get("headers", {})
            made = Answer(text, status, answer["type"], extra, bool(answer.get("more")))
            await respond(send, made, id, version=version.settings.version)
            if made.more:
                await stream(send, ticket)
        except Refusal as refusal:
            status = refusal.status
            if status == 499:
                raise ClientGone from None
            raise
        except asyncio.CancelledError:
            pool.abandon(ticket)
            raise
        finally:
            leaving.discard(gone)
            version.measures.answered(status, time.perf_counter() - started)
        return status, version


async def stream(send: Send, ticket: Ticket) -> None:
    """The parts of an answer after the first; an event that says so where it breaks off."""
    assert ticket.parts is not None
    while True:
        part = await ticket.parts.get()
        if isinstance(part, Refusal):
            if part.status == 499:
                raise ClientGone
            text = b"data: " + error(part.status, str(part), "completions").body + b"\n\n"
            await send({"type": "http.response.body", "body": text})
            return
        head, body = part
        await send({"type": "http.response.body", "body": body, "more_body": bool(head.get("more"))})
        if not head.get("more"):
            return


async def respond(send: Send, answer: Answer, id: str, close: bool = False, version: str | None = None) -> None:
    """Write an answer, or the first part of one."""
    kind = answer.type if _VALUE.fullmatch(answer.type) else "application/octet-stream"  # a handler may have it of a client
    body = b"" if answer.status in (204, 205, 304) else answer.body  # what follows these would be taken for the next answer
    headers = [(b"content-type", kind.encode()), (b"x-request-id", id.encode())]
    if not answer.more:
        headers.append((b"content-length", str(len(body)).encode()))
    else:
        headers.append((b"cache-control", b"no-cache"))
    if version is not None:
        headers.append((b"x-model-version", version.encode()))
    for name, value in answer.headers.items():
        if name not in _OURS and _HEADER.fullmatch(name) and _VALUE.fullmatch(value):
            headers.append((name.encode(), value.encode()))
    if close:
        headers.append((b"connection", b"close"))
    await send({"type": "http.response.start", "status": answer.status, "headers": headers})
    await send({"type": "http.response.body", "body": body, "more_body": answer.more})


def refused(method: str, allowed: str, route: str = "predict") -> Answer:
    answer = error(405, f"{method[:20]} isn't allowed here; {allowed} is", route)
    answer.headers["allow"] = allowed
    return answer


ROUTES = {
    "POST /predictions/{model}[/{version}]": "TorchServe's inference",
    "GET /ping": "whether all models are ready; also /readyz and, for the process, /livez",
    "POST /v2/models/{model}[/versions/{version}]/infer": "KServe's protocol, version 2",
    "POST /v1/models/{model}:predict": "KServe's protocol, version 1",
    "POST /v1/embeddings": "OpenAI's embeddings",
    "POST /v1/completions": "OpenAI's completions; also /v1/chat/completions",
    "GET /v1/models": "the models",
}
