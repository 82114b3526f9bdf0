"""The backward pass behind a result of a replay, as a program of its own.

A replay's results have the graph that the function made (graphs). Where a program runs all of it backwards, for the gradients of
leaves, the engine comes to the node of the result: the first time steps run one by one, the second time they are recorded, and
later the program answers for all of them. What it gives are the gradients that arrive where the call's graph ends; there the
engine goes on as ever, so that adding up, giving to leaves, and what is behind are eager's. Steps run one by one wherever
somebody could tell the difference: hooks, gradients of gradients, gradients of some tensors only, modes that see calls.

Stands on conditions, codegen.programs and core.autograd; used by graphs.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from typing import Any

from flambeau.base.flags import flags
from flambeau.capture.check import check_gradients
from flambeau.capture.conditions import special, thread_modes
from flambeau.codegen.programs import Busy, Refusal, Replay, Tape, Unfit
from flambeau.codegen.programs.program import EXTERNAL, KEPT
from flambeau.core.autograd.engine import execute
from flambeau.core.autograd.node import Node, Through, running
from flambeau.core.modes.modes import local
from flambeau.core.tensor.tensor import Tensor

__all__ = ["Backward", "starting", "starts"]

log = logging.getLogger("torch._dynamo.recompiles")
FEWEST = 3  # steps behind a result that are worth a program
MOST_PROGRAMS = 8  # for gradients of several layouts, under several modes
MOST_REFUSALS = 3
MOST_BYTES = 32 << 20  # that a program may keep between calls; a larger pass would gain next to nothing


class Backward:
    """What the graphs behind one result have in common. root, behind: one of them, the result's node and those that the call made
    behind it, in the order in which each graph has them.
    """

    def __init__(self, root: Node, behind: Sequence[Node]) -> None:
        self.name, self.hits = root.name(), 0
        self.programs: dict[Any, _Program] = {}
        self.calls: dict[Any, int] = {}  # by kind: recordings that came to nothing
        names = {id(root): "root", **{id(node): f"n{i}" for i, node in enumerate(behind)}}
        self.freed = [i for i, node in enumerate(behind) if any(version is not None for version in node.versions)]
        self._text = _Look(names, [root, *behind]).text
        self._look: Callable[..., Any] | None = None

    @property
    def nbytes(self) -> int:
        """About how many bytes its programs keep between calls."""
        return sum(program.replay.nbytes for program in self.programs.values())

    def through(self, root: Any, gradients: Sequence[Any]) -> Through | None:
        """The gradients where the graph behind `root` ends, from those of its outputs; None where its steps are to run."""
        run = running.run
        if run is None or run.waiting is None or local.grad or special(""):
            return None
        found = self.look()(root, root.behind, run.reached, run.waiting)
        given = [g for g in gradients if g is not None]
        if found is None or not all(g.__class__ is Tensor for g in given):
            return None
        edges, more, tensors = found
        key = tuple([None if g is None else g._layout for g in gradients]), thread_modes()
        inputs = [*given, *tensors]
        program = self.programs.get(key)
        if program is not None:
            try:
                arrived = program.answer(inputs)
            except Unfit as reason:
                log.debug("backward of %s: %s", self.name, reason)
                return None
            if flags.compile == "check" and _apart(edges):
                arrived = check_gradients(self.name, arrived, self._eagerly(root, gradients, edges), inputs)
            self.hits += 1
        else:
            refused = self.calls.setdefault(key, -1)
            if refused < 0 or refused >= MOST_REFUSALS or len(self.programs) >= MOST_PROGRAMS:
                self.calls[key] = max(refused, 0)
                return None
            recorded = self._recorded(key, root, gradients, edges, inputs)
            if recorded is None:
                return None
            arrived = recorded
        counts = run.reached
        for (target, _), number in zip(edges, more):
            counts[target] -= number
        if not run.keep_graph:
            behind = root.behind
            for i in self.freed:
                behind[i].saved = None
        return Through(edges, arrived)

    def look(self) -> Callable[..., Any]:
        """look(root, behind, counts, waiting): where a graph ends, by how much counts there are too high, and what its steps have
        saved. None where they must run one by one.
        """
        if self._look is None:
            scope: dict[str, Any] = {}
            exec(compile(self._text, "<flambeau backward pass of a captured call>", "exec"), scope)
            self._look = scope["look"]
        return self._look  # type: ignore[return-value]

    def _eagerly(self, root: Any, gradients: Sequence[Any], edges: Sequence[Any]) -> list[Any]:
        """The gradients at `edges`, by the engine."""
        arrived: list[Any] = [None] * len(edges)
        wanted: dict[Node, list[tuple[int, int]]] = {}
        for i, (node, index) in enumerate(edges):
            wanted.setdefault(node, []).append((index, i))
        extras, root.extras = root.extras, None  # hooks have been called
        try:
            execute([(root, i, g) for i, g in enumerate(gradients) if g is not None], True, False, wanted, arrived)
        finally:
            root.extras = extras
        return arrived

    def _recorded(self, key: Any, root: Any, gradients: Any, edges: Any, inputs: list[Any]) -> list[Any] | None:
        """The gradients at `edges`, by the engine; its launches become a program, if they can."""
        self.calls[key] += 1  # unless it comes to a program
        if not _apart(edges):
            log.debug("backward of %s: a graph from before the call leads to where the call's ends", self.name)
            return None
        tape = Tape(inputs)
        try:
            tape.begin()
        except Busy:
            return None
        try:
            arrived = self._eagerly(root, gradients, edges)
        finally:
            tape.end()
        outputs = list({id(g): g for g in arrived if g is not None}.values())
        program = tape.finish(inputs, outputs)
        reason = program.reason if isinstance(program, Refusal) else ""
        if not isinstance(program, Refusal):
            if any(b.kind == KEPT or (b.kind == EXTERNAL and b.written) for b in program.buffers) or program.versions:
                reason = "a step keeps what it made, or writes to what it was given"
            elif (replay := Replay(program)).nbytes > MOST_BYTES:
                reason = f"it would keep {replay.nbytes >> 20} MB between calls"
            else:
                places = {id(g): i for i, g in enumerate(outputs)}
                self.programs[key] = _Program(replay, [None if g is None else places[id(g)] for g in arrived])
                self.calls[key] -= 1
        if reason:
            log.debug("backward of %s: %s", self.name, reason)
        return arrived


def _apart(edges: Sequence[Any]) -> bool:
    """Whether none of these edges' nodes is behind another one, so that the engine can be stopped at all of them."""
    ends = {node for node, _ in edges}
    pending, seen = [target for node in ends for target, _ in node.edges], set()
    while pending:
        node = pending.pop()
        if node in ends:
            return False
        if node is not None and node not in seen:
            seen.add(node)
            pending += [target for target, _ in node.edges]
    return True


class _Program:
    """A recorded pass; places: which of its results arrives at each edge, None where nothing does."""

    def __init__(self, replay: Replay, places: list[int | None]) -> None:
        self.replay, self.places = replay, places

    def answer(self, inputs: list[Any]) -> list[Any]:
        """What arrives at the edges. Unfit."""
        made = self.replay(*inputs)
        return [None if i is None else made[i] for i in self.places]


class _Look:
    """Writes `look`. names: variables of nodes; the first of `nodes` is the root."""

    def __init__(self, names: dict[int, str], nodes: Sequence[Node]) -> None:
        self.tensors: dict[int, tuple[str, str]] = {}  # by identity: the name of a saved tensor, and where it is found
        self.versions: list[str] = []
        self.saved: list[str] = []
        ends: dict[tuple[int, int], str] = {}  # where the graph goes on, and the first edge that does
        number: dict[tuple[int, int], int] = {}  # of edges that do
        counts: dict[str, int] = {}
        for node in nodes:
            name = names[id(node)]
            self._look_at(name, node)
            for i, (target, index) in enumerate(node.edges):
                if target is not None and id(target) in names:
                    counts[names[id(target)]] = counts.get(names[id(target)], 0) + 1
                elif target is not None:
                    ends.setdefault((id(target), index), f"{name}.edges[{i}]")
                    number[id(target), index] = number.get((id(target), index), 0) + 1
        behind = [names[id(node)] for node in nodes[1:]]
        lines = [f"{', '.join(behind)}, = behind", "extras = root.extras"]
        lines += _unless("extras is None or not (extras.pre_hooks or extras.post_hooks)")
        lines += _unless(f"{' is '.join(f'{name}.extras' for name in behind)} is None")
        lines += _unless("waiting.keys().isdisjoint(behind)")  # only the call's own steps lead to them
        lines += _unless(" and ".join(f"counts[{name}] == {counts[name]}" for name in behind))
        lines += [f"s_{name} = {name}.saved" for name in self.saved]
        lines += _unless(" and ".join(f"s_{name}" for name in self.saved) or "True")
        lines += [f"{name} = {place}" for name, place in self.tensors.values()]
        lines += _unless(" and ".join(self.versions) or "True")
        for i, (key, place) in enumerate(ends.items()):
            lines += [f"e{i} = {place}", f"g{i} = e{i}[0]"]
            if number[key] > 1:  # they are added up first, so that none may be there before
                lines += _unless(f"g{i} not in waiting")
        lines += _unless(f"{' is '.join(f'g{i}.extras' for i in range(len(ends)))} is None")
        edges = "".join(f"e{i}, " for i in range(len(ends)))
        tensors = "".join(f"{name}, " for name, _ in self.tensors.values())
        lines.append(f"return ({edges}), {[n - 1 for n in number.values()]}, ({tensors})")
        self.text = "def look(root, behind, counts, waiting):\n" + "".join(f"    {line}\n" for line in lines)

    def _look_at(self, name: str, node: Node) -> None:
        """Find the tensors that a step has saved, which must be there, with the counts of writes that they had."""
        known = len(self.tensors)
        for i, value in enumerate(node.saved or ()):
            self._find(f"s_{name}[{i}]", value)
            if i < len(node.versions) and node.versions[i] is not None:
                self.versions.append(f"{self.tensors[id(value)][0]}._storage.writes == {name}.versions[{i}]")
                known = -1
        if len(self.tensors) != known:
            self.saved.append(name)

    def _find(self, place: str, value: Any) -> None:
        if isinstance(value, Tensor):
            self.tensors.setdefault(id(value), (f"t{len(self.tensors)}", place))
        elif type(value) in (tuple, list):
            for i, each in enumerate(value):
                self._find(f"{place}[{i}]", each)


def _unless(condition: str) -> list[str]:
    return [f"if not ({condition}):", "    return None"]


# ---------------------------------------------------------------- nodes


def starting(kind: type) -> type:
    """A kind of node that may answer for those behind it: with `backward`, a Backward, and `behind`, a tuple of them."""
    if kind not in _kinds:

        def apply(self: Any, gradients: Sequence[Any]) -> Any:
            through = self.backward.through(self, gradients)
            return kind.apply(self, gradients) if through is None else through  # type: ignore[attr-defined]

        face = {name: getattr(kind, name) for name in ("__module__", "__qualname__", "__doc__")}
        members = {"__slots__": ("backward", "behind"), "apply": apply, "__call__": _called}
        _kinds[kind] = type(kind.__name__, (kind,), {**members, **face})
    return _kinds[kind]


_kinds: dict[type, type] = {}


class _Alone:
    """A Backward that never answers."""

    def through(self, root: Any, gradients: Any) -> None:
        """None."""


def _called(self: Any, *gradients: Any, **keywords: Any) -> Any:
    """The step alone."""
    known, self.backward = self.backward, _Alone()
    try:
        return Node.__call__(self, *gradients, **keywords)  # type: ignore[operator]
    finally:
        self.backward = known


def starts(results: Sequence[Node], order: Sequence[Node]) -> dict[int, list[Node]]:
    """Which of the nodes of a call's results have a Backward, and the nodes behind them. order: the call's nodes, as they were
    made. A result behind another one has none: together they are run from one that is behind neither. Nor has one that takes
    turns with another: all its gradients would arrive at once, and be added up in another order.
    """
    own = {id(node) for node in order}
    reached = {id(root): _behind(root, own) for root in results}
    covered = set().union(*reached.values())
    found = {}
    for root in results:
        behind = [node for node in order if id(node) in reached[id(root)]]
        if id(root) in covered or len(behind) < FEWEST or any(_keeps_nodes(node) for node in (root, *behind)):
            continue
        if not _takes_turns(root, reached[id(root)], order):
            found[id(root)] = behind
    return found


def _takes_turns(root: Node, behind: set[int], order: Sequence[Node]) -> bool:
    """Whether a step of another result leads to where the graph of this one goes on, and runs before a step of this one does."""
    reached: set[tuple[int, int]] = set()
    for node in order:
        ends = {(id(target), index) for target, index in node.edges if target is not None and id(target) not in behind}
        if node is root:
            return False
        if id(node) in behind:
            reached |= ends
        elif not reached.isdisjoint(ends):
            return True
    return False


def _behind(root: Node, own: set[int]) -> set[int]:
    """Those of the call's nodes to which a graph leads from one of them."""
    found: set[int] = set()
    pending = [root]
    while pending:
        for target, _ in pending.pop().edges:
            if target is not None and id(target) in own and id(target) not in found:
                found.add(id(target))
                pending.append(target)
    return found


def _keeps_nodes(node: Node) -> bool:
    return any(isinstance(value, Node) for value in node.saved or ())
