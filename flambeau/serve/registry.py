"""The models that are served, their versions, and which version a request gets: weights, sticky clients, rollback, reload.

Stands on pool; used by app, management and server.
"""

from __future__ import annotations

import asyncio
import dataclasses
import hashlib
import logging
import random
from collections.abc import Iterator
from pathlib import Path

from flambeau.serve import spawning
from flambeau.serve.metrics import Measures, Metrics, memory_of
from flambeau.serve.pool import LoadFailed, Pool
from flambeau.serve.settings import ModelSettings, ServerSettings, Wrong
from flambeau.serve.tickets import Refusal

log = logging.getLogger(__name__)
MOST_BACK = 16  # changes of weights that can be taken back


class NotThere(Refusal):
    """No such model, or no such version."""

    def __init__(self, name: str, version: str | None = None) -> None:
        if version is None:
            super().__init__(404, f"Model not found: {name[:200]}", "ModelNotFoundException")
        else:
            super().__init__(404, f"Model version: {version[:200]} does not exist for model: {name[:200]}",
                             "ModelVersionNotFoundException")  # fmt: skip


class Taken(Wrong):
    """There is a version of that name."""


@dataclasses.dataclass(eq=False)
class Version:
    """A version of a model, with the pool that answers for it now: a reload puts another in its place."""

    settings: ModelSettings
    pool: Pool
    measures: Measures


class Model:
    """A model: its versions, and how requests that name none are divided among them."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.versions: dict[str, Version] = {}
        self.weights: dict[str, float] = {}
        self.before: list[dict[str, float]] = []  # the weights before each change

    @property
    def default(self) -> str:
        """The version with the largest weight."""
        return max(self.weights, key=lambda version: self.weights[version])

    def set_weights(self, weights: dict[str, float]) -> None:
        """Divide requests by these weights. Wrong for versions that aren't there and weights that can't be."""
        unknown = [version for version in weights if version not in self.versions]
        if unknown:
            raise Wrong(f"there is no version {unknown[0][:200]!r}; there are {', '.join(self.versions)}")
        fine = all(type(weight) in (int, float) and 0 <= weight < 1e9 for weight in weights.values())
        if not fine or sum(weights.values()) <= 0:
            raise Wrong("weights are numbers from 0 up, not all 0")
        if self.weights:
            self.before = [*self.before, self.weights][-MOST_BACK:]
        self.weights = {version: weight for version, weight in weights.items() if weight > 0}

    def roll_back(self) -> None:
        """Divide requests as before the last change. Wrong if there is none, or its versions are gone."""
        while self.before:
            weights = self.before.pop()
            if all(version in self.versions for version in weights):
                self.weights = weights
                return
        raise Wrong("there is no change of weights to take back")

    def choose(self, sticky: str | None) -> Version:
        """The version for a request that names none; the same for the same `sticky`, as long as weights stay."""
        if len(self.weights) == 1:
            return self.versions[next(iter(self.weights))]
        if sticky is None:
            at = random.random()
        else:
            digest = hashlib.blake2b(f"{self.name}\0{sticky}".encode(), digest_size=8).digest()
            at = int.from_bytes(digest, "big") / 2**64
        at *= sum(self.weights.values())
        for version, weight in self.weights.items():
            at -= weight
            if at < 0:
                return self.versions[version]
        return self.versions[next(reversed(self.weights))]  # rounding left a little


class Registry:
    """All models of a server."""

    def __init__(
        self, settings: ServerSettings, metrics: Metrics, early: dict[tuple[str, str], spawning.Started] | None = None
    ) -> None:
        self.settings, self.metrics = settings, metrics
        self.early = early or {}  # processes of models that are loaded first, by name and version
        self.models: dict[str, Model] = {}
        self.loading: set[tuple[str, str]] = set()
        self.pools: set[Pool] = set()  # all that have processes: those that are being loaded and those that are leaving as well
        self.leaving: set[asyncio.Task[None]] = set()
        metrics.gauges = self.gauges

    def find(self, name: str, version: str | None = None, sticky: str | None = None) -> Version:
        """The version that answers a request; NotThere."""
        model = self.models.get(name)
        if model is None or not model.versions:
            raise NotThere(name)
        if version is None:
            return model.choose(sticky)
        found = model.versions.get(version)
        if found is None:
            raise NotThere(name, version)
        return found

    def versions(self) -> Iterator[Version]:
        for model in list(self.models.values()):
            yield from list(model.versions.values())

    async def load(self, settings: ModelSettings, default: bool = False) -> Version:
        """Load a version. It gets requests that name no version if it is the model's first, or to be the `default`.

        Taken if there is one of that name already, LoadFailed if it can't be served.
        """
        key = (settings.name, settings.version)
        there = self.models.get(settings.name)
        if key in self.loading or (there is not None and settings.version in there.versions):
            raise Taken(f"{settings.name} has a version {settings.version} already")
        self.loading.add(key)
        try:
            measures = Measures(self.metrics, settings.name, settings.version)
            pool = await self.started(settings, measures)
        finally:
            self.loading.discard(key)
        version = Version(settings, pool, measures)
        model = self.models.setdefault(settings.name, Model(settings.name))
        model.versions[settings.version] = version
        if default or not model.weights:
            model.set_weights({settings.version: 1.0})
        log.info("loaded", extra={"model": settings.name, "version": settings.version, "seconds": pool.about["seconds"]})
        return version

    async def started(self, settings: ModelSettings, measures: Measures) -> Pool:
        early = self.early.pop((settings.name, settings.version), None)
        pool = Pool(settings, measures, self.settings.depth, self.settings.log, early)
        self.pools.add(pool)
        try:
            await pool.start()
        except LoadFailed:
            await self.ended(pool, 0)
            raise
        return pool

    async def ended(self, pool: Pool, seconds: float) -> None:
        await pool.stop(seconds)
        self.pools.discard(pool)

    async def reload(self, name: str, version: str | None = None) -> Version:
        """Load a version's files again; the old processes answer what they have, and no request is lost."""
        found = self.named(name, version)
        pool = await self.started(found.settings, found.measures)
        if found not in self.versions():  # it was unloaded meanwhile
            self.leave(pool)
            raise NotThere(name, found.settings.version)
        old, found.pool = found.pool, pool
        self.leave(old)
        log.info("reloaded", extra={"model": name, "version": found.settings.version})
        return found

    def named(self, name: str, version: str | None) -> Version:
        """A version by its name, or the default one."""
        if version is None and name in self.models:
            version = self.models[name].default
        return self.find(name, version)

    async def unload(self, name: str, version: str | None = None) -> None:
        """Take a version away, or all of a model. Wrong for the default version while there are others."""
        self.find(name, version)
        model = self.models[name]
        if version is not None and len(model.versions) > 1:
            if version == model.default:
                raise Wrong(f"{version} is the default version: make another the default first")
            going = [model.versions.pop(version)]
            model.weights.pop(version, None)
        else:
            going = list(model.versions.values())
            del self.models[name]
        for one in going:
            self.leave(one.pool)

    def leave(self, pool: Pool) -> None:
        """Let a pool answer what it has, and end."""
        task = asyncio.ensure_future(self.ended(pool, self.settings.drain_seconds + pool.settings.timeout))
        self.leaving.add(task)
        task.add_done_callback(self.leaving.discard)

    async def stop(self, seconds: float) -> None:
        """End all processes, after what is under way."""
        for process, sock in self.early.values():  # nothing has come to them yet
            sock.close()
            await asyncio.to_thread(spawning.end, process, 0.0)
        await asyncio.gather(*(pool.stop(seconds) for pool in self.pools))

    def ready(self) -> bool:
        """Whether every version has workers and none is being loaded."""
        pools = [version.pool for version in self.versions()]
        return all(pool.state == "ready" and (pool.workers or not pool.wanted) for pool in pools)

    def in_store(self, url: str) -> str:
        """The path of a file or folder of the model store; Wrong for anything else, addresses of other machines among it."""
        store = self.settings.model_store
        if store is None:
            raise Wrong("the server has no model store: start it with --model-store")
        root = Path(store).resolve()
        try:
            path = (root / url).resolve()
            fine = "://" not in url and root in path.parents and path.exists()
        except (ValueError, OSError):  # a zero byte, a name that is too long
            fine = False
        if not fine:
            raise Wrong(f"there is no {url[:200]!r} in the model store, and models are loaded from nowhere else")
        return str(path)

    def gauges(self) -> Iterator[tuple[str, str, dict[str, str], float]]:
        for version in self.versions():
            labels = {"model": version.settings.name, "version": version.settings.version}
            pool = version.pool
            yield "flambeau_queue_length", "Requests that wait for a worker", labels, len(pool.waiting)
            yield "flambeau_in_flight", "Requests that workers have", labels, sum(len(worker.tickets) for worker in pool.workers)
            yield "flambeau_workers", "Workers", labels, len(pool.workers)
            yield "flambeau_model_memory_bytes", "Memory of a version's processes", labels, sum(map(memory_of, pool.processes()))
