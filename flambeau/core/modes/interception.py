"""Calls of public functions that somebody answers in their place: values that are no tensors, such as the proxies of fx, modes
of `__torch_function__`, and modes and classes below autograd.

Those below autograd are asked by generated functions themselves, on their slow way (core.modes.looking). Functions that were
written by hand don't look; and proxies and modes of `__torch_function__` see a call as the program wrote it, which a function
that has its arguments by name can't tell any more. So while such values or modes exist, the code of the functions concerned is
exchanged for one that looks first; the functions stay the same objects, and cost nothing at all other times. A function gets
its own code back when it is called and nobody is left: so whoever comes and goes exchanges only what was called meanwhile.
Stands on core.modes.overrides; used by fx and by dispatcher.dispatch_modes.
"""

from __future__ import annotations

import functools
import inspect
import weakref
from collections.abc import Callable, Iterable
from types import CodeType, FunctionType
from typing import Any

from flambeau.base.device import stand_ins_in_use
from flambeau.base.functions import twin
from flambeau.base.locks import short_lock
from flambeau.base.tracebacks import filter_traceback
from flambeau.core.modes import looking, overrides
from flambeau.core.modes.dispatching import dispatching
from flambeau.core.modes.modes import active, deferring, local, observed, special
from flambeau.core.modes.overrides import NEVER_EXCHANGED, dispatch, dispatch_to_mode
from flambeau.core.operator import publishing, view
from flambeau.core.operator.arguments import LOOKING
from flambeau.core.operator.methods import OPERATORS_AS
from flambeau.core.tensor.tensor import Tensor

_classes: tuple[type, ...] = ()
_providers: list[Callable[[], Iterable[Callable]]] = [
    lambda: [*publishing.NAMESPACE.values(), *view.DECLARED],
    lambda: [f for f in (getattr(declared, "public", None) for declared in publishing.OPERATORS.values()) if f is not None],
]
_prepared = 0  # how many of the providers were asked for their functions
_answer: Callable[..., Any] | None = None  # who answers while modes below autograd are on
_answer_of_fakes: Callable[..., Any] | None = None  # who answers inside a fake tensor mode
_lock = short_lock()
_exchanging = False  # whether the providers are being asked; one that is added meanwhile is asked as well
_plain: dict[FunctionType, FunctionType] = {}  # the forms that ask nobody, those of generated functions when they are wanted
_codes: dict[FunctionType, CodeType] = {}  # the own codes
_methods: dict[FunctionType, list[str]] = {}
_public: set[FunctionType] = set()
_unconcerned: set[Callable] = set()


def attend(cls: type, functions: Callable[[], Iterable[Callable]], unconcerned: Iterable[Callable] = ()) -> None:
    """Let public functions look out for instances of `cls` while Attention is held; `functions()` are those besides Tensor's
    methods. unconcerned: functions that take such a value as any other, also where modes have them exchanged.
    """
    global _classes
    _unconcerned.update(unconcerned)
    _classes = (*_classes, cls)
    provide(functions)


def attend_modes(answer: Callable[..., Any], functions: Callable[[], Iterable[Callable]]) -> None:
    """Let answer(function, its plain form, args, kwargs) answer public functions while this thread has modes below autograd and
    Attention is held.
    """
    global _answer
    _answer = answer
    provide(functions)


def attend_fakes(answer: Callable[..., Any]) -> None:
    """The same for a thread that is in a fake tensor mode, and in no mode below autograd."""
    global _answer_of_fakes
    _answer_of_fakes = answer


def provide(functions: Callable[[], Iterable[Callable]]) -> None:
    """Have `functions()` look first as well, beside Tensor's methods and the operators."""
    _providers.append(functions)
    if _by_hand.count and not _exchanging:
        with _lock:
            _prepare()


class _Exchanged:
    """Functions whose code looks first while `count`, of those who want it, isn't zero."""

    def __init__(self) -> None:
        self.count = 0
        self.own: list[tuple[FunctionType, CodeType, CodeType]] = []  # those that have their own code: it, and the other

    def exchange(self) -> None:
        while self.own:
            function, _, looking = self.own.pop()
            function.__code__ = looking

    def give_back(self, function: FunctionType, own: CodeType) -> None:
        """Give a function its own code, as nobody is left."""
        with _lock:
            if not self.count and function.__code__ is not own:
                self.own.append((function, own, function.__code__))
                function.__code__ = own


_by_hand = _Exchanged()  # functions that don't look by themselves
_generated = _Exchanged()  # functions that do, for those who want calls as they are written


class Attention:
    """Held by every value that wants to be looked out for."""

    __slots__ = ("__weakref__",)
    groups = (_by_hand, _generated)

    def __init__(self) -> None:
        with _lock:
            if _prepared != len(_providers):
                _prepare()
            for group in self.groups:
                group.count += 1
                if group.own:
                    group.exchange()

    def __del__(self) -> None:
        if _lock is None:  # the interpreter ends, and has taken this module apart
            return
        with _lock:
            for group in self.groups:
                group.count -= 1

    def __deepcopy__(self, memo: Any) -> Attention:
        return type(self)()

    __copy__ = __reduce__ = None  # type: ignore[assignment]


class AttentionBelow(Attention):
    """Held by who answers operators below autograd, which have arguments by the operator's schema, not as they were written."""

    __slots__ = ()
    groups = (_by_hand,)


class _Watched(weakref.ref):
    """A living tensor whose class has a `__torch_dispatch__`, and the Attention held for it."""

    __slots__ = ("attention", "key")


_watched: dict[int, _Watched] = {}  # by the address of the tensor
load: Callable[[], Any] = None  # type: ignore[assignment]  # imports what answers operators below autograd


def watch(tensor: Tensor) -> None:
    """Have public functions look out for a tensor whose class answers operators below autograd, while it lives."""
    if _answer is None:
        load()
    made = _Watched(tensor, _forget)
    made.attention, made.key = AttentionBelow(), id(tensor)
    _watched[made.key] = made


def _forget(reference: Any) -> None:
    if _watched.get(reference.key) is reference:
        del _watched[reference.key]


def is_watched(tensor: Tensor) -> bool:
    """Whether this very tensor is looked out for, by a weak reference of its own."""
    return id(tensor) in _watched


def watch_again(tensor: Tensor) -> None:
    """Look out for a tensor, or no more, now that it is of another class."""
    _watched.pop(id(tensor), None)
    if dispatching(tensor.__class__):
        watch(tensor)


def watching() -> bool:
    """Whether there are such tensors."""
    return bool(_watched)


#: How deep lists among arguments are looked through: as many levels as a tensor has dimensions, for a list may contain itself.
LEVELS = 64


def watched(values: Iterable[Any], levels: int = LEVELS) -> list[Tensor]:
    """The tensors among values and in their lists whose classes answer operators below autograd."""
    found: list[Tensor] = []
    if not local.classes_answer:
        return found
    for x in values:
        if isinstance(x, Tensor):
            if dispatching(x.__class__):
                found.append(x)
        elif isinstance(x, (tuple, list)) and levels:
            found += watched(x, levels - 1)
    return found


overrides.watch = watch
publishing.own_code = lambda function: _codes.get(function, function.__code__)
overrides.attention, overrides.looks_first = Attention, _codes.__contains__


_replaced = False  # whether a program has put a kernel in the place of one of PyTorch's


def kernels_replaced(some: bool) -> None:
    """Say whether a program has put kernels in the place of PyTorch's (dispatcher.replaced)."""
    global _replaced
    _replaced = some


def replaced() -> bool:
    """Whether operators of this thread are to be asked for such kernels."""
    return _replaced and not local.own_kernels


def anyone_answers() -> bool:
    """Whether anything may answer operators in their place, in any thread: proxies, modes, classes or kernels of a program."""
    return bool(_by_hand.count or _replaced or active.count)


class TensorMethod:
    """A method of Tensor that was called with a value that is looked out for; `__name__` is that of the method."""

    __slots__ = ("__name__", "__wrapped__")

    def __init__(self, name: str, function: Callable) -> None:
        self.__name__, self.__wrapped__ = name, function

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return self.__wrapped__(*args, **kwargs)


def plain(function: Any) -> Any:
    """A function with its own code, whatever is exchanged at the moment; it asks nobody."""
    own = _plain.get(function)
    if own is None and function in looking.LOOK_THEMSELVES:
        own = _plain[function] = looking.own_form(function, _codes.get(function, function.__code__))
    return own or function


@functools.cache
def plain_signature(function: Callable[..., Any]) -> inspect.Signature:
    """The signature that a public function has when its code is its own."""
    own = plain(function)
    while hasattr(own, "__wrapped__"):
        own = plain(own.__wrapped__)
    return inspect.signature(own)


def _prepare() -> None:
    """Make the codes that look for the functions of the providers that haven't been asked yet."""
    global _exchanging
    _exchanging = True
    try:
        while _prepared < len(_providers):
            _prepare_new()
    finally:
        _exchanging = False
    for group in (_by_hand, _generated):
        if group.count:
            group.exchange()


def _prepare_new() -> None:
    global _prepared
    if _late not in publishing.LATE:
        publishing.LATE.append(_late)
    methods = {name: f for name, f in vars(Tensor).items() if name not in NEVER_EXCHANGED and isinstance(f, FunctionType)}
    for name, function in methods.items():
        _methods.setdefault(function, []).append(name)
    asked = len(_providers)
    public = [f for functions in _providers[_prepared:asked] for f in functions() if isinstance(f, FunctionType)]
    _prepared = asked
    _public.update(public)
    for function in [*public, *methods.values()]:
        if function not in _codes:
            own = _codes[function] = function.__code__
            group = _generated if function in looking.LOOK_THEMSELVES else _by_hand
            if group is _by_hand:
                _plain[function] = twin(function)
            group.own.append((function, own, _looking(function, group)))


def _late(function: Callable) -> None:
    """Have a function look first that was declared after the others were asked for."""
    provide(lambda: [function])


def _called(function: FunctionType, args: tuple[Any, ...]) -> Any:
    """What a proxy is told of: the function, or the method of Tensor, which fx calls by its name."""
    names = _methods.get(function, ())
    if not names or function in _public or not args or not isinstance(args[0], Tensor):
        return function
    return TensorMethod(function.__name__ if function.__name__ in names else names[0], function)


# Functions that no such mode sees: they take no tensor, or only ask what a value is.
_NEVER_SEEN = frozenset(["is_tensor", "is_storage", "from_numpy", "frombuffer", "range"])

_PLACE, _FILTER = "what answers", "what cuts tracebacks"


def called_as(function: FunctionType) -> str:
    """The name of a public function, or of what a Python operator is."""
    name = function.__name__
    return OPERATORS_AS.get(name) or (name.strip("_") if name.startswith("__") else name)


def answered(function: FunctionType, own: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """What a call gives where nothing above autograd answers it: modes and classes below, fake tensors, `own` at last."""
    if local.dispatch_modes or (_watched and (watched(args) or watched(kwargs.values()))) or replaced():
        assert _answer is not None
        return _answer(function, own, args, kwargs)
    if stand_ins_in_use() is not None:
        assert _answer_of_fakes is not None
        return _answer_of_fakes(function, own, args, kwargs)
    return own(*args, **kwargs)


def _ask(function: FunctionType, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """What a function that looks by itself is answered; NOBODY if nobody does."""
    if (
        local.dispatch_modes
        or (_watched and (watched(args) or watched(kwargs.values())))
        or replaced()
        or (stand_ins_in_use() is not None)
    ):
        return answered(function, plain(function), args, kwargs)
    return looking.NOBODY


looking.ask, looking.someone = _ask, _by_hand


def _looking(function: FunctionType, group: _Exchanged) -> CodeType:
    """Code for `function` that asks first whether an argument is looked out for, and then does what its own code does."""
    code = function.__code__
    seen = vars(Tensor).get(OPERATORS_AS.get(function.__qualname__.removeprefix("Tensor."), ""), function)

    def answer(args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        if not group.count:
            group.give_back(function, code)
            return function(*args, **kwargs)
        concerned = active.count and special(None)
        if concerned and local.modes and function.__name__ not in _NEVER_SEEN:
            return dispatch_to_mode(seen, args, kwargs)
        if _generated.count:
            found: list[Any] = []
            _search(args, found)
            if kwargs:
                _search(kwargs.values(), found)
            if found and local.overrides and function not in _unconcerned:
                return dispatch(_called(function, args), args, kwargs, found)
        if observed.count:
            if local.observer is not None:
                return local.observer.called(function, plain(function), args, kwargs)
            for observer in deferring[:]:
                observer.used_elsewhere(function, args, kwargs)
        if concerned or _watched or _replaced:
            return answered(function, plain(function), args, kwargs)
        return plain(function)(*args, **kwargs)

    model, filled = _code(code.co_freevars), {_PLACE: answer, _FILTER: filter_traceback}
    return model.replace(co_name=function.__name__, co_consts=tuple(filled.get(x, x) for x in model.co_consts))


_calling: dict[tuple[str, ...], CodeType] = {}


def _code(free: tuple[str, ...]) -> CodeType:
    """The code of a function with these free variables that calls a constant with its arguments."""
    if free not in _calling:
        names = ", ".join(free)
        source = f"def outer({names}):\n    def looking(*args, **kwargs):\n"
        source += f"        if 0:\n            {names}\n" if free else ""
        source += (
            f"        answer = {_PLACE!r}\n        try:\n            return answer(args, kwargs)\n"
            f"        except Exception as error:\n            answer = {_FILTER!r}\n            answer(error)\n"
            "            raise\n    return looking\n"
        )
        namespace: dict[str, Any] = {}
        exec(compile(source, LOOKING, "exec"), namespace)
        _calling[free] = namespace["outer"](*free).__code__
    return _calling[free]


def overriding(args: Iterable[Any], kwargs: dict[str, Any]) -> list[Any]:
    """The values among arguments that answer calls in the place of public functions, such as proxies."""
    found: list[Any] = []
    if _generated.count and local.overrides:
        _search(args, found)
        _search(kwargs.values(), found)
    return found


def _search(values: Iterable[Any], found: list[Any], levels: int = LEVELS) -> None:
    """Collect the values that are looked out for, also those in lists, tuples and slices."""
    for x in values:
        if isinstance(x, (tuple, list)):
            if levels:
                _search(x, found, levels - 1)
        elif isinstance(x, _classes):
            found.append(x)
        elif x.__class__ is slice:
            _search((x.start, x.stop, x.step), found)
