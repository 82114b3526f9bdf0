"""torch.profiler._pattern_matcher: finds in a profiler's tree what could be faster, and says what to do instead.

Some patterns are of what flambeau doesn't have: no device, hence no copies to it and no choice of its products; and optimizers,
which change all parameters in few kernels whatever `foreach` says. These match nothing in what flambeau measures.
Stands on flambeau.profiler._utils.
"""

from __future__ import annotations

import json
import os
import re
import timeit
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import flambeau as torch
from flambeau.profiler._utils import source_code_location, traverse_bfs, traverse_dfs
from flambeau.profiler.records import EventType, TensorMetadata

__all__ = [
    "Conv2dBiasFollowedByBatchNorm2dPattern", "ExtraCUDACopyPattern", "FP32MatMulPattern", "ForLoopIndexingPattern",
    "GradNotSetToNonePattern", "MatMulDimInFP16Pattern", "NamePattern", "OptimizerSingleTensorPattern", "Pattern",
    "SynchronizedDataLoaderPattern", "input_dtypes", "input_shapes", "report_all_anti_patterns",
]  # fmt: skip

_TUNING = "https://pytorch.org/tutorials/recipes/recipes/tuning_guide.html"
_RULE = "-" * 40 + "TorchTidy Report" + "-" * 40
#: So many equal rounds of a loop are worth one call.
_ROUNDS = 10


def input_shapes(event: Any) -> tuple[tuple[int, ...], ...]:
    """The shapes of an operator's inputs, () for those that are no tensors."""
    return tuple(tuple(getattr(x, "sizes", ())) for x in event.extra_fields.inputs)


def input_dtypes(event: Any) -> tuple[Any, ...]:
    """The dtypes of an operator's inputs, None for those that are no tensors."""
    return tuple(getattr(x, "dtype", None) for x in event.extra_fields.inputs)


class Pattern:
    """Looks through what `prof` (a torch.profiler.profile) measured: a subclass's `match(event)` tells which events it is about.

    name, description, url: what it is, what to do, where to read. should_benchmark: reports time the alternatives.
    """

    name = "Please specify a name for pattern"
    description = "Please specify a description for pattern"
    url = ""

    def __init__(self, prof: Any, should_benchmark: bool = False) -> None:
        if prof.profiler is None or prof.profiler.kineto_results is None:
            raise AssertionError("prof must have measured something")
        self.prof, self.should_benchmark = prof, should_benchmark
        self.event_tree = prof.profiler.kineto_results.experimental_event_tree()
        self.tid_root: dict[int, list[Any]] = defaultdict(list)
        for event in self.event_tree:
            self.tid_root[event.start_tid].append(event)

    @property
    def skip(self) -> bool:
        """Whether what was measured can't tell."""
        return False

    def report(self, event: Any) -> str:
        """What to say of an event that matches."""
        return f"{self.description}\n[Source Code Location] {source_code_location(event)}"

    def eventTreeTraversal(self) -> Iterator[Any]:
        """The events in the order they are looked at."""
        yield from traverse_dfs(self.event_tree)

    def summary(self, events: list[Any]) -> str:
        """How many match, and with should_benchmark what it costs."""
        default = f"{self.name}: {len(events)} events matched."
        if self.should_benchmark:
            try:
                return self.benchmark_summary(events)
            except NotImplementedError:
                return default
        return default

    def benchmark(self, events: list[Any]) -> dict[Any, float]:
        """By the shapes of inputs, how much of the time the alternative takes."""
        raise NotImplementedError(f"{type(self).__name__} has no benchmark")

    def benchmark_summary(self, events: list[Any]) -> str:
        """The same added up over events, as text."""
        shares = self.benchmark(events)
        before = sum(event.duration_time_ns for event in events)
        after = sum(shares[input_shapes(event)] * event.duration_time_ns for event in events)
        saved = (before - after) / 1e3
        return f"{self.name}: {len(events)} events matched. Total Estimated Speedup: {saved:.2f}us ({before / after:.2f}X)"

    def match(self, event: Any) -> Any:
        """Whether it is about an event."""
        raise NotImplementedError(f"{type(self).__name__} must say which events it matches")

    def matched_events(self) -> list[Any]:
        """The events that it is about."""
        return [] if self.skip else [event for event in self.eventTreeTraversal() if self.match(event)]

    # ---- where an event stands

    def root_of(self, event: Any) -> Any:
        """The event at the top that it stands below."""
        while event.parent:
            event = event.parent
        return event

    def siblings_of(self, event: Any) -> tuple[list[Any], list[Any]]:
        """Those beside it: before, and after."""
        beside = event.parent.children if event.parent else self.tid_root[event.start_tid]
        place = beside.index(event)
        return beside[:place], beside[place + 1 :]

    def next_of(self, event: Any) -> Any:
        """The one after it; None for the last."""
        _, after = self.siblings_of(event)
        return after[0] if after else None

    def prev_of(self, event: Any) -> Any:
        """The one before it; None for the first."""
        before, _ = self.siblings_of(event)
        return before[-1] if before else None

    def go_up_until(self, event: Any, predicate: Callable[[Any], bool]) -> Any:
        """The first that fits of the event and those that it stands below; None for none."""
        while event and not predicate(event):
            event = event.parent
        return event


class NamePattern(Pattern):
    """Events whose names a regular expression is found in."""

    def __init__(self, prof: Any, name: str, should_benchmark: bool = False) -> None:
        super().__init__(prof, should_benchmark)
        self.description = f"Matched Name Event: {name}"
        self.name = name

    def match(self, event: Any) -> bool:
        """Whether the name is found in it."""
        return re.search(self.name, event.name) is not None


class ExtraCUDACopyPattern(Pattern):
    """A tensor made on the CPU and copied to a device at once. There is no device here."""

    name = "Extra CUDA Copy Pattern"
    description = "Filled a CPU tensor and immediately moved it to GPU. Please initialize it on GPU."
    url = f"{_TUNING}#create-tensors-directly-on-the-target-device"

    @property
    def skip(self) -> bool:
        """Always."""
        return True


class FP32MatMulPattern(Pattern):
    """Products of float32 on a device that has TF32. There is no device here."""

    name = "FP32 MatMul Pattern"
    description = (
        "You are currently using GPU that supports TF32. Please enable TF32 by setting "
        "'torch.backends.cuda.matmul.allow_tf32 = True'"
    )
    url = "https://pytorch.org/docs/stable/notes/cuda.html#tensorfloat-32-tf32-on-ampere-devices"

    @property
    def skip(self) -> bool:
        """Always."""
        return True


class ForLoopIndexingPattern(Pattern):
    """A loop over the rows of a tensor that does the same with each."""

    name = "For Loop Indexing Pattern"
    description = "For loop indexing detected. Vectorization recommended."

    def __init__(self, prof: Any, should_benchmark: bool = False) -> None:
        super().__init__(prof, should_benchmark)
        self.visited: set[int] = set()

    def eventTreeTraversal(self) -> Iterator[Any]:
        """Level by level, without what belongs to a loop that was found."""
        for event in traverse_bfs(self.event_tree):
            if event.id not in self.visited:
                yield event

    def match(self, event: Any) -> bool:
        """Whether the event picks a row, and what follows up to the next one comes again ten times."""
        if event.name != "aten::select" or event.id in self.visited:
            return False
        row = [event, *self.siblings_of(event)[1]]
        length = next((place for place, each in enumerate(row) if place and each.name == "aten::select"), 0)
        if not length:
            return False
        names = [_work(each) for each in row]
        rounds = 1
        while names[rounds * length : (rounds + 1) * length] == names[:length]:
            rounds += 1
        if rounds < _ROUNDS:
            return False
        self.visited.update(each.id for each in row[: rounds * length])
        return True


def _work(event: Any) -> tuple[Any, ...]:
    """What an event does, with everything below it."""
    return event.name, *(_work(child) for child in event.children)


class OptimizerSingleTensorPattern(Pattern):
    """An optimizer that changes parameters one by one. Those of flambeau change all of them in few kernels."""

    name = "Optimizer Single Tensor Pattern"
    optimizers_with_foreach = ("adam", "sgd", "adamw")
    description = (
        "Detected optimizer running with single tensor implementation. Please enable multi tensor implementation by passing "
        "'foreach=True' into optimizer."
    )

    def match(self, event: Any) -> bool:
        """Whether the event is such a step."""
        return any(event.name.endswith(f"_single_tensor_{name}") for name in self.optimizers_with_foreach)


class SynchronizedDataLoaderPattern(Pattern):
    """A data loader that makes its batches itself, without processes."""

    name = "Synchronized DataLoader Pattern"
    description = (
        "Detected DataLoader running with synchronized implementation. Please enable asynchronous dataloading by setting "
        "num_workers > 0 when initializing DataLoader."
    )
    url = f"{_TUNING}#enable-async-data-loading-and-augmentation"
    _ITERATION = re.compile(r"utils/data/dataloader\.py\(\d+\): __iter__$")

    def match(self, event: Any) -> bool:
        """Whether the event begins an iteration that starts no processes."""
        if not self._ITERATION.search(event.name.replace(os.sep, "/")):
            return False
        inside = list(traverse_dfs(event.children))
        if not any(each.name.endswith(": _get_iterator") for each in inside):
            return False
        return not any(each.tag is EventType.PyCall and each.name.endswith(": start") for each in inside)


class GradNotSetToNonePattern(Pattern):
    """Gradients that are filled with zeros where they could be forgotten."""

    name = "Gradient Set To Zero Instead of None Pattern"
    description = "Detected gradient set to zero instead of None. Please add 'set_to_none=True' when calling zero_grad()."
    url = f"{_TUNING}#disable-gradient-calculation-for-validation-or-inference"

    def match(self, event: Any) -> bool:
        """Whether the event is a zero_grad that fills a gradient which an operator has made."""
        return event.name.endswith(": zero_grad") and any(each.name == "aten::zero_" for each in traverse_dfs(event.children))


class Conv2dBiasFollowedByBatchNorm2dPattern(Pattern):
    """A convolution whose bias the normalization after it takes away again."""

    name = "Enabling Bias in Conv2d Followed By BatchNorm Pattern"
    description = "Detected bias enabled in Conv2d that is followed by BatchNorm2d. Please set 'bias=False' in Conv2d."
    url = f"{_TUNING}#disable-bias-for-convolutions-directly-followed-by-a-batch-norm"

    @property
    def skip(self) -> bool:
        """Whether inputs or calls weren't recorded."""
        return not (self.prof.record_shapes and self.prof.with_stack)

    def match(self, event: Any) -> bool:
        """Whether the event is such a convolution."""
        if event.name != "aten::conv2d" or not isinstance(event.extra_fields.inputs[2], TensorMetadata):
            return False
        module = self.go_up_until(event, lambda each: each.name.startswith("nn.Module: Conv2d"))
        after = self.next_of(module) if module else None
        while after is not None and after.tag is EventType.Allocation:
            after = self.next_of(after)
        return after is not None and after.name.startswith("nn.Module: BatchNorm2d")


class MatMulDimInFP16Pattern(Pattern):
    """Products of half precision with sizes that are no multiples of 8."""

    name = "Matrix Multiplication Dimension Not Aligned Pattern"
    description = "Detected matmul with dimension not aligned. Please use matmul with aligned dimension."
    url = f"{_TUNING}#use-mixed-precision-and-amp"
    _PRODUCTS = ("aten::mm", "aten::bmm", "aten::addmm")

    @property
    def skip(self) -> bool:
        """Whether inputs or calls weren't recorded."""
        return not (self.prof.with_stack and self.prof.record_shapes)

    def match(self, event: Any) -> bool:
        """Whether the event is such a product."""
        if event.name not in self._PRODUCTS:
            return False
        half = (torch.bfloat16, torch.float16)
        sizes = [n for x in event.extra_fields.inputs if getattr(x, "dtype", None) in half for n in x.sizes[-2:]]
        return any(n % 8 for n in sizes)

    def benchmark(self, events: list[Any]) -> dict[Any, float]:
        """By the shapes of inputs, the time of a product with the next multiples of 8."""
        found: dict[Any, float] = {}
        for event in events:
            shapes = input_shapes(event)
            if shapes not in found:
                operands = [(size, dtype) for size, dtype in zip(shapes, input_dtypes(event)) if len(size) >= 2][-2:]
                wide = [([*size[:-2], *[n + -n % 8 for n in size[-2:]]], dtype) for size, dtype in operands]
                found[shapes] = _time_of_product(wide) / _time_of_product(operands)
        return found


def _time_of_product(operands: Iterable[Any]) -> float:
    a, b = (torch.randn(size, dtype=dtype) for size, dtype in operands)
    torch.matmul(a, b)
    return timeit.timeit(lambda: torch.matmul(a, b), number=10)


_ALL = (
    ExtraCUDACopyPattern, ForLoopIndexingPattern, FP32MatMulPattern, OptimizerSingleTensorPattern,
    SynchronizedDataLoaderPattern, GradNotSetToNonePattern, Conv2dBiasFollowedByBatchNorm2dPattern, MatMulDimInFP16Pattern,
)  # fmt: skip


def report_all_anti_patterns(
    prof: Any, should_benchmark: bool = False, print_enable: bool = True, json_report_dir: str | None = None
) -> None:
    """Look for all patterns in what `prof` measured: print what is found, and write it to torchtidy_report.json in a folder,
    by file of the program.
    """
    places: dict[str, list[dict[str, Any]]] = {}
    reports: list[str] = []
    summaries: list[str] = []
    for kind in _ALL:
        pattern = kind(prof, should_benchmark)
        matched = pattern.matched_events()
        if not matched:
            continue
        summaries.append(pattern.summary(matched))
        for event in matched:
            text = pattern.report(event)
            if text not in reports:
                reports.append(text)
            place = re.match(r"(.+)\((\d+)\): ", source_code_location(event))
            if place:
                entry = {
                    "line_number": int(place.group(2)), "name": pattern.name, "url": pattern.url, "message": pattern.description,
                }  # fmt: skip
                places.setdefault(place.group(1), []).append(entry)
    if json_report_dir is not None:
        with open(os.path.join(json_report_dir, "torchtidy_report.json"), "w") as file:
            json.dump(places, file, indent=4)
    if print_enable:
        print("\n".join([_RULE, "TorchTidy Report", *reports, "Summary:", *summaries, _RULE]))
