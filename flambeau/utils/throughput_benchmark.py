"""ThroughputBenchmark: how often, and how fast, a module can be called by several threads at once."""

from __future__ import annotations

import itertools
import threading
import time
import warnings
from dataclasses import dataclass
from typing import Any

import flambeau as torch

__all__ = ["ExecutionStats", "ThroughputBenchmark", "format_time"]


def format_time(time_us: float | None = None, time_ms: float | None = None, time_s: float | None = None) -> str:
    """A time in the largest unit that leaves a number of at least 1."""
    given = [t * unit for t, unit in ((time_us, 1), (time_ms, 1e3), (time_s, 1e6)) if t is not None]
    if len(given) != 1:
        raise AssertionError("Expected only one of time_us, time_ms, time_s is given.")
    micro = given[0]
    if micro >= 1e6:
        return f"{micro / 1e6:.3f}s"
    return f"{micro / 1e3:.3f}ms" if micro >= 1e3 else f"{micro:.3f}us"


@dataclass(frozen=True)
class BenchmarkConfig:
    """What was measured: threads, calls before the measurement and in it, and where a profile was written."""

    num_calling_threads: int
    num_warmup_iters: int
    num_iters: int
    profiler_output_path: str

    def __repr__(self) -> str:
        return (
            f"BenchmarkConfig(num_calling_threads={self.num_calling_threads}, num_warmup_iters={self.num_warmup_iters}, "
            f"num_iters={self.num_iters}, profiler_output_path={self.profiler_output_path!r})"
        )


class ExecutionStats:
    """What a benchmark found: the mean time of a call, how many were made, per second, and in what time."""

    def __init__(self, latency_avg_ms: float, num_iters: int, benchmark_config: BenchmarkConfig) -> None:
        self.latency_avg_ms, self.num_iters, self.benchmark_config = latency_avg_ms, num_iters, benchmark_config

    @property
    def iters_per_second(self) -> float:
        """Calls per second of all threads together."""
        return self.num_iters / self.total_time_seconds if self.total_time_seconds else float("nan")

    @property
    def total_time_seconds(self) -> float:
        """How long the measurement took."""
        return self.num_iters * (self.latency_avg_ms / 1000.0) / self.benchmark_config.num_calling_threads

    def __str__(self) -> str:
        return "\n".join(
            [
                f"Average latency per example: {format_time(time_ms=self.latency_avg_ms)}",
                f"Total number of iterations: {self.num_iters}",
                f"Total number of iterations per second (across all threads): {self.iters_per_second:.2f}",
                f"Total time: {format_time(time_s=self.total_time_seconds)}",
            ]
        )


class ThroughputBenchmark:
    """Calls a module, scripted or not, from several threads, each time with one of the inputs that were added."""

    def __init__(self, module: Any) -> None:
        self._module = module
        self._inputs: list[tuple[tuple[Any, ...], dict[str, Any]]] = []

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return self.run_once(*args, **kwargs)

    def add_input(self, *args: Any, **kwargs: Any) -> None:
        """Add the arguments of a call."""
        self._inputs.append((args, kwargs))

    def run_once(self, *args: Any, **kwargs: Any) -> Any:
        """The module's result for some arguments."""
        return self._module(*args, **kwargs)

    def benchmark(
        self, num_calling_threads: int = 1, num_warmup_iters: int = 10, num_iters: int = 100, profiler_output_path: str = ""
    ) -> ExecutionStats:
        """Measure `num_iters` calls by that many threads, after `num_warmup_iters` of each; a path makes it write a profile.

        RuntimeError if no input was added, ValueError without threads or calls.
        """
        if not self._inputs:
            raise RuntimeError("Please provide benchmark inputs.Did you forget to call add_input()? ")
        if num_calling_threads < 1 or num_iters < 1:
            raise ValueError("a benchmark needs at least one thread and one call")
        if not hasattr(self._module, "script_type"):
            warnings.warn(
                "Starting benchmark on an nn.Module. This can be slow due to Python GIL.For proper inference "
                "simulation you might want to switch to a ScriptModule instead",
                stacklevel=2,
            )
        config = BenchmarkConfig(num_calling_threads, num_warmup_iters, num_iters, profiler_output_path)
        if not profiler_output_path:
            return self._measured(config)
        with torch.autograd.profiler.profile() as recorded:
            made = self._measured(config)
        recorded.export_chrome_trace(profiler_output_path)
        return made

    def _measured(self, config: BenchmarkConfig) -> ExecutionStats:
        ready = threading.Barrier(config.num_calling_threads)
        calls = iter(range(config.num_iters))
        times: list[float] = []
        errors: list[BaseException] = []

        def work(number: int) -> None:
            inputs = itertools.cycle(self._inputs[number % len(self._inputs) :] + self._inputs[: number % len(self._inputs)])
            try:
                for _, (args, kwargs) in zip(range(config.num_warmup_iters), inputs):
                    self._module(*args, **kwargs)
                ready.wait()
                begun = time.perf_counter()
                for _ in calls:
                    args, kwargs = next(inputs)
                    self._module(*args, **kwargs)
                times.append(time.perf_counter() - begun)
            except threading.BrokenBarrierError:
                pass
            except BaseException as error:
                errors.append(error)
                ready.abort()

        threads = [threading.Thread(target=work, args=(n,)) for n in range(config.num_calling_threads)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        if errors:
            raise errors[0]
        return ExecutionStats(1000.0 * sum(times) / config.num_iters, config.num_iters, config)
