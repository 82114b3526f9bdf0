"""The management port, TorchServe's routes and ours: load, unload, scale, weigh, reload and roll back versions; the page.

On this machine's own address, unless the settings say otherwise, and always with a token. Models come from the model store only.
Stands on Starlette and registry; used by server.
"""

from __future__ import annotations

import asyncio
import hmac
import logging
import secrets
from collections.abc import Awaitable, Callable
from importlib import resources
from typing import Any

from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import HTMLResponse, JSONResponse, Response
from starlette.routing import Route

from flambeau.serve import archives, json_bodies, properties
from flambeau.serve.answers import Refused, as_json, error
from flambeau.serve.app import InferenceApp
from flambeau.serve.metrics import CONTENT_TYPE, Metrics, memory_of
from flambeau.serve.pool import LoadFailed
from flambeau.serve.registry import Registry, Taken, Version
from flambeau.serve.settings import ModelSettings, Wrong, converted
from flambeau.serve.tickets import Refusal

log = logging.getLogger(__name__)
MOST_BODY = 1 << 20

# TorchServe's names of our settings, and what their numbers are in
PARAMETERS = {
    "batch_size": "max_batch_size", "max_batch_delay": "max_batch_delay", "initial_workers": "workers",
    "response_timeout": "timeout", "job_queue_size": "queue_size", "handler": "handler", "task": "task",
}  # fmt: skip


def refused(status: int, message: str, kind: str | None = None) -> Response:
    answer = error(status, message, kind=kind)
    return Response(answer.body, answer.status, media_type=answer.type)


async def unknown(request: Request, problem: Exception) -> Response:
    """What isn't among the routes."""
    status = getattr(problem, "status_code", 404)
    if request.url.path.startswith("/workflows"):
        return refused(501, "workflows are not implemented here: call models one after the other")
    if status == 405:
        return refused(405, f"{request.method[:20]} isn't allowed here")
    return refused(404, "Requested resource is not found, please refer to API document.")


def status_of(message: str) -> Response:
    return JSONResponse({"status": message})


class Management:
    """The application of the management port."""

    def __init__(self, registry: Registry, inference: InferenceApp, token: str) -> None:
        self.registry, self.inference, self.token = registry, inference, token
        self.loads: set[asyncio.Task[Any]] = set()
        routes = [
            ("/", "GET", self.page), ("/status", "GET", self.status), ("/try/{name}", "POST", self.attempt),
            ("/models", "GET", self.listed), ("/models", "POST", self.register),
            ("/models/{name}", "GET", self.describe), ("/models/{name}", "PUT", self.scale),
            ("/models/{name}", "DELETE", self.unregister), ("/models/{name}/weights", "PUT", self.weights),
            ("/models/{name}/rollback", "POST", self.roll_back), ("/models/{name}/reload", "POST", self.reload),
            ("/models/{name}/{version}", "GET", self.describe), ("/models/{name}/{version}", "PUT", self.scale),
            ("/models/{name}/{version}", "DELETE", self.unregister),
            ("/models/{name}/{version}/set-default", "PUT", self.set_default),
            ("/models/{name}/{version}/reload", "POST", self.reload),
        ]  # fmt: skip
        self.app = Starlette(
            routes=[Route(path, self.guarded(path, do), methods=[method]) for path, method, do in routes],
            exception_handlers={404: unknown, 405: unknown},
        )

    def guarded(self, path: str, do: Callable[[Request], Awaitable[Response]]) -> Callable[[Request], Awaitable[Response]]:
        """A route that asks for the token, and says in words what went wrong. The page holds nothing, and asks by it."""

        async def route(request: Request) -> Response:
            if path != "/" and not self.allowed(request):
                return refused(401, "the management token is wanted: Authorization: Bearer TOKEN")
            try:
                return await do(request)
            except (Refusal, Refused) as refusal:
                return refused(refusal.status, str(refusal), getattr(refusal, "kind", None))
            except Wrong as problem:
                return refused(409 if isinstance(problem, Taken) else 400, str(problem))
            except TimeoutError:
                return refused(408, f"the body didn't come within {self.registry.settings.body_seconds:g} s")
            except LoadFailed as problem:
                return refused(400, f"the model can't be served: {problem}", "ModelLoadException")
            except archives.BadArchive as problem:
                return refused(400, str(problem), "InvalidModelException")
            except Exception as problem:
                log.error("management failed", exc_info=problem)
                return refused(500, "the server failed; its log says more")

        return route

    def allowed(self, request: Request) -> bool:
        scheme, _, given = request.headers.get("authorization", "").partition(" ")
        return scheme.lower() == "bearer" and hmac.compare_digest(given.strip().encode("latin-1"), self.token.encode())

    async def body(self, request: Request) -> bytes:
        parts, size = [], 0
        async with asyncio.timeout(self.registry.settings.body_seconds):
            async for part in request.stream():
                size += len(part)
                if size > MOST_BODY:
                    raise Refused(413, f"a body has at most {MOST_BODY} bytes")
                parts.append(part)
        return b"".join(parts)

    # -- TorchServe's

    async def listed(self, request: Request) -> Response:
        names = sorted(self.registry.models)
        limit, start = number(request, "limit", 100, 1), number(request, "next_page_token", 0, 0)
        found = [
            {"modelName": name, "modelUrl": self.registry.named(name, None).settings.path}
            for name in names[start : start + limit]
        ]
        more = {"nextPageToken": str(start + limit)} if start + limit < len(names) else {}
        return JSONResponse({**more, "models": found})

    async def register(self, request: Request) -> Response:
        """POST /models?url=mlp.mar: load a file of the model store."""
        given = request.query_params
        if "url" not in given:
            raise Refused(400, "Parameter url is required.")
        if given["url"].endswith(".war"):
            raise Refused(501, "workflows are not implemented here: call models one after the other")
        path = self.registry.in_store(given["url"])
        values = {PARAMETERS[key]: value for key, value in given.items() if key in PARAMETERS}
        name, version = given.get("model_name"), given.get("version")
        if path.endswith(".mar"):
            manifest = await asyncio.to_thread(archives.read_manifest, path)
            values = {**properties.of_archive(await asyncio.to_thread(archives.read_config, path, manifest)), **values}
            model = manifest["model"]
            name, version = name or model.get("modelName"), version or model.get("modelVersion")
        values.setdefault("workers", "1")
        if "handler" in values:
            file, colon, member = values["handler"].partition(":")
            values["handler"] = self.registry.in_store(file) + colon + member
        name = name or path.rpartition("/")[2].partition(".")[0]
        settings = ModelSettings(**converted(ModelSettings, {"name": name, "path": path, "version": version or "1.0", **values}))
        load = self.registry.load(settings, default=given.get("set_default") == "true")
        if given.get("synchronous", "true") == "false":
            task = asyncio.ensure_future(load)
            self.loads.add(task)
            task.add_done_callback(self.loaded)
            return JSONResponse({"status": f'Model "{settings.name}" is being loaded'}, 202)
        await load
        return status_of(
            f'Model "{settings.name}" Version: {settings.version} registered with {settings.workers} initial workers'
        )

    def loaded(self, task: asyncio.Task[Any]) -> None:
        self.loads.discard(task)
        problem = None if task.cancelled() else task.exception()
        if problem is not None:
            log.error("a model can't be served: %s", problem)

    async def describe(self, request: Request) -> Response:
        name, version = request.path_params["name"], request.path_params.get("version")
        if request.query_params.get("customized", "false") != "false":
            raise Refused(501, "a handler's own description (customized=true) is not implemented here")
        if version == "all":
            self.registry.find(name)
            found = list(self.registry.models[name].versions.values())
        else:
            found = [self.registry.named(name, version)]
        return JSONResponse([self.described(one) for one in found])

    def described(self, version: Version) -> dict[str, Any]:
        own, pool, model = version.settings, version.pool, self.registry.models[version.settings.name]
        return {
            "modelName": own.name,
            "modelVersion": own.version,
            "modelUrl": own.path,
            "runtime": "python",
            "minWorkers": pool.wanted,
            "maxWorkers": pool.wanted,
            "batchSize": pool.about.get("max_batch_size"),
            "maxBatchDelay": own.max_batch_delay,
            "responseTimeout": own.timeout,
            "jobQueueStatus": {"remainingCapacity": own.queue_size - len(pool.waiting), "pendingRequests": len(pool.waiting)},
            "workers": [worker.described() for worker in pool.workers],
            "routes": pool.about.get("routes"),
            "weight": model.weights.get(own.version, 0),
            "default": model.default == own.version,
            "deaths": pool.deaths,
            "state": pool.state,
            "reason": pool.reason,
        }

    async def scale(self, request: Request) -> Response:
        """PUT /models/{name}?min_worker=2: have so many workers."""
        version = self.registry.named(request.path_params["name"], request.path_params.get("version"))
        wanted = number(request, "min_worker", number(request, "max_worker", 1, 0), 0)
        if wanted > 256:
            raise Wrong("there are at most 256 workers")
        await version.pool.scale(wanted)
        if request.query_params.get("synchronous") != "true":
            return JSONResponse({"status": "Processing worker updates..."}, 202)
        of_version = f", version: {version.settings.version}" if "version" in request.path_params else ""
        return status_of(f"Workers scaled to {wanted} for model: {version.settings.name}{of_version}")

    async def unregister(self, request: Request) -> Response:
        name, version = request.path_params["name"], request.path_params.get("version")
        await self.registry.unload(name, version)
        return status_of(f'Model "{name}" unregistered')

    async def set_default(self, request: Request) -> Response:
        name, version = request.path_params["name"], request.path_params["version"]
        self.registry.find(name, version)
        self.registry.models[name].set_weights({version: 1.0})
        return status_of(f'Default version successfully updated for model "{name}" to "{version}"')

    # -- ours

    async def weights(self, request: Request) -> Response:
        """PUT /models/{name}/weights {"1.0": 95, "2.0": 5}: divide requests among versions."""
        name = request.path_params["name"]
        self.registry.find(name)
        content = json_bodies.read(await self.body(request), 4)
        if not isinstance(content, dict):
            raise Refused(400, 'expected {"version": weight, ...}')
        self.registry.models[name].set_weights(content)
        return JSONResponse({"weights": self.registry.models[name].weights})

    async def roll_back(self, request: Request) -> Response:
        name = request.path_params["name"]
        self.registry.find(name)
        self.registry.models[name].roll_back()
        return JSONResponse({"weights": self.registry.models[name].weights})

    async def reload(self, request: Request) -> Response:
        found = await self.registry.reload(request.path_params["name"], request.path_params.get("version"))
        return status_of(f'Model "{found.settings.name}" Version: {found.settings.version} reloaded')

    async def attempt(self, request: Request) -> Response:
        """A request of the page's, answered as the inference port would."""
        kept: dict[str, Any] = {}

        async def send(message: Any) -> None:
            if message["type"] == "http.response.start":
                kept["status"], kept["headers"] = message["status"], dict(message["headers"])
            else:
                kept["body"] = kept.get("body", b"") + message.get("body", b"")

        name, version = request.path_params["name"], request.query_params.get("version")
        path = f"/predictions/{name}" + (f"/{version}" if version else "")
        scope = {**request.scope, "path": path}
        await self.inference(scope, request.receive, send)
        headers = {"x-model-version": kept["headers"].get(b"x-model-version", b"").decode()}
        return Response(kept["body"], kept["status"], headers, kept["headers"].get(b"content-type", b"").decode())

    async def status(self, request: Request) -> Response:
        """What the page shows."""
        found = []
        for version in self.registry.versions():
            pool = version.pool
            memory = await asyncio.to_thread(lambda processes: sum(map(memory_of, processes)), pool.processes())
            entry = self.described(version) | version.measures.lately() | {
                "count": version.measures.count, "errors": version.measures.errors, "queue": len(pool.waiting),
                "memory": memory, "metadata": pool.about.get("metadata"),
            }  # fmt: skip
            found.append(entry)
        return Response(as_json({"ready": self.inference.ready(), "versions": found}), media_type="application/json")

    async def page(self, request: Request) -> Response:
        nonce = secrets.token_urlsafe(16)
        text = resources.files("flambeau.serve").joinpath("page.html").read_text(encoding="utf-8").replace("NONCE", nonce)
        own = f"script-src 'nonce-{nonce}'; style-src 'nonce-{nonce}'"
        policy = f"default-src 'none'; {own}; connect-src 'self'; frame-ancestors 'none'"
        return HTMLResponse(text, headers={"content-security-policy": policy, "referrer-policy": "no-referrer"})


def number(request: Request, name: str, default: int, least: int) -> int:
    text = request.query_params.get(name)
    if text is None:
        return default
    if not (text.isascii() and text.isdigit() and len(text) < 10 and int(text) >= least):
        raise Refused(400, f"{name} is a number from {least} up")
    return int(text)


def metrics_app(metrics: Metrics) -> Starlette:
    """The application of the metrics port: GET /metrics."""

    async def read(request: Request) -> Response:
        return Response(await asyncio.to_thread(metrics.text), media_type=CONTENT_TYPE)

    return Starlette(routes=[Route("/metrics", read, methods=["GET"])])
