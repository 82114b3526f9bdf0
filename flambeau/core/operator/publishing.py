"""Public functions: the tables of what is declared, how a function comes into the namespace and onto Tensor, and functions that
are another one under a name of their own.

Stands on core.modes.looking and core.operator.arguments; used by all that declares.
"""

from __future__ import annotations

import functools
import inspect
import linecache
from collections.abc import Callable, Iterable, Sequence
from operator import attrgetter
from types import CodeType, FunctionType
from typing import Any, Unpack

from flambeau.base.functions import twin
from flambeau.codegen.object_cache import cache
from flambeau.codegen.object_cache.digest import sha256
from flambeau.core.modes import overrides
from flambeau.core.modes.looking import LOOK_THEMSELVES, like
from flambeau.core.operator import arguments
from flambeau.core.operator.facets import Facets, Out, described
from flambeau.core.operator.methods import METHODS, OPERATORS_AS, same
from flambeau.core.operator.pointwise import signature_of
from flambeau.core.tensor.tensor import Tensor

NAMESPACE: dict[str, Callable] = {}  # public functions by name: what `import flambeau` offers
OPERATORS: dict[str, Any] = {}  # declarations by name
#: Told of functions that are declared from now on, by those who have asked for all functions that there are.
LATE: list[Callable[[Callable], None]] = []
#: Told of a declaration in whose place another of its name comes.
REPLACED: list[Callable[[Any], None]] = []


def enter(name: str, declared: Any) -> None:
    """Have a declaration be known by its name."""
    before = OPERATORS.get(name)
    OPERATORS[name] = declared
    if before is not None:
        for told in REPLACED:
            told(before)


def announce(made: Callable) -> None:
    """Tell of a declared function those who know all others already."""
    for told in LATE:
        told(made)


def compile_source(filename: str, source: str, namespace: dict[str, Any]) -> None:
    """Run generated source; it can be read and stepped through under `filename`. Bytecode is kept in the disk cache."""
    linecache.cache[filename] = (len(source), None, source.splitlines(True), filename)
    key = "code-" + sha256((filename + source).encode()).hexdigest()[:32] + ".bin"
    stored = _code.get(key)
    if stored is None:
        stored = compile(source, filename, "exec")
        _code.put(key, stored)
    exec(stored, namespace)


class _CodeCache:
    """Bytecode of generated functions, one cache file for all of them, written when something was missing."""

    def __init__(self) -> None:
        import sys

        self.name = f"derived-{sys.hexversion:x}.bin"
        stored = cache.read_object(self.name)
        self.codes: dict[str, Any] = stored if isinstance(stored, dict) else {}
        self.used: dict[str, Any] = {}
        self.changed = False

    def get(self, key: str) -> Any:
        found = self.codes.get(key)
        if not isinstance(found, CodeType):
            return None
        self.used[key] = found
        return found

    def put(self, key: str, code: Any) -> None:
        self.used[key] = self.codes[key] = code
        self.changed = True

    def save(self) -> None:
        if self.changed:
            cache.write_object(self.name, self.used)
            self.changed = False


_code = _CodeCache()
save_code = _code.save


def tuple_text(names: Iterable[str]) -> str:
    """The items of a tuple of these names, as source."""
    return "".join(f"{n}, " for n in names)


def publish(name: str, made: Callable, method: bool = True, function: bool = True, dunder: str | None = None) -> None:
    """Make a function appear as `torch.<name>`, as a method of Tensor, and as an operator of Python."""
    if function:
        NAMESPACE[name] = made
    if method:
        setattr(Tensor, name, _method(name, made) if function and METHODS else made)
    if dunder:
        setattr(Tensor, dunder, _method(dunder, made) if METHODS else made)
    announce(made)


def separate_methods() -> None:
    """Make methods that are functions of the namespace, or other methods, objects of their own."""
    taken = {id(f) for f in NAMESPACE.values()}
    for name, function in list(vars(Tensor).items()):
        if isinstance(function, FunctionType):
            if id(function) in taken:
                setattr(Tensor, name, _method(name, function))
            taken.add(id(function))


def _method(name: str, function: Any) -> Any:
    made = _object_like(function, operator_seen(name, function) if name.startswith("__") else None)
    made.__qualname__ = f"Tensor.{name}"
    made.__dict__ = function.__dict__  # what is said of the one later is said of both
    METHODS[made] = function
    return made


def operator_seen(dunder: str, function: Any) -> Callable[[], Any]:
    """What gives the function that overriding classes see of an operator of Python's."""
    return lambda: vars(Tensor).get(OPERATORS_AS.get(dunder, ""), function)


def _object_like(function: Any, seen: Any = None) -> Any:
    """The same function as an object of its own; seen() gives what overriding classes see in its place."""
    code = own_code(function)
    made = like(function, code, overrides.asked_first, seen) if function in LOOK_THEMSELVES else twin(function, code)
    made.__module__, made.__doc__, made.__annotations__ = function.__module__, function.__doc__, function.__annotations__
    return made


def inner(function: Any, seen: Callable[[], Any]) -> Any:
    """A declared function for use inside a public one of its name, `seen()`, which overriding classes see in its place."""
    made = _object_like(function, seen)
    RENAMED.append(made)
    announce(made)
    return made


_EXPLAINED = '''
def {name}({signature}):
    """{doc}"""{first}
    try:
        return implementation({call})
    except caught as error:
        if explain(error, ({values})) is None:
            raise
'''


def explained(function: Callable, first: str = "", names: dict[str, Any] | None = None) -> Callable:
    """A form of a plain function whose failures are explained by its arguments; costs a call, so not for the quickest ones.

    first: statements, with `names`, that may return the result without that call.
    """
    name, signature = function.__name__, signature_of(function)
    parts, call, scope, star = [], [], dict(names or ()), False
    for parameter in signature.parameters.values():
        if parameter.kind in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD):
            text = ("*" if parameter.kind is parameter.VAR_POSITIONAL else "**") + parameter.name
            star = True
            parts.append(text)
            call.append(text)
            continue
        if parameter.kind is parameter.KEYWORD_ONLY and not star:
            parts.append("*")
            star = True
        by_name = f"{parameter.name}={parameter.name}"
        call.append(by_name if parameter.kind is parameter.KEYWORD_ONLY else parameter.name)
        if parameter.default is parameter.empty:
            parts.append(parameter.name)
        else:
            scope[f"default_{parameter.name}"] = parameter.default
            parts.append(f"{parameter.name}=default_{parameter.name}")
    doc = (inspect.getdoc(function) or "").replace("\\", "\\\\").replace('"""', "'''")
    source = _EXPLAINED.format(
        name=name, signature=", ".join(parts), doc=doc, call=", ".join(call), first=first, values=tuple_text(signature.parameters)
    )

    def explain(error: BaseException, values: Sequence[Any]) -> Any:
        method = same(Tensor.__dict__.get(name), made)
        return arguments.explain(error, name, signature, values, method, name in NAMESPACE or not method)

    scope |= {"implementation": function, "caught": arguments.CAUGHT, "explain": explain}
    compile_source(f"<flambeau {name}>", source, scope)
    made = scope[name]
    made.__module__ = function.__module__
    made.__annotations__ = function.__annotations__
    made.__signature__ = signature
    return made


def _signature_of_own(function: Any) -> Callable[[], inspect.Signature]:
    """What gives a function's signature, also while its code is exchanged for one that looks at calls first."""
    code = function.__code__

    @functools.cache
    def signature() -> inspect.Signature:
        if function.__code__ is code:
            return signature_of(function)
        own = twin(function, code)
        own.__annotations__ = function.__annotations__
        return inspect.signature(own)

    return signature


def public(
    function: Callable | None = None,
    *,
    names: tuple[str, ...] = (),
    method: bool = True,
    namespace: bool = True,
    out: bool | Out = True,
    **facets: Unpack[Facets],
) -> Any:
    """Offer a plain function, under its own name and `names`, as `torch.<name>` and as a method of Tensor."""
    if function is None:
        return lambda given: public(given, names=names, method=method, namespace=namespace, out=out, **facets)
    described(out, **facets)(function)
    arguments.PUBLIC[function.__code__] = (function.__name__, _signature_of_own(function), method, namespace)
    for name in (function.__name__, *names):
        publish(name, function, method, namespace)
    return function


#: Functions that are objects of their own, but do what another does.
RENAMED: list[FunctionType] = []
#: The code that a public function has while nobody looks at calls; core.modes.interception knows of others.
own_code: Callable[[Any], CodeType] = attrgetter("__code__")


def renamed(function: Any, name: str) -> Any:
    """The same function as an object of its own under another name, which graphs and tables of functions tell from the first."""
    made = _object_like(function)
    made.__name__ = made.__qualname__ = name
    RENAMED.append(made)
    announce(made)
    return made


def alias(name: str, of: str) -> None:
    """Publish an operator, and its in-place form, under a second name wherever it has its first."""
    for old, new in ((of, name), (of + "_", name + "_")):
        first = NAMESPACE.get(old) or METHODS.get(Tensor.__dict__.get(old), Tensor.__dict__.get(old))  # type: ignore[arg-type]
        if first is not None:
            publish(new, renamed(first, new), method=old in Tensor.__dict__, function=old in NAMESPACE)
