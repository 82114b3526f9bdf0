"""Programs over tensors: exported ones (.pt2) and TorchScript, whose requests are rows of tensors that share a call.

Requests whose inputs have the same shapes behind the first axis are put together, filled up to one of a few batch sizes (so
that there are few programs to compile, and all are compiled before traffic), computed, and taken apart again. Stands on
tensors; used by models.
"""

from __future__ import annotations

import dataclasses
import logging
from collections.abc import Callable, Sequence
from typing import Any

import flambeau as torch
from flambeau.serve import json_bodies
from flambeau.serve.answers import JSON, Answer, Item, Refused, as_json, error
from flambeau.serve.handlers.tensors import NPY, KServe, Spec, from_lists, from_npy, to_lists, to_npy
from flambeau.serve.service import Service, attempt
from flambeau.utils import _pytree as pytree

log = logging.getLogger(__name__)
Outputs = list[tuple[str, Any]]


def bucket_sizes(most: int) -> list[int]:
    """The batch sizes that are compiled: powers of two, and the largest."""
    sizes = [1]
    while sizes[-1] * 2 < most:
        sizes.append(sizes[-1] * 2)
    return [*sizes, most] if most > 1 else sizes


@dataclasses.dataclass(slots=True)
class Call:
    """What one request asks of the program: its inputs, how many rows they have, and how its answer is written."""

    item: Item
    inputs: list[torch.Tensor]
    rows: int
    write: Callable[[Outputs], Answer]
    answer: Answer | None = None

    def key(self) -> tuple[Any, ...]:
        """Calls with one key go together."""
        return tuple((tensor.dtype, tuple(tensor.shape[1:])) for tensor in self.inputs)


class ProgramService(Service):
    """A function of tensors to tensors. `specs` are its inputs; None: as many as a request has, of any shape."""

    routes = frozenset({"predict", "kserve"})

    def __init__(
        self, function: Callable[..., Any], specs: list[Spec] | None, outputs: list[str] | None, most: int, exported: Any = None
    ) -> None:
        self.function, self.specs, self.output_names, self.max_batch_size = function, specs, outputs, most
        self.exported = exported
        self.sizes = bucket_sizes(most)
        self.wanted = {spec.name: spec.dtype for spec in specs or ()}
        fixed = [spec.name for spec in specs or () if spec.shape is not None and (not spec.shape or spec.shape[0] is not None)]
        if most > 1 and fixed:
            raise ValueError(
                f"the program was exported for inputs of fixed sizes ({', '.join(fixed)}): export it with dynamic_shapes "
                "that leave the first axis open, or serve it with max_batch_size 1"
            )

    # -- requests

    def read(self, item: Item) -> Call:
        """The call that a request asks for; Refused if it asks for none."""
        if item.route == "kserve":
            request = KServe(item)
            inputs = self._in_order(request.inputs)
            return self._call(item, inputs, lambda outputs: request.respond(item, outputs))
        kind = item.type.partition(";")[0].strip().lower()
        npy = NPY[0] in item.accept
        if kind in NPY:
            inputs = self._in_order({self.specs[0].name if self.specs else "input_0": from_npy(item.body)})
            npy = npy or JSON not in item.accept
            return self._call(item, inputs, lambda outputs: written(outputs, npy, listed=False))
        if kind not in ("", JSON, "text/plain", "application/x-www-form-urlencoded"):  # the last is what curl -d says
            raise Refused(415, f"the body is {kind[:80]}; it may be {JSON} or {NPY[0]}")
        content = json_bodies.read(item.body, item.depth)
        listed = isinstance(content, dict) and "instances" in content
        if isinstance(content, dict):
            content = content.get("instances", content.get("inputs", content))
        if isinstance(content, dict):
            inputs = self._in_order({name: from_lists(value, name, self.wanted.get(name)) for name, value in content.items()})
        else:
            first = self.specs[0] if self.specs else Spec("input_0")
            tensor = from_lists(content, first.name, first.dtype)
            if first.shape is not None and tensor.dim() == len(first.shape) - 1 and first.shape[0] in (None, 1) and not listed:
                tensor = tensor.unsqueeze(0)  # one row, which needn't be a list of one
                inputs = self._in_order({first.name: tensor})
                return self._call(item, inputs, lambda outputs: written([(n, row_of(o)) for n, o in outputs], npy, listed=False))
            inputs = self._in_order({first.name: tensor})
        return self._call(item, inputs, lambda outputs: written(outputs, npy, listed))

    def _in_order(self, given: dict[str, Any]) -> list[torch.Tensor]:
        for name, value in given.items():
            if not isinstance(value, torch.Tensor):
                raise Refused(400, f"input {name[:80]} is a text, and the program takes tensors")
        if self.specs is None:
            return list(given.values())
        if len(given) == len(self.specs) == 1:
            return [self.specs[0].check(next(iter(given.values())))]
        names = [spec.name for spec in self.specs]
        if set(given) != set(names):
            raise Refused(400, f"inputs are {', '.join(names)}; given are {', '.join(given)[:200] or 'none'}")
        return [spec.check(given[spec.name]) for spec in self.specs]

    def _call(self, item: Item, inputs: list[torch.Tensor], write: Callable[[Outputs], Answer]) -> Call:
        rows = 1
        if self.max_batch_size > 1:
            if any(tensor.dim() == 0 for tensor in inputs) or len({tensor.shape[0] for tensor in inputs}) > 1:
                raise Refused(400, "the first axis of all inputs is the batch, and of one size")
            rows = inputs[0].shape[0]
            if not 1 <= rows <= self.max_batch_size:
                raise Refused(400 if rows < 1 else 413, f"a request has 1 to {self.max_batch_size} rows; this one has {rows}")
        return Call(item, inputs, rows, write)

    def answer(self, items: Sequence[Item]) -> list[Answer]:
        answers: list[Answer | None] = [None] * len(items)
        calls: dict[tuple[Any, ...], list[tuple[int, Call]]] = {}
        for at, item in enumerate(items):
            call = attempt(item, self.read, item)
            if isinstance(call, Answer):
                answers[at] = call
                continue
            key = call.key() if self.max_batch_size > 1 else (at,)
            calls.setdefault(key, []).append((at, call))
        for together in calls.values():
            for group in self.groups(together):
                self.run([call for _, call in group])
                for at, call in group:
                    answers[at] = call.answer
        return [answer if answer is not None else error(500, "no answer", item.route) for answer, item in zip(answers, items)]

    def groups(self, calls: list[tuple[int, Call]]) -> list[list[tuple[int, Call]]]:
        """Calls in groups of at most max_batch_size rows."""
        found: list[list[tuple[int, Call]]] = []
        rows = self.max_batch_size
        for entry in calls:
            if not found or rows + entry[1].rows > self.max_batch_size:
                found.append([])
                rows = 0
            found[-1].append(entry)
            rows += entry[1].rows
        return found

    def run(self, calls: list[Call]) -> None:
        """Compute calls together; where that fails, each by itself, so that only the one that fails is told so."""
        try:
            outputs = self.compute(calls)
        except Exception as problem:
            if len(calls) > 1:
                for call in calls:
                    self.run([call])
                return
            item = calls[0].item
            log.warning("request %s: the program refused its inputs", item.request, exc_info=problem)
            calls[0].answer = error(400, f"the program refused these inputs: {reason(problem)}", item.route)
            return
        for call, found in zip(calls, outputs):
            call.answer = attempt(call.item, call.write, found)

    # -- computing

    def compute(self, calls: list[Call]) -> list[Outputs]:
        """The outputs of each call, by name."""
        if self.max_batch_size == 1:
            return [self.named(self(call.inputs)) for call in calls]
        rows = sum(call.rows for call in calls)
        size = next(size for size in self.sizes if size >= rows)
        inputs = []
        for tensors in zip(*(call.inputs for call in calls)):
            last = tensors[-1][-1:]
            filling = [last.expand(size - rows, *last.shape[1:])] if size > rows else []
            inputs.append(torch.cat([*tensors, *filling]) if len(tensors) > 1 or filling else tensors[0])
        found = self.named(self(inputs))
        for name, output in found:
            if not isinstance(output, torch.Tensor) or output.dim() == 0 or output.shape[0] != size:
                shape = list(output.shape) if isinstance(output, torch.Tensor) else type(output).__name__
                raise RuntimeError(
                    f"output {name} is {shape}, not a row per row of the inputs ({size}): max_batch_size must be 1"
                )
        answers, at = [], 0
        for call in calls:
            answers.append([(name, output[at : at + call.rows]) for name, output in found])
            at += call.rows
        return answers

    def __call__(self, inputs: Sequence[torch.Tensor]) -> Any:
        with torch.inference_mode():
            return self.function(*inputs)

    def named(self, result: Any) -> Outputs:
        leaves = pytree.tree_leaves(result)
        names = self.output_names
        if isinstance(result, dict) and len(leaves) == len(result):
            names = [str(key) for key in result]
        elif names is None or len(names) != len(leaves):
            names = [f"output_{at}" for at in range(len(leaves))]
        return list(zip(names, leaves))

    # -- before traffic

    def warm_up(self, sample: bytes | None) -> None:
        """All batch sizes once, of the sample, else of the inputs with which the program was exported."""
        if sample is not None:
            inputs = self.read(Item("warm-up", "predict", sample)).inputs
        elif self.specs is not None and self.exported is not None:
            inputs = [torch.zeros([size or 1 for size in spec.shape or ()], dtype=spec.dtype) for spec in self.specs]
            given = self.exported.example_inputs
            if given is not None:
                leaves = [leaf for leaf in pytree.tree_leaves(given) if isinstance(leaf, torch.Tensor)]
                inputs = leaves if len(leaves) == len(inputs) else inputs
        else:
            return
        if self.max_batch_size == 1:
            self(inputs)
            return
        row = [tensor[:1] for tensor in inputs]
        for size in self.sizes:
            self([tensor.expand(size, *tensor.shape[1:]).contiguous() for tensor in row])

    def metadata(self) -> dict[str, Any]:
        outputs = [{"name": name, "datatype": "FP32", "shape": [-1]} for name in self.output_names or ["output_0"]]
        return {"inputs": [spec.described() for spec in self.specs or [Spec("input_0")]], "outputs": outputs}


def reason(problem: Exception) -> str:
    """The line of an error that says what is wrong: the last of TorchScript's, which show the program first."""
    lines = [line for line in str(problem).splitlines() if line.strip()] or [type(problem).__name__]
    return (lines[-1].removeprefix("RuntimeError: ") if "TorchScript" in lines[0] else lines[0])[:300]


def row_of(output: Any) -> Any:
    """The only row of an output."""
    return output[0] if isinstance(output, torch.Tensor) and output.dim() and output.shape[0] == 1 else output


def written(outputs: Outputs, npy: bool, listed: bool) -> Answer:
    """Outputs in the form of the request: one as it is, several by name."""
    if npy:
        tensors = [output for _, output in outputs if isinstance(output, torch.Tensor)]
        if len(tensors) != 1:
            raise Refused(406, f"the program has {len(outputs)} outputs, and {NPY[0]} holds one: ask for {JSON}")
        return Answer(to_npy(tensors[0]), type=NPY[0])
    found = {name: to_lists(output) if isinstance(output, torch.Tensor) else output for name, output in outputs}
    value: Any = next(iter(found.values())) if len(found) == 1 else found
    try:
        return Answer(as_json({"predictions": value} if listed else value))
    except TypeError:
        raise Refused(406, "an output is neither a tensor nor a number, a text or a list of these") from None
