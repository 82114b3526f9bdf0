"""Weights that don't change between calls are packed once: what kernels read of them is kept from call to call.

`keeping` wraps the launcher of a plan whose step can be divided (codegen.plan.Prepacked): on the second call with the same
bytes, for which no gradient is wanted, the operand is packed for good, and later calls run the rest only, with the same bits.
`Prepared` does the same for steps of replayed programs (codegen.programs.constants). Targets use it; core's storage and settings
count and clear.

That bytes are the same is told by their storage's `mark` (runtime.memory): a number that no other storage and no other time has,
which every write takes away, whoever does it: a launch, even one that isn't counted, a copy of bytes, an exchange of memory, the
first alias (`.data`), and any view of the bytes by Python or NumPy. Nothing is kept of memory that somebody may write to without
being seen: that of another object, of shared pages or mapped files, memory that has living aliases or views, that is copied on
write, whose address was asked for or that NumPy was handed once, or that another thread is writing to at the moment.
"""

from __future__ import annotations

import os
import sys
from collections import Counter, OrderedDict
from collections.abc import Callable
from contextlib import suppress
from itertools import count
from typing import Any
from weakref import WeakSet, ref

from flambeau.base.device import device
from flambeau.base.dtype import uint8
from flambeau.base.flags import flags
from flambeau.base.layout import Layout, register_cache
from flambeau.base.locks import short_lock
from flambeau.codegen.plan import Plan, Prepacked
from flambeau.codegen.runtime import launch, state
from flambeau.codegen.runtime.threads import planned_threads

MOST_USES = 512  # of each packed element in a call, above which packing it anew costs next to nothing
LEAST_WORK = 8 << 20  # packed bytes times uses, below which a call is so short that looking is too much
LEAST_WORK_REPLAYED = 64 << 10  # the same in replays, where a look is some loads
RELEASE_FROM = 256 << 10  # bytes that are packed without the interpreter's lock


def pays(halves: Prepacked, least: int = LEAST_WORK) -> bool:
    """Whether keeping what a step packs is worth its memory."""
    return flags.weight_cache not in ("never", 0) and halves.uses <= MOST_USES and halves.uses * halves.size >= least


#: Whether a gradient may be asked for of a tensor that is used now: core.modes says so.
wants_gradient: Callable[[Any], bool] = lambda tensor: False

_serials = count(1)
_lock = short_lock()
_limit = 0
_PHYSICAL = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")


class _Form:
    """What packs an operand in one way; its identity is a part of the key of what it made."""

    __slots__ = ("layout", "_plan", "_phases", "_pack")

    def __init__(self, weight: Layout, halves: Prepacked) -> None:
        self.layout = Layout.contiguous((halves.size,), uint8, device("cpu"))
        self._plan = Plan([], [self.layout], [weight], release=halves.size >= RELEASE_FROM)
        self._phases, self._pack = halves.pack, None

    def pack(self, weight: Any) -> Any:
        """A fresh tensor of bytes."""
        if self._pack is None:
            self._pack = launch.callable_of(self._plan, self._phases, 0)
        return self._pack(None, weight)


class _Kept(ref):
    """A weak reference to a storage, with what was packed of it when it had this mark and count of writes. aliased: its memory
    belongs to a block of its own, which has the same mark.
    """

    __slots__ = ("aliased", "dropped", "key", "last", "mark", "packed", "size", "writes")
    aliased: bool
    dropped: WeakSet[Any]  # what is to `forget` when it isn't kept any more
    key: tuple[int, int, _Form]
    last: int  # the newest mark when it was used last
    mark: int
    packed: Any
    size: int
    writes: int

    def valid(self, held: Any) -> bool:
        """Whether the storage has the bytes that it had."""
        same: bool = self.mark == held.mark and self.writes == held.writes
        return same and (not self.aliased or held.owner.mark == self.mark)


_kept: OrderedDict[tuple[int, int, _Form], _Kept] = OrderedDict()  # the least recently used first
_of: Counter[int] = Counter()  # how many by identity of their storage
_newest = _total = 0


def total() -> int:
    """Bytes that are kept."""
    return _total


def set_limit() -> None:
    """Keep as much as is set."""
    global _limit
    wanted = flags.weight_cache
    if wanted == "auto":
        wanted = _PHYSICAL // 8
    _limit = wanted if isinstance(wanted, int) else 0


def clear() -> None:
    """Give all of it back."""
    with _lock:
        for kept in list(_kept.values()):
            _drop(kept)


def _give_back(nbytes: int) -> None:
    """There is no memory for so many bytes: give all back, and keep half as much from now on, until the program sets a limit."""
    global _limit
    if _total and nbytes <= _PHYSICAL:  # else it would be of no use
        _limit = _total // 2
        clear()


set_limit()
state.words[state.GIVE_BACK] = id(_give_back)


def _drop(kept: _Kept) -> None:
    global _total
    with _lock:
        if _kept.get(kept.key) is kept:
            del _kept[kept.key]
            _total -= kept.size
            _of[kept.key[0]] -= 1
            if not _of[kept.key[0]]:
                del _of[kept.key[0]]
    for user in list(kept.dropped):
        user.forget(kept.mark)
    kept.dropped.clear()


def _next_mark() -> int:
    global _newest
    _newest = next(_serials)
    return _newest


def _unseen(held: Any, mark: int) -> bool:
    """Whether nobody writes to a storage's memory but through it, nor is at it at this moment. Memory that is a block of its own
    gets the storage's mark.
    """
    if held.size_class == -1:  # it had aliases: do any live? (From Python 3.14 on not all references of variables are counted.)
        if sys.getrefcount(held.owner) > _ALONE:
            return False
        owner = held.owner
        if owner.__class__ is not launch.Block or owner.size_class or owner.exports or owner.mark < 0:
            return False
        owner.mark = mark
    elif held.size_class:
        return False
    return not held.exports and not state.words[state.WRITING]


_ALONE = 2  # references to an object that one other refers to, as sys.getrefcount counts what it is given straight from there


def _offered(weight: Any, form: _Form) -> Any:
    """What was packed of a weight just now, for good; None if it is to be packed for this call only."""
    global _total
    held, size = weight._storage, form.layout.nbytes
    key = (id(held), weight._offset, form)
    mark, writes = held.mark, held.writes
    stale = _kept.get(key)
    if stale is not None:
        _drop(stale)
    if mark < 0 or wants_gradient(weight):
        return None
    if not mark:
        held.mark = _next_mark()
        return None
    if not _unseen(held, mark) or not _room(size, mark):
        if key[0] not in _of:
            held.mark = _next_mark()
        return None
    aliased = held.size_class == -1
    packed = form.pack(weight)
    kept = _Kept(held, _drop)
    kept.aliased, kept.dropped = aliased, WeakSet()
    kept.key, kept.last, kept.mark, kept.packed, kept.size, kept.writes = key, _newest, mark, packed, size, writes
    with _lock:
        if key in _kept:  # another thread was quicker
            return packed
        _kept[key] = kept
        _total += size
        _of[key[0]] += 1
    return packed


def _room(size: int, mark: int) -> bool:
    """Whether there is room for so many bytes. What is stale makes room, then what was not used since this `mark` was given: so a
    net that is larger than the cache doesn't drive out in every turn what it will want in the next.
    """
    if _total + size <= _limit:
        return True
    with _lock:
        for kept in list(_kept.values()):
            held = kept()
            if held is None or not kept.valid(held):
                _drop(kept)
        while _total + size > _limit:
            oldest = next(iter(_kept.values()), None)
            if oldest is None or oldest.last >= mark:
                return False
            _drop(oldest)
    return True


_forms: dict[tuple[Any, ...], _Form] = register_cache({})


def _form_of(weight: Layout, halves: Prepacked) -> _Form:
    """The same one for plans that pack such a weight alike: products with other numbers of rows."""
    key = (weight, halves.size, *((phase.kernel, tuple(map(int, phase.constants))) for phase in halves.pack))
    return _forms.setdefault(key, _Form(weight, halves))


class Prepared:
    """A plan that finds its weight packed, for a replay: `words` are those of the plan with one more input behind the others.

    operand: which of the plan's operands the weight is.
    """

    def __init__(self, plan: Plan, halves: Prepacked) -> None:
        self.operand, self._form = halves.operand, _form_of(plan.inputs[halves.operand - len(plan.outputs)], halves)
        self.plan = plan._replace(inputs=[*plan.inputs, self._form.layout])
        self._launch = launch.callable_of(self.plan, halves.phases, halves.scratch)
        self.words: bytes = self._launch.__self__

    def find(self, weight: Any) -> Any:
        """What is kept of a weight, packed just now perhaps; None if it is to be packed in the step. It has `packed`, a tensor,
        `mark`, `writes` and `aliased`, which say of which bytes it was made, and `dropped`: `forget(mark)` of those in it is
        called when it isn't kept any more.
        """
        key = (id(weight._storage), weight._offset, self._form)
        kept = _kept.get(key)
        if kept is None or not kept.valid(weight._storage):
            if _offered(weight, self._form) is None:
                return None
            kept = _kept.get(key)
        return kept


def keeping(plan: Plan, whole: Callable, halves: Prepacked) -> Callable:
    """The launcher of a plan, which `whole` runs, that looks for what is kept of its operand."""
    at, threads = halves.operand, planned_threads()
    form = _form_of(plan.inputs[at - len(plan.outputs)], halves)
    rest: Callable | None = None
    words = state.words

    def launch_kept(*given: Any) -> Any:
        nonlocal rest
        if words[state.TAPE]:  # a recorded program packs what it finds
            return whole(*given)
        weight = given[at]
        held = weight._storage
        key = (id(held), weight._offset, form)
        kept = _kept.get(key)
        if kept is not None and kept.valid(held):
            packed, kept.last = kept.packed, _newest
            with suppress(KeyError):  # if another thread has dropped it
                _kept.move_to_end(key)
        else:
            packed = _offered(weight, form)
            if packed is None:
                return whole(*given)
        if rest is None:
            twin = plan._replace(inputs=[*plan.inputs, form.layout])
            rest = launch.callable_of(twin, halves.phases, halves.scratch, threads=threads)
        return rest(*given, packed)

    launch_kept.__module__ = plan  # type: ignore[assignment]  # by which `plan_of` knows it
    launch_kept.__self__ = whole.__self__  # type: ignore[attr-defined]  # the words, for `rows_plan`
    return launch_kept
