"""The segment tracer: runs a program on tensors without data, and has computed what it asked for where it asks for values.

While it is on it sees the calls of public functions (core.modes.observing). A call is tried on tensors without data, and recorded
if that gives tensors; what can't be recorded first has the segment computed, by a graph and the program's backend, and then goes
on as ever. The tensors without data that the program holds at that moment become the results, in place: so the program needs no
other form to go on in, and whatever the tracer doesn't know is right. Stands on segment, values, environment, become; used by
_dynamo.compiled.
"""

from __future__ import annotations

import contextlib
import sys
import threading
from collections.abc import Callable
from types import FrameType, FunctionType
from typing import Any

import flambeau as torch
from flambeau._dynamo import exc
from flambeau._dynamo.segments import environment, tables
from flambeau._dynamo.segments.become import become
from flambeau._dynamo.segments.bodies import Start, expose, folded, tensors_in
from flambeau._dynamo.segments.functions import applied
from flambeau._dynamo.segments.places import places_of
from flambeau._dynamo.segments.segment import Call, Path, Segment
from flambeau._dynamo.segments.sizes import Looking, Recorded, SizeInt, ended, numel_of, plain, size_ints, size_of
from flambeau._dynamo.segments.transforms import NotRecorded, recorded_transform
from flambeau._dynamo.segments.values import Unrecordable, frozen
from flambeau._subclasses.fake_tensor import FakeTensorConverter, FakeTensorMode
from flambeau.base import device as devices
from flambeau.core.autograd.function import call as function_call
from flambeau.core.modes.modes import deferring, local
from flambeau.core.modes.observing import Given, Observer
from flambeau.core.operator.arguments import LOOKING
from flambeau.core.tensor import fakes, storage
from flambeau.core.tensor.tensor import Tensor
from flambeau.dispatcher.calling import _overload_of, answer_unasked

__all__ = ["Tracer", "tracing"]


class _Mode(FakeTensorMode):
    """Makes tensors without data that are of class Tensor, as those of the program are."""

    def __init__(self) -> None:
        super().__init__(allow_non_fake_inputs=True)
        self.stand_ins = devices.StandIns(self, Tensor)


_modes: list[_Mode] = []  # that no tracer uses at the moment; layouts and plans are kept under a mode's stand-ins


def tracing() -> Tracer | None:
    """The tracer that sees the calls of this thread at the moment."""
    observer = local.observer
    return observer if isinstance(observer, Tracer) else None


class _Unseen(Exception):
    """The result isn't what a graph can have."""


class Tracer(Observer):
    """One call of a compiled function. compute(segment, numbers, tracer) gives the values of a segment with these
    numbers; broke(reason, tracer) is told where a graph ends before the function does; dynamic(tensor) says which dimensions of
    a tensor from outside may differ between calls; ints: the SizeInts of the call.
    """

    def __init__(
        self,
        compute: Callable[..., list[Any]],
        broke: Callable[[str, Tracer], None],
        dynamic: Callable[[Tensor], frozenset[int]] = lambda tensor: frozenset(),
        ints: list[SizeInt] | None = None,
    ) -> None:
        self.compute, self.told, self.dynamic = compute, broke, dynamic
        self.ints: list[SizeInt] = [] if ints is None else ints
        self.looking = False  # whether sizes are SizeInts
        self._tried = False  # whether what is recorded may turn out not to be, so that it can't be computed
        try:
            self.mode = _modes.pop()
        except IndexError:
            self.mode = _Mode()
        self._stack = contextlib.ExitStack()
        self.count = 0  # of segments that were computed
        self.thread = threading.get_ident()
        self.lock = threading.RLock()  # held by who records or computes: another thread may want what is still to be computed
        self._begin()

    def _begin(self) -> None:
        self.segment = Segment(environment.current(), self.count > 0)
        self.mode.fake_tensor_converter = FakeTensorConverter()

    # ---------------------------------------------------------------- calls

    def called(self, function: FunctionType, own: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Record the call, or have everything before it computed, and then this."""
        name = function.__name__
        if name == "__iter__" and args[0]._layout.ndim:
            return iter([args[0][i] for i in range(args[0]._layout.shape[0])])
        local.observer = self.outer  # what is called from here isn't the program's
        try:
            with self.lock:
                return self._answer(name, function, own, args, kwargs)
        finally:
            local.observer = self

    def _answer(self, name: str, function: FunctionType, own: Callable[..., Any], args: Any, kwargs: dict[str, Any]) -> Any:
        if name in tables.METADATA:
            if self.looking:
                return self._size(name, self.go_on(function, own, plain(args), plain(kwargs)), args, kwargs)
            return self.go_on(function, own, args, kwargs)
        if tables.disallowed and function in tables.disallowed:
            self.break_here(f"Call to a disallowed function: {name}", True, args)
            return self._eagerly(name, function, own, args, kwargs)
        if name in tables.NEEDS_VALUES or local.dispatch_modes or local.saved_tensors_hooks or any(map(callable, args)):
            return self._eagerly(name, function, own, args, kwargs)
        self._same_environment()
        try:
            made = self._recorded(function, lambda given, named: self.go_on(function, own, given, named), args, kwargs)
        except Unrecordable:
            if not any(True for _ in tensors_in(args)) and not any(True for _ in tensors_in(kwargs.values())):
                return self.go_on(function, own, args, kwargs)  # of NumPy's arrays, say
        except exc.TorchDynamoException:
            raise
        except Exception:
            pass  # the call itself says what is wrong, or does what can't be done without values
        else:
            if self.segment.writes_to_arrays():
                self.settle()
            return made
        return self._eagerly(name, function, own, args, kwargs)

    def _same_environment(self) -> None:
        """Compute what was recorded if no blocks of a graph make the thread's state what it has become."""
        if environment.blocks(environment.current(), self.segment.environment) is None:
            self.settle()

    def _eagerly(self, name: str, function: FunctionType, own: Callable[..., Any], args: Any, kwargs: dict[str, Any]) -> Any:
        if self.segment.calls:
            self.break_here(tables.breaks(name) or f"{name} is computed eagerly", tables.breaks(name) is not None, args)
        elif self.segment.outside:
            self._begin()  # the call may change what fakes were made of
        self._all_real(name, args, kwargs)
        return self.go_on(function, own, plain(args), plain(kwargs)) if self.looking else self.go_on(function, own, args, kwargs)

    def _all_real(self, name: str, args: Any, kwargs: dict[str, Any]) -> None:
        for tensor in (*tensors_in(args), *tensors_in(kwargs.values())):
            if fakes.is_fake(tensor._layout):
                raise exc.InternalTorchDynamoError(
                    f"torch.compile: {name} is given a tensor that comes from something the tracer doesn't see; call "
                    "the function that makes it under torch.compiler.disable"
                )

    def _recorded(self, function: Callable[..., Any], call: Callable[..., Any], args: Any, kwargs: dict[str, Any]) -> Any:
        """What a function gives, recorded; call(args, kwargs) runs it on tensors without data."""
        segment, name = self.segment, function.__name__
        held_args, held_kwargs = frozen(args, self._number), frozen(kwargs, self._number)
        given, named = self.fake(args), self.fake(kwargs)
        before = []
        if self.looking:
            given, named = plain(given), plain(named)
            before = [(tensor, tensor._layout.shape) for tensor in tensors_in((given, named))]
        with self.mode:
            made = call(given, named)
        for tensor, shape in before:
            if tensor._layout.shape != shape:
                self._record_sizes(tensor)  # before the call that gives others
        self._check_outside((*args, *kwargs.values()))
        if made is None and tables.writes_only(name):
            segment.add(Call(function, held_args, held_kwargs, (), local.grad, places_of(sys._getframe(4))))
            return None
        found: list[tuple[Path, int, Tensor]] = []
        made = self._results(made, (), found)
        if not found:
            raise _Unseen
        for _, number, tensor in found:
            if segment.number_of(tensor) is None:
                segment.add_made(tensor, number)
        numbers = tuple([(path, number) for path, number, _ in found])
        segment.add(Call(function, held_args, held_kwargs, numbers, local.grad, places_of(sys._getframe(4))))
        return made

    def _number(self, tensor: Any) -> int:
        """The number of a tensor, or of a size, among arguments."""
        if tensor.__class__ is SizeInt:
            return self._number_of_int(tensor)
        if tensor.__class__ is Recorded:
            return int(tensor.number)
        number = self.segment.number_of(tensor)
        if number is not None:
            if number in self.segment.within:
                expose(self.segment, number)
            return number
        number = self.segment.number_of_view(tensor) if self._tried else None
        if number is not None:
            return number
        layout = tensor._layout
        if layout.flavor is not None or layout.answering is not None or fakes.is_fake(layout) or layout.device.type == "meta":
            raise _Unseen
        if storage.root(tensor._storage).exports:  # an array shows the memory
            raise _Unseen
        number = self.segment.add_outside(tensor, self.mode.from_tensor(tensor))
        dims = self.dynamic(tensor)
        if dims:
            self.look()
            self.segment.dynamic[number] = dims
        return number

    def _record_sizes(self, tensor: Tensor) -> None:
        """The sizes that the program has read from a tensor without data are recorded, as it has others now."""
        for given in list(self.ints):
            if given.reads(self._held(tensor)):
                self._number_of_int(given)

    def _number_of_int(self, given: SizeInt) -> int:
        """The number of a size: the calls that make it are recorded when another is given it."""
        segment, origin = self.segment, given.origin
        if given.segment is segment and given.number not in segment.within:
            return given.number
        elsewhere = origin.__class__ is not tuple or any(x.__class__ is Recorded and x.segment is not segment for x in origin[1])
        if elsewhere or given.stale():
            segment.add_int(given)
            return given.number
        function, args = origin
        held = frozen(args, self._number)
        given.segment, given.number = segment, segment.next_number()
        segment.add(Call(function, held, frozen({}, self._number), (((), given.number),), local.grad, ()))
        return given.number

    # ---------------------------------------------------------------- sizes

    def look(self) -> None:
        """Sizes that may differ are SizeInts from here to the end of the call."""
        if not self.looking:
            self.looking = True
            self._stack.enter_context(Looking())

    def sizes_of(self, tensor: Tensor) -> Any:
        """The shape of a tensor, with SizeInts for sizes that may differ between calls."""
        shape = tensor._layout.shape
        if not shape:
            return shape
        if fakes.is_fake(tensor._layout):
            dims: Any = range(len(shape)) if self.segment.dynamic or self.segment.ints else ()
        else:
            dims = self.dynamic(tensor)
        if not dims:
            return shape
        held = self._held(tensor)
        made = [
            SizeInt.made(n, (size_of, (held, dim)), self.ints) if dim in dims and (n > 1 or dims.__class__ is frozenset) else n
            for dim, n in enumerate(shape)
        ]
        return tuple.__new__(type(shape), made)

    def _size(self, name: str, made: Any, args: Any, kwargs: dict[str, Any]) -> Any:
        """What a question about a tensor gives, when its sizes may differ."""
        if name == "size":
            dim = args[1] if len(args) > 1 else kwargs.get("dim")
            shape = self.sizes_of(args[0])
            return shape if dim is None else shape[plain(dim)] if dim.__class__ in (int, SizeInt) else made
        if name in ("numel", "nelement") and any(x.__class__ is SizeInt for x in self.sizes_of(args[0])):
            return SizeInt.made(made, (numel_of, (self._held(args[0]),)), self.ints)
        return made

    def _held(self, tensor: Tensor) -> Any:
        """A tensor as the origin of a size has it."""
        number = self.segment.number_of(tensor)
        return Recorded(self.segment, number) if number is not None and fakes.is_fake(tensor._layout) else tensor

    def fake(self, given: Any) -> Any:
        """Values with tensors without data in the place of tensors."""
        if isinstance(given, Tensor):
            return given if fakes.is_fake(given._layout) else self.mode.from_tensor(given)
        kind = given.__class__
        if kind in (list, tuple):
            return kind([self.fake(x) for x in given])
        return {key: self.fake(x) for key, x in given.items()} if kind is dict else given

    def _check_outside(self, given: Any) -> None:
        """_Unseen if the call changed what a tensor from outside is, beside its values."""
        for tensor in tensors_in(given):
            if not fakes.is_fake(tensor._layout):
                fake, layout = self.mode.from_tensor(tensor), tensor._layout
                same = fake._layout.shape == layout.shape and fake._layout.strides == layout.strides
                if not same or fake._offset != tensor._offset or (fake._node is None) is not (tensor._node is None):
                    raise _Unseen

    def _results(self, made: Any, path: Path, found: list[tuple[Path, int, Tensor]]) -> Any:
        """A call's result as the program gets it; its tensors are added to `found`."""
        if isinstance(made, Tensor):
            if not fakes.is_fake(made._layout) or made._layout.flavor is not None:
                raise _Unseen
            shown = self.segment.fakes.get(id(made), made)
            number = self.segment.number_of(shown)
            found.append((path, self.segment.next_number() if number is None else number, shown))
            return shown
        if isinstance(made, (tuple, list)) and any(True for _ in tensors_in(made)):
            items = [self._results(x, (*path, i), found) for i, x in enumerate(made)]
            if all(a is b for a, b in zip(items, made)):
                return made
            return type(made)(items)
        if path:  # beside a tensor
            return made
        raise _Unseen

    # ---------------------------------------------------------------- what isn't recorded

    def operator(self, name: str, call: Callable[..., Any], *args: Any) -> Any:
        """An operator that a program defines is recorded if it has a fake implementation and writes to nothing; others, and
        autograd.Functions, run on real tensors.
        """
        if call is function_call and not local.saved_tensors_hooks and not local.dispatch_modes:
            self._same_environment()
            return applied(self, args[0], args[1], sys._getframe(1))
        if call is answer_unasked and not args[0].schema.is_mutable:
            made = self._defined(*args)
            if made is not _Unseen:
                return made
        self.break_here(f"{name} is computed eagerly", False)
        local.observer = self.outer
        try:
            return super().operator(name, call, *args)
        finally:
            local.observer = self

    def _defined(self, record: Any, args: Any, kwargs: dict[str, Any]) -> Any:
        """What a defined operator gives; _Unseen if that can't be recorded."""
        overload = _overload_of(record)
        local.observer = self.outer
        try:
            with self.lock:
                self._same_environment()
                return self._recorded(overload, lambda given, named: answer_unasked(record, given, named), tuple(args), kwargs)
        except exc.TorchDynamoException:
            raise
        except Exception:
            return _Unseen
        finally:
            local.observer = self

    def higher_order(self, name: str, answer: Callable[[], Any], function: Callable[[], Any], given: Any, settings: Any) -> Any:
        """The function's calls are a graph within the graph, if nothing in it asks for values."""
        if local.saved_tensors_hooks or local.dispatch_modes:
            return answer()
        self._same_environment()
        start = Start(self.segment)
        result = function()
        if start.holds(self.segment):
            folded(start, name, result, given, settings, places_of(sys._getframe(1)))
        return result

    def transform(self, function: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """What is transformed is in the graph by the operators that it computes by, if it can be."""
        self._same_environment()
        if not local.saved_tensors_hooks and not local.dispatch_modes and not self.looking:
            try:
                return recorded_transform(self, function, args, kwargs, sys._getframe(1))
            except NotRecorded:
                pass
        self.set_aside()
        try:
            return function(*args, **kwargs)
        finally:
            local.observer = self

    def alone_with(self, function: Callable[[], Any]) -> Any:
        """What a function gives whose calls are recorded to be looked at, and to be taken out; None if it can't be recorded."""
        with self.lock:
            before, self._tried = self._tried, True
            try:
                return function()
            except Exception:
                return None
            finally:
                self._tried = before

    def number(self, tensor: Tensor) -> int:
        """The number of a tensor. Raises an exception if it can have none."""
        before, local.observer = local.observer, self.outer
        try:
            return self._number(tensor)
        finally:
            local.observer = before

    def begin(self, name: str, given: Given | None = None) -> Callable[[], None] | None:
        """What a program calls a part of itself: an optimizer's step computes what no public function shows."""
        ended = super().begin(name, given)
        if not name.startswith("Optimizer."):
            return ended
        self.break_here("an optimizer's step is computed eagerly", False)
        local.observer = self.outer

        def end() -> None:
            local.observer = self
            if ended is not None:
                ended()

        return end

    def set_aside(self) -> Tracer:
        """What is transformed is computed as ever."""
        self.break_here("a function transform is computed eagerly", False)
        local.observer = self.outer
        return self

    def evaluates(self, node: Any) -> None:
        """The engine runs, which computes by more than public functions."""
        if node is None:
            local.observer = self
        elif local.observer is self:
            self.break_here("autograd is computed eagerly", False)
            local.observer = self.outer
        super().evaluates(node)

    def broke(self, reason: str) -> None:
        """The graph ends here, as it would in PyTorch."""
        if self._tried:
            raise _Unseen
        self.told(reason, self)

    def break_here(self, reason: str, refused: bool, wanted: Any = None) -> None:
        """The graph ends. refused: PyTorch ends it here as well, which fullgraph=True forbids. wanted: its first results."""
        if refused and _of_program(sys._getframe(1)):
            self.broke(reason)
        self.settle(wanted)

    def aside_from(self, reason: str, function: Callable[..., Any], args: Any, kwargs: dict[str, Any]) -> Any:
        """The result of a function that runs without being seen."""
        self.broke(reason)
        self.settle()
        local.observer = self.outer
        try:
            return function(*args, **kwargs)
        finally:
            local.observer = self

    def used_elsewhere(self, function: FunctionType, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        """Compute what was recorded if another thread uses what it gives, or writes to what it is given."""
        if threading.get_ident() == self.thread:
            return
        writes = tables.writes(function.__name__) or "out" in kwargs
        if any(self.segment.concerns(tensor, writes) for tensor in tensors_in((*args, *kwargs.values()))):
            self.settle()

    # ---------------------------------------------------------------- computing

    def settle(self, result: Any = None) -> None:
        """Compute what was recorded. result: what the function returns or needs, whose tensors are the graph's first results."""
        if self._tried and threading.get_ident() == self.thread:
            raise _Unseen
        before, exporting = local.observer, local.exporting
        if before is self:
            local.observer = self.outer
        local.exporting = ""
        try:
            with self.lock:
                self._settle(result)
        finally:
            local.observer, local.exporting = before, exporting

    def _settle(self, result: Any) -> None:
        segment = self.segment
        if not segment.calls:
            self._begin()
            return
        segment.use()
        living = self._living(segment)
        if result is not None:
            place = {id(tensor): at for at, tensor in enumerate(tensors_in([result]))}
            living.sort(key=lambda known: place.get(id(known[0]), len(place)))
        for _, tensor, _, writes in segment.outside:
            if tensor._storage.writes != writes:
                raise exc.InternalTorchDynamoError(
                    "torch.compile: a tensor was written to by something the tracer doesn't see; call it under "
                    "torch.compiler.disable"
                )
        numbers = [number for _, number in living]
        self._begin()
        with environment.restored(segment.environment, segment.grad):
            made = self.compute(segment, numbers, self)
        self.count += 1
        for x in made:
            self._all_real("return", (x,), {})
        become([(tensor, x) for (tensor, _), x in zip(living, made, strict=True)])

    def _living(self, segment: Segment) -> list[tuple[Tensor, int]]:
        """What the program still holds of what the calls give, and its numbers."""
        living = segment.living()
        for _, number in living:
            if number in segment.within:
                expose(segment, number)
        return [
            known for known in living if known[1] not in segment.within
        ]  # those of a backward that was only tried are nothing

    def run(self, function: Callable[..., Any], args: Any, kwargs: dict[str, Any]) -> Any:
        """What the function gives."""
        deferring.append(self)
        try:
            with self._stack, self:
                try:
                    result = function(*args, **kwargs)
                except BaseException:
                    self.settle()  # what it did before, it did
                    raise
                self.settle(result)
        finally:
            deferring.remove(self)
            _modes.append(self.mode)
            ended(self.ints)
        for tensor in tensors_in([result]):
            self._all_real("return", (tensor,), {})
        return plain(result) if self.looking and any(size_ints([result])) else result


def _of_program(frame: FrameType | None) -> bool:
    """Whether the package was called by the program there, and not by another part of itself."""
    while frame is not None and _is_door(frame):
        frame = frame.f_back
    return frame is not None and frame.f_globals.get("__name__", "").partition(".")[0] != torch.__name__


def _is_door(frame: FrameType) -> bool:
    name = frame.f_globals.get("__name__", "")
    doors = (f"{torch.__name__}.core.", f"{torch.__name__}._dynamo.")
    return frame.f_code.co_filename == LOOKING or name.startswith(doors)
