"""Declarations of operators that are no scalar bodies: `@operator` (an implementation and its derivative) and `@composite`
(a body in other operators).

From the implementation's signature a public function is generated that hands subclasses and special modes on, records a
node when an argument requires grad, and accepts `out=`. Rules (`@function.vjp`) are written in differentiable operators;
the names of their parameters say what is saved. Stands on core.operator.opdef and core.operator.variants; used by
flambeau.ops.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Sequence
from types import BuiltinFunctionType
from typing import Any, Unpack

from flambeau.base.layout import register_cache
from flambeau.base.naming import PACKAGE
from flambeau.base.tracebacks import api_boundary, filter_traceback
from flambeau.codegen.runtime.messages import KernelCheck
from flambeau.core.autograd import inplace as rewiring
from flambeau.core.autograd.node import one_step, rename
from flambeau.core.autograd.node_codegen import WRITTEN
from flambeau.core.modes import modes, overrides
from flambeau.core.modes.autocast import autocasting, cast_arguments
from flambeau.core.modes.looking import LOOK_THEMSELVES, Call, looking
from flambeau.core.operator import arguments, deprecated_overloads
from flambeau.core.operator.annotations import Declare
from flambeau.core.operator.facets import Facets
from flambeau.core.operator.opdef import LISTS, TENSOR, TENSORS, Operator
from flambeau.core.operator.out_argument import convertible, copy_into, deliver, donated, leave_fitted, resize
from flambeau.core.operator.out_rules import Out, check_dim, check_early, refuse_graph
from flambeau.core.operator.pointwise import signature_of
from flambeau.core.operator.publishing import compile_source, enter, publish
from flambeau.core.operator.specialization import keepable, kept_key, key_function, signature_text
from flambeau.core.tensor import lazy_conjugate
from flambeau.core.tensor.tensor import Tensor, tensor_from
from flambeau.core.tensor.without_data import abstract_first

_SOURCE = '''
def {name}({signature}):
    """{doc}"""
    try:
{aliases}{kept}        if active.count and special(None) or {surplus}{unlike}:
            {refuse}return general({arguments_tuple}, {{{keyword_dict}}}{out_argument})
{unsuited}{out_code}{recorded}        return implementation({arguments})
{kernel_error}    except caught as error:
        answer = explain(error, values=({in_order},))
        if answer is None:
            raise
        return answer
'''
# A call of an operator that wants a gradient; one of a composite is a call of its parts.
_RECORDED = """        if {wanted} and local.grad:
            local.grad = False
            try:
                result = implementation({arguments})
            finally:
                local.grad = True
            record(({in_order},), result)
            return result
"""
# A call whose plan is kept, in the public function; and the implementation that makes plans and keeps them.
_KEPT = """        try:
            launch = kept[{key},]
        except (KeyError, AttributeError, TypeError):
            pass
        else:
            if not (active.count and special(None)){plain}{suited}:
                if not ({wanted} and local.grad):
                    return launch(None, {tensors})
"""
_KEPT_RECORDED = """                result = launch(None, {tensors})
                record(({in_order},), result)
                return result
"""
KERNEL_ERROR = """    except KernelCheck:
        raise declared.kernel_error({in_order}) from None
"""
# A call with `out`, which the result goes to at once if that of such a call was found to be like it.
_OUT = """        if out is not None:
            try:
                fits = fitting[{key}, out._layout]
            except (KeyError, AttributeError, TypeError):
                fits = None
            if fits and not ({wanted}) and out._node is None and not ({shared}):
                return {at_once}
            return write_out({arguments_tuple}, {{{keyword_dict}}}, out)
"""
_PLANNER = """
def implementation({signature}):
    try:
        launch = kept[{key},]
    except (KeyError, AttributeError, TypeError):
        launch = None
    if launch is None:
        launch = plan({call})
        if isinstance(launch, Tensor):
            return launch
        key = ({key},)
        if keepable(key):
            kept[key] = launch
    try:
        return launch(None, {tensors})
    except KernelCheck:
        raise declared.kernel_error({in_order}) from None
"""


def _aliases(function: Callable) -> tuple[dict[str, str], str]:
    """NumPy's names that PyTorch takes too ({axis: dim, keepdims: keepdim}), and the code that translates them."""
    parameters = signature_of(function).parameters
    names = {"axis": "dim"} if "dim" in parameters else {}
    if not names:
        return {}, ""
    code = "        if axis is not None:\n            dim = axis\n"
    if "keepdim" in parameters:
        names["keepdims"] = "keepdim"
        code += "        if keepdims is not None:\n            keepdim = keepdims\n"
    return names, code


def operator(
    method: bool = True,
    function: bool = True,
    inplace: bool | str | Callable = False,
    out: bool | Out = False,
    node: str | None = None,
    name: str | None = None,
    dunder: str | None = None,
    differentiable: int | None = None,
    planned: bool = False,
    real_gradients: str | None = None,
    abstract: Callable | None = None,
    **facets: Unpack[Facets],
) -> Declare:
    """Declare an operator by its implementation, which runs without recording and returns fresh tensors.

    method, function: where it appears; inplace: also the method `name_`, which writes the result into the first argument (a
    function of the arguments does that directly, or returns False where it can't; "function": in the namespace too); out: accept
    `out=`
    (a tensor, or a tuple of them for several results); node: the name of its graph node, or a function of the arguments
    that gives it;
    dunder: the Python operator's method; differentiable: how many of several results, from the first, take part in the graph;
    real_gradients: PyTorch's name of an operator that refuses to record calls with complex results.
    planned: the implementation returns a launcher, `launch(None, *tensors)`, which is kept under the layouts of the tensors and
    the values of the other arguments and serves all calls like this one (or the result itself, of a call that can't be kept);
    `@made.kernel_error` gives the exception for the bad data that its kernels may find.
    abstract: of an implementation that is no plan, a function of the same arguments that checks them and gives the layouts of the
    results, which is all that is computed on the meta device.
    """

    def declare(implementation: Callable) -> Callable:
        public = name or implementation.__name__
        computed = implementation if abstract is None else abstract_first(implementation, abstract)
        declared = Operator(public, computed, node, out, **facets)
        declared.differentiable, declared.real_gradients = differentiable, real_gradients
        if planned:
            _plan_and_keep(declared)
        made: Any = _generate(declared, bool(out), method, function)
        publish(public, made, method, function, dunder)
        if inplace:
            writer = inplace if callable(inplace) else None
            declared.in_place = _inplace_variant(declared, public, writer)
            publish(public + "_", declared.in_place, method, inplace == "function")

        def vjp(rule: Callable) -> Callable:
            declared.rule, declared.rule_names = rule, tuple(signature_of(rule).parameters)
            return rule

        def kernel_error(exception: Callable) -> Callable:
            declared.kernel_error = exception
            return exception

        made.vjp, made.kernel_error = vjp, kernel_error
        return made

    return declare


def _plan_and_keep(declared: Operator) -> None:
    """Have the implementation, which plans, keep what it made and run it."""
    plan = declared.implementation
    declared.kept = register_cache({})
    signature, call, _, _ = signature_text(plan, False, {})
    key, tensors = kept_key(declared)
    scope: dict[str, Any] = {
        "plan": plan,
        "kept": declared.kept,
        "keepable": keepable,
        "Tensor": Tensor,
        "KernelCheck": KernelCheck,
        "declared": declared,
        "MISSING": arguments.MISSING,
    }
    compile_source(
        f"<flambeau plan {declared.name}>",
        _PLANNER.format(signature=signature, call=call, key=key, tensors=tensors, in_order=", ".join(declared.parameters)),
        scope,
    )
    declared.implementation = functools.wraps(plan)(scope["implementation"])


def _plan_afterwards(declared: Operator, planned: Callable) -> None:
    """Have the body of a composite followed by the making of a plan, which is kept and will serve such calls."""
    body, signature = declared.implementation, declared.signature
    kept = declared.kept = register_cache({})
    key_of = key_function(declared)

    @functools.wraps(body)
    def implementation(*args: Any, **kwargs: Any) -> Any:
        result = body(*args, **kwargs)
        if not modes.active.count and result._node is None:
            try:
                key = key_of(*args, **kwargs)
                known = key in kept
            except (AttributeError, TypeError):
                return result
            if not known and keepable(key):
                kept[key] = planned(*args, **kwargs)
        return result

    implementation.__signature__ = signature  # type: ignore[attr-defined]
    declared.implementation = implementation


class Texts:
    """What the generated functions of both kinds are filled with, from the implementation's signature."""

    def __init__(self, declared: Operator, out: bool) -> None:
        self.out = out
        implementation, parameters = declared.implementation, declared.signature.parameters
        aliases, alias_code = _aliases(implementation)
        signature, self.call, self.positional, self.keywords = signature_text(implementation, out, aliases)
        self.tensors = [n for n in declared.tensors if declared.kinds[n] == TENSOR]
        self.lists = lists = [n for n in declared.tensors if declared.kinds[n] == TENSORS]
        checks = [f"({n}.__class__ is not Tensor and {n}.__class__ not in plain)" for n in self.tensors]
        checks += [f"unusual_list({n})" for n in lists]
        if not declared.composite:  # its kernels read memory as it is
            checks += [_pending(n, parameters[n]) for n in self.tensors] + [f"pending_list({n})" for n in lists]
        self.wanted = [_wanted(n, parameters[n]) for n in self.tensors] + [f"any_node({n})" for n in lists]
        self.shared = (
            " or ".join(
                [
                    *(f"{n}.__class__ not in LISTS" for n in lists),
                    *(f"getattr({n}, '_storage', None) is out._storage" for n in self.tensors),
                    *(f"any([x._storage is out._storage for x in {n}])" for n in lists),
                ]
            )
            or "False"
        )
        doc = (inspect.getdoc(implementation) or "").replace('"""', "'''").replace("\\", "\\\\")
        varied = [f"*{n}" for n, p in parameters.items() if p.kind is p.VAR_POSITIONAL]
        self.fields = {
            "name": declared.name,
            "signature": signature,
            "doc": doc,
            "aliases": alias_code,
            "unlike": " or ".join(checks) or "False",
            "arguments": self.call,
            "arguments_tuple": "[" + ", ".join([*self.positional, *varied]) + "]",
            "keyword_dict": ", ".join(f"{k!r}: {k}" for k in self.keywords),
            "out_argument": ", out" if out else ", None",
            "in_order": ", ".join(declared.parameters),
        }
        star = "*surplus" in signature
        self.suits, tests, unsuited = arguments.suiting(declared.name, parameters)
        self.suited = "".join(f" and {test}" for test in tests)
        self.fields["unsuited"] = unsuited
        # what a kept plan serves
        self.plain = " and out is None" * out + " and not surplus" * star + "".join(f" and {n}.__class__ in LISTS" for n in lists)
        answer = f"with_surplus(({self.fields['in_order']},), surplus{', out' * out})"
        refuse = f"if surplus:\n                return {answer}\n            "
        self.fields |= {"surplus": "surplus or " if star else "", "refuse": refuse if star else ""}

    def made(self, declared: Operator, scope: dict[str, Any], method: bool, function: bool, **more: str) -> Callable:
        """The public function that the template gives with these texts and `more`, in `scope`."""
        name, signature = declared.name, declared.signature

        def with_surplus(values: Sequence[Any], surplus: Sequence[Any], out: Any = None) -> Any:
            """The answer to a call with too many arguments, if it is one of a deprecated overload; else TypeError."""
            positions = sum(p.kind is p.POSITIONAL_OR_KEYWORD for p in signature.parameters.values())
            given = (*values[:positions], *surplus)
            named = {} if out is None else {"out": out}
            answer = deprecated_overloads.call(declared.public, name, signature.parameters, given, named)
            if answer is None:
                arguments.raise_surplus(name, signature, values, surplus, method, function)
            return answer

        scope |= {**self.suits, "Tensor": Tensor, "LISTS": LISTS, "pending_list": _pending_list}
        scope |= {
            "active": modes.active,
            "special": modes.special,
            "plain": overrides.PLAIN,
            "implementation": declared.implementation,
            "unusual_list": _unusual_list,
            "MISSING": arguments.MISSING,
            "caught": arguments.CAUGHT,
            "with_surplus": with_surplus,
            "explain": functools.partial(arguments.explain, name=name, signature=signature, method=method, function=function),
        }
        out_code = ""
        if self.out:
            key, tensors = kept_key(declared)
            out_code = _OUT.format(
                key=key,
                wanted=" or ".join(self.wanted) or "False",
                shared=self.shared,
                **self.fields,
                at_once=f"donated(out, implementation, {self.call})"
                if declared.kept is None
                else f"donated(out, implementation, {self.call}) if fits is True else fits(out, {tensors})",
            )
            scope["donated"] = donated
        compile_source(f"<flambeau {name}>", _SOURCE.format(**self.fields, **more, out_code=out_code), scope)
        made = scope[name]
        made.__module__ = PACKAGE
        made.operator = declared
        declared.public, declared.published = made, method or function
        enter(name, declared)
        LOOK_THEMSELVES.add(made)
        return made


def _wanted(name: str, parameter: inspect.Parameter) -> str:
    """The text that asks whether a tensor parameter wants a gradient."""
    annotation = str(parameter.annotation)
    if "Operand" in annotation:
        return f"getattr({name}, '_node', None) is not None"
    if parameter.default is None or "None" in annotation:
        return f"({name} is not None and {name}._node is not None)"
    return f"{name}._node is not None"


def _pending(name: str, parameter: inspect.Parameter) -> str:
    """The text that asks whether a tensor parameter was given a conjugate or negative view."""
    annotation = str(parameter.annotation)
    if "Operand" in annotation or parameter.default is None or "None" in annotation:
        return f"({name}.__class__ is Tensor and {name}._layout.pending)"
    return f"{name}._layout.pending"


def _pending_list(tensors: Any) -> bool:
    return tensors is not None and any([x is not None and x._layout.pending for x in tensors])


def _generate(declared: Operator, out: bool, method: bool, function: bool) -> Callable:
    """The public function of an operator of either kind."""
    implementation, texts = declared.implementation, Texts(declared, out)
    parameters, positional = declared.signature.parameters, texts.positional
    public = declared.name

    def general(given: list, named: dict, out_tensor: Any) -> Any:
        answer = _answered(declared, given, named, out_tensor)
        if answer is not UNANSWERED:
            return answer
        casts = autocasting(declared) if declared.composite else modes.local.autocast_enabled.get("cpu")
        if casts and modes.active.count and out_tensor is None:
            with cast_arguments(declared, given, named) as (given, named):
                return unmodified(given, named, None)
        return unmodified(given, named, out_tensor)

    def unmodified(given: list, named: dict, out_tensor: Any) -> Any:
        if declared.composite:
            return implementation(*given, **named) if out_tensor is None else write_out(given, named, out_tensor)
        for at, (n, x) in enumerate(zip(positional, given), 1):
            annotation = str(parameters[n].annotation)
            if declared.kinds[n] == TENSOR and not (
                isinstance(x, Tensor) or "Operand" in annotation or (x is None and "None" in annotation)
            ):
                raise TypeError(f"{public}(): argument '{n}' (position {at}) must be Tensor, not {type(x).__name__}")
        if out_tensor is not None:
            return write_out(given, named, out_tensor)
        if lazy_conjugate.any_pending(given) or lazy_conjugate.any_pending(named.values()):
            return on_copies(given, named)
        if modes.local.grad and any(x._node is not None for x in _flat_tensors(declared, given, named)):
            modes.local.grad = False
            try:
                result = implementation(*given, **named)
            finally:
                modes.local.grad = True
            declared.record([*given, *named.values()], result)
            return result
        return implementation(*given, **named)

    def on_copies(given: list, named: dict) -> Any:
        """A call with conjugate or negative views: they are what is recorded."""
        recording = modes.local.grad and any(x._node is not None for x in _flat_tensors(declared, given, named))
        before, modes.local.grad = modes.local.grad, False
        try:
            result = lazy_conjugate.resolving(implementation)(*given, **named)
        finally:
            modes.local.grad = before
        if recording:
            declared.record([*given, *named.values()], result)
        return result

    in_order = tuple(parameters[n] for n in positional)

    def call_of(given: Sequence[Any], named: dict[str, Any], out_tensor: Any) -> Call | None:
        """The call as the program could have written it."""
        if len(given) > len(in_order):  # with what a parameter takes that takes any number
            call = tuple(given), {}
        else:
            call = arguments.as_given(in_order, given)
            if call is None:
                return None
        keywords = {n: x for n, x in named.items() if not arguments.left_out(parameters[n], x)}
        return declared.public, call[0], call[1] | keywords | ({} if out_tensor is None else {"out": out_tensor})

    fitting: dict[Any, Any] = register_cache({})
    write_out = _writing(declared, implementation if declared.composite else lazy_conjugate.resolving(implementation), fitting)
    wanted = "(" + (" or ".join(texts.wanted) or "False") + ")"
    scope = {
        "local": modes.local,
        "general": looking(general, call_of),
        "record": declared.record,
        "write_out": looking(write_out, call_of),
        "any_node": _any_node,
        "fitting": fitting,
    }
    kept = kernel_error = recorded = ""
    if not declared.composite:
        recorded = _RECORDED.format(wanted=wanted, **texts.fields)
    if declared.kept is not None:
        key, tensors = kept_key(declared)
        kept = _KEPT if declared.composite else _KEPT + _KEPT_RECORDED
        plain = texts.plain + " and launch is not None" * declared.composite
        kept = kept.format(key=key, plain=plain, suited=texts.suited, tensors=tensors, wanted=wanted, **texts.fields)
        scope |= {"kept": declared.kept, "KernelCheck": KernelCheck, "declared": declared}
        if not declared.composite:
            kernel_error = KERNEL_ERROR.format(**texts.fields)
    return texts.made(declared, scope, method, function, recorded=recorded, kept=kept, kernel_error=kernel_error)


def _writing(declared: Operator, implementation: Callable, fitting: dict[Any, Any]) -> Callable:
    """What serves calls with `out=`: write(positional arguments, those by name, out).

    Of a call whose result is found to be like its `out` it notes in `fitting` what later ones do at once: the kept plan, if that
    is but a launch, or True. Kernels that may refuse what they find have their result copied: they would have written some of it.
    """
    refuses = declared.name.startswith("linalg_")

    def copying(launch: Callable) -> Callable:
        return lambda out, *tensors: out.copy_(launch(None, *tensors))

    def write(given: Sequence[Any], named: dict[str, Any], out: Any) -> Any:
        check_dim(declared, given, out)
        check_early(declared, out, lambda: _as_written(declared, given, named))
        try:
            result = implementation(*given, **named)
        except arguments.CAUGHT as error:
            if not isinstance(error, TypeError):
                outs = out if isinstance(out, (tuple, list)) else (out,)
                refuse_graph(declared, _flat_tensors(declared, given, named), outs)
                leave_fitted(declared, error, implementation, given, named, out)
            raise
        tensors, as_written = _flat_tensors(declared, given, named), _as_written(declared, given, named)
        written = deliver(out, result, declared, tensors, as_written)
        if written.__class__ is Tensor and result._layout is out._layout and not (modes.active.count or refuses):
            try:
                key = key_function(declared)(*given, **named)
            except (AttributeError, TypeError):
                return written
            if keepable((*key, out._layout)):
                launch = None if declared.kept is None else declared.kept.get(key)
                if declared.kernel_error is not None:
                    fitting[*key, out._layout] = launch and copying(launch)
                else:
                    fitting[*key, out._layout] = launch if isinstance(launch, BuiltinFunctionType) else True
        return written

    return write


UNANSWERED = object()


def _as_written(declared: Operator, given: Sequence[Any], named: dict[str, Any]) -> list[Any]:
    """The arguments of a call that are not left at their defaults."""
    parameters = declared.signature.parameters
    values = dict(zip(parameters, given)) | named
    return [x for n, x in values.items() if not arguments.left_out(parameters[n], x)]


def _answered(declared: Operator, given: list, named: dict, out: Any) -> Any:
    """What an overriding class answers to a call; UNANSWERED where there is none."""
    asked = overrides.overriding_arguments([*given, *named.values(), out])
    if not asked:
        return UNANSWERED
    parameters = declared.signature.parameters
    positional = list(zip(parameters.values(), given)) if len(given) <= len(parameters) else []
    while positional and positional[-1][1] is positional[-1][0].default:
        positional.pop()
    arguments = tuple(x for _, x in positional) if positional else tuple(given)
    keywords = {n: x for n, x in named.items() if x is not parameters[n].default}
    if out is not None:
        keywords["out"] = out
    return overrides.dispatch(declared.public, arguments, keywords, asked)


def _flat_tensors(declared: Operator, given: Sequence[Any], named: dict[str, Any]):
    for n, x in [*zip(declared.parameters, given), *named.items()]:
        if isinstance(x, Tensor):
            yield x
        elif declared.kinds.get(n) == TENSORS and x is not None:
            yield from (y for y in x if isinstance(y, Tensor))


def _any_node(tensors: Any) -> bool:
    return tensors is not None and any([x is not None and x._node is not None for x in tensors])


def _unusual_list(tensors: Any) -> bool:
    return tensors is not None and (isinstance(tensors, Tensor) or any([x.__class__ not in overrides.PLAIN for x in tensors]))


def _inplace_variant(declared: Operator, public: str, writer: Callable | None) -> Callable:
    """`name_`: compute, then write into the first argument, which takes the place of the result in the graph.

    writer(*arguments): writes the result there directly; or does not, and says so by False.
    """
    parameters = declared.signature.parameters.values()
    defaults = [p.default for p in parameters]
    required = sum(default is inspect.Parameter.empty for default in defaults)
    named = [p.name for p in parameters if p.kind is p.KEYWORD_ONLY]
    positions = len(defaults) - len(named)
    name = public + "_"
    aliases = _aliases(declared.implementation)[0]

    def inplace(self: Tensor, *args: Any, **kwargs: Any) -> Tensor:
        if kwargs or not required <= len(args) + 1 <= positions:
            given = bound(self, args, kwargs)
        else:
            given = [self, *args, *defaults[len(args) + 1 :]]
        try:
            return written(given, args, kwargs)
        except arguments.CAUGHT as error:
            failed(error, self, given)
            raise

    @api_boundary
    def failed(error: BaseException, self: Tensor, given: list[Any]) -> None:
        """Raise what PyTorch raises where its words for a failure are others."""
        arguments.explain(error, name, declared.signature, given, True, False)
        rewiring.refuse_leaf(self)

    @api_boundary
    def bound(self: Tensor, args: tuple, kwargs: dict[str, Any]) -> list[Any]:
        """The arguments of a call that gives some by name, or leaves some out; TypeError if it doesn't fit."""
        kwargs = {aliases.get(key, key): value for key, value in kwargs.items()}
        try:
            found = declared.signature.bind(self, *args, **kwargs)
        except TypeError as error:
            given = [self, *args, *[arguments.MISSING if x is inspect.Parameter.empty else x for x in defaults[len(args) + 1 :]]]
            if len(given) > positions:
                old = deprecated_overloads.translated(name, declared.parameters, (self, *args), kwargs, in_place=True)
                if old is not None:
                    return bound(old[0][0], tuple(old[0][1:]), old[1])
            if not kwargs and len(given) > len(defaults):
                arguments.raise_surplus(name, declared.signature, given[:positions], given[positions:], True, False)
            if not kwargs:
                arguments.explain(error, name, declared.signature, given, True, False)
            raise
        found.apply_defaults()
        return list(found.arguments.values())

    def written(given: list[Any], args: tuple, kwargs: dict[str, Any]) -> Tensor:
        self = given[0]
        tensors = list(_flat_tensors(declared, given, {}))
        if overrides.any_override(tensors):
            return overrides.dispatch(inplace, [self, *args], kwargs, tensors)
        recording = modes.local.grad and any(x._node is not None for x in tensors)
        if recording:
            rewiring.check(self)
        before = modes.local.grad
        modes.local.grad = False
        try:
            saved_self = tensor_from(self._storage, self._offset, self._layout)
            if recording and declared.parameters[0] in declared.rule_names:
                saved_self = self.clone()
                saved_self._node, saved_self._index = self._node, self._index
            resolve = lazy_conjugate.any_pending(given)
            if resolve or writer is None or not writer(*given):
                compute = lazy_conjugate.resolving(declared.implementation) if resolve else declared.implementation
                result = compute(*given[:positions], **dict(zip(named, given[positions:])))
                if tuple(result._layout.shape) != tuple(self._layout.shape):
                    raise RuntimeError(
                        f"Bad in-place call: input tensor size {list(self._layout.shape)} and output tensor size "
                        f"{list(result._layout.shape)} should match"
                    )
                copy_into(self, result)
        finally:
            modes.local.grad = before
        if recording:
            edge_self = (self._node, self._index)
            saved_self._node, saved_self._index = edge_self
            alias = tensor_from(self._storage, self._offset, self._layout)
            alias._index = WRITTEN
            node = declared.record([saved_self, *given[1:]], alias)
            del alias, saved_self  # a live alias has `rebase` look for views
            rewiring.rebase(self, node)
        return self

    inplace.__name__ = inplace.__qualname__ = name
    inplace.__module__, inplace.__signature__ = PACKAGE, declared.signature  # type: ignore[attr-defined]
    inplace.__doc__ = f"In-place version of {public}()."
    return inplace


def composite(
    method: bool = True,
    function: bool = True,
    inplace: bool | str = False,
    out: bool | Out = False,
    name: str | None = None,
    dunder: str | None = None,
    node: str | None = None,
    planned: Callable | None = None,
    resizes: bool = False,
    **facets: Unpack[Facets],
) -> Declare:
    """Declare an operator whose body is written in other operators; its derivative is theirs. inplace: also as a method
    `name_` ("function": in the namespace too), which gives the tensor the result's shape if it `resizes`; node: the name of
    its last step, where PyTorch takes but one.

    planned(*arguments of a call that has gone well): a launcher that does the same in one, `launch(None, *tensors)`, or None.
    It is kept and serves calls like this one while no gradient is wanted.
    """

    def declare(implementation: Callable) -> Callable:
        if node is not None:
            implementation = one_step(node)(implementation)
        public = name or implementation.__name__
        declared = Operator(public, implementation, None, out, **facets)
        declared.composite = True
        if planned is not None:
            _plan_afterwards(declared, planned)
        made: Any = _generate(declared, bool(out), method, function)
        publish(public, made, method, function, dunder)
        if inplace:

            def in_place(self: Tensor, *args: Any, **kwargs: Any) -> Tensor:
                source = self.clone() if self._node is not None and modes.local.grad else self  # the rules may save it
                try:
                    result = made(source, *args, **kwargs)
                    convertible(result._layout.dtype, self._layout.dtype)
                    if resizes:
                        resize(self, result._layout.shape)
                    self.copy_(result)
                except Exception as error:
                    filter_traceback(error)
                    raise
                if result._node is not None and type(self._node).__name__ == "CopyBackwards":
                    rename(self._node, type(result._node).__name__)
                return self

            in_place.__name__ = in_place.__qualname__ = public + "_"
            in_place.__module__, in_place.__signature__ = PACKAGE, declared.signature  # type: ignore[attr-defined]
            in_place.__doc__ = f"In-place version of {public}()."
            declared.in_place = in_place
            publish(public + "_", in_place, method, inplace == "function")
        return made

    return declare
