"""torch.utils.benchmark: timing of statements, with the median of repeated runs. Stands on timeit."""

from __future__ import annotations

import timeit
from typing import Any

import flambeau as torch
from flambeau.core.operator import unsupported as _unsupported

Compare = _unsupported.kind("utils.benchmark.Compare", "print the Measurements of Timer yourself")
Fuzzer = _unsupported.kind("utils.benchmark.Fuzzer", "draw sizes with random.choice")


class Measurement:
    """Times of repeated runs. times: seconds per call; mean, median, iqr: of these."""

    def __init__(self, number_per_run: int, raw_times: list[float], label: str | None = None):
        self.number_per_run, self.raw_times, self.label = number_per_run, raw_times, label

    @property
    def times(self) -> list[float]:
        """Seconds per call, one for each run."""
        return [t / self.number_per_run for t in self.raw_times]

    def _quantile(self, q: float) -> float:
        ordered = sorted(self.times)
        return ordered[min(len(ordered) - 1, int(q * len(ordered)))]

    @property
    def mean(self) -> float:
        """The mean of the times."""
        return sum(self.times) / len(self.times)

    @property
    def median(self) -> float:
        """The median of the times."""
        return self._quantile(0.5)

    @property
    def iqr(self) -> float:
        """The distance between the quartiles."""
        return self._quantile(0.75) - self._quantile(0.25)

    def __repr__(self) -> str:
        return (
            f"<Measurement of {self.label or 'statement'}: median {self.median * 1e6:.2f} us, IQR {self.iqr * 1e6:.2f} us, "
            f"{len(self.raw_times)} runs of {self.number_per_run}>"
        )


class Timer:
    """Times a statement as timeit.Timer does, on `num_threads` threads."""

    def __init__(
        self,
        stmt: str = "pass",
        setup: str = "pass",
        global_setup: str = "",
        timer: Any = timeit.default_timer,
        globals: dict[str, Any] | None = None,
        label: str | None = None,
        sub_label: str | None = None,
        description: str | None = None,
        env: str | None = None,
        num_threads: int = 1,
        language: Any = "python",
    ):
        if str(language).lower() not in ("python", "py", "language.python"):
            raise NotImplementedError(
                "torch.utils.benchmark.Timer is not implemented in flambeau for C++ statements: use Python ones"
            )
        self.timer = timeit.Timer(stmt, setup, timer, {"torch": torch, **(globals or {})})
        self.label, self.num_threads = label or stmt, num_threads

    def timeit(self, number: int = 1000000) -> Measurement:
        """One run of `number` calls."""
        before = torch.get_num_threads()
        torch.set_num_threads(self.num_threads)
        try:
            self.timer.timeit(max(number // 100, 1))
            return Measurement(number, [self.timer.timeit(number)], self.label)
        finally:
            torch.set_num_threads(before)

    def blocked_autorange(self, callback: Any = None, min_run_time: float = 0.2) -> Measurement:
        """Runs of equal size until `min_run_time` seconds have passed."""
        before = torch.get_num_threads()
        torch.set_num_threads(self.num_threads)
        try:
            number, times = 1, [self.timer.timeit(1)]
            while times[0] < min_run_time / 1000:
                number *= 10
                times = [self.timer.timeit(number)]
            while sum(times) < min_run_time:
                times.append(self.timer.timeit(number))
        finally:
            torch.set_num_threads(before)
        return Measurement(number, times, self.label)

    adaptive_autorange = blocked_autorange
