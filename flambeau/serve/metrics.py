"""What is measured of requests, queues, batches and processes, for Prometheus and for the page.

Stands on prometheus-client; used by registry, pool and management.
"""

from __future__ import annotations

import collections
import time
from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING, Any

from prometheus_client import CollectorRegistry, Counter, Histogram, generate_latest
from prometheus_client.core import GaugeMetricFamily

if TYPE_CHECKING:
    from flambeau.serve.tickets import Ticket

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"
SECONDS = (0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 5, 10, 30, 60)
BATCHES = (1, 2, 4, 8, 16, 32, 64, 128, 256)
RECENT = 4096  # requests of which the page shows percentiles
LABELS = ("model", "version")


class Metrics:
    """The metrics of a server. `gauges` is asked at each scrape for (name, text, labels, value)."""

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        self.gauges: Callable[[], Iterable[tuple[str, str, dict[str, str], float]]] = lambda: ()
        make = {"registry": self.registry}
        self.requests = Counter("flambeau_requests", "Requests by status", (*LABELS, "status"), **make)
        self.seconds = Histogram("flambeau_request_seconds", "From request to answer", LABELS, buckets=SECONDS, **make)
        self.queue = Histogram("flambeau_queue_seconds", "From request to worker", LABELS, buckets=SECONDS, **make)
        self.batches = Histogram("flambeau_batch_size", "Requests in a batch", LABELS, buckets=BATCHES, **make)
        self.deaths = Counter("flambeau_worker_deaths", "Workers that ended by themselves", LABELS, **make)
        self.full = Counter("flambeau_queue_full", "Requests refused since too many wait", LABELS, **make)
        self.cancelled = Counter("flambeau_cancelled", "Requests whose client left or whose time was up", LABELS, **make)
        self.registry.register(self)

    def collect(self) -> Iterator[GaugeMetricFamily]:
        """The gauges, for the registry."""
        families: dict[str, GaugeMetricFamily] = {}
        for name, text, labels, value in self.gauges():
            if name not in families:
                families[name] = GaugeMetricFamily(name, text, labels=list(labels))
            families[name].add_metric(list(labels.values()), value)
        yield from families.values()

    def text(self) -> bytes:
        """All of it in Prometheus' form."""
        return generate_latest(self.registry)


class Measures:
    """What is measured of one version of a model."""

    def __init__(self, metrics: Metrics, model: str, version: str) -> None:
        labels = {"model": model, "version": version}
        self.metrics, self.labels = metrics, labels
        self.seconds = metrics.seconds.labels(**labels)
        self.queue = metrics.queue.labels(**labels)
        self.batches = metrics.batches.labels(**labels)
        self.deaths = metrics.deaths.labels(**labels)
        self.full = metrics.full.labels(**labels)
        self.cancelled = metrics.cancelled.labels(**labels)
        self.statuses: dict[int, Any] = {}
        self.recent: collections.deque[tuple[float, float]] = collections.deque(maxlen=RECENT)  # when, seconds
        self.sizes: collections.deque[int] = collections.deque(maxlen=RECENT)
        self.count = self.errors = 0

    def answered(self, status: int, seconds: float) -> None:
        """A request has its answer, or a refusal."""
        counter = self.statuses.get(status)
        if counter is None:
            counter = self.statuses[status] = self.metrics.requests.labels(**self.labels, status=str(status))
        counter.inc()
        self.seconds.observe(seconds)
        self.count += 1
        self.errors += status >= 500
        self.recent.append((time.monotonic(), seconds))

    def batched(self, size: int, tickets: Iterable[Ticket]) -> None:
        """A batch goes to a worker."""
        self.batches.observe(size)
        self.sizes.append(size)
        for ticket in tickets:
            self.queue.observe(ticket.sent - ticket.arrived)

    def lately(self, seconds: float = 10.0) -> dict[str, float]:
        """Throughput, percentiles of latency in milliseconds and the mean batch of the last seconds, for the page."""
        now = time.monotonic()
        times = sorted(took for when, took in self.recent if now - when <= seconds)
        oldest = next((when for when, _ in self.recent if now - when <= seconds), now)
        span = seconds if len(times) < RECENT else max(now - oldest, 1e-3)
        sizes = list(self.sizes)[-256:]
        found = {"per_second": len(times) / span, "batch": sum(sizes) / len(sizes) if sizes else 0.0}
        for name, share in (("p50", 0.5), ("p90", 0.9), ("p99", 0.99)):
            found[name] = times[min(len(times) - 1, int(share * len(times)))] * 1e3 if times else 0.0
        return found


def memory_of(process: int) -> int:
    """Bytes of a process, each shared page divided among those that share it; 0 if it is gone."""
    try:
        with open(f"/proc/{process}/smaps_rollup", encoding="ascii") as file:
            for line in file:
                if line.startswith("Pss:"):
                    return int(line.split()[1]) * 1024
    except OSError:
        pass
    return 0
