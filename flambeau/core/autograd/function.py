"""`autograd.Function`: operators whose forward and backward the user writes.

The context a forward fills in and the node in the graph are two objects, so that no attribute a user invents can
disturb the engine; the node shows the context's attributes. Stands on node, inplace and modes.
"""

from __future__ import annotations

import functools
import inspect
import warnings
import weakref
from collections.abc import Callable, Sequence
from typing import Any

from flambeau.base.layout import Layout
from flambeau.base.naming import public_module
from flambeau.base.warn import warn
from flambeau.core.autograd import inplace, mutation_guard
from flambeau.core.autograd.node import FREED, NO_EDGE, AccumulateGrad, MultiNode, Node
from flambeau.core.autograd.saved_tensors import SavedTensor
from flambeau.core.modes.modes import local, no_grad, observed
from flambeau.core.operator import view
from flambeau.core.tensor.delegate import values_of
from flambeau.core.tensor.tensor import Tensor, empty_layout, tensor_from

__all__ = ["BackwardCFunction", "Function", "FunctionCtx", "FunctionNode", "once_differentiable"]


class FunctionCtx:
    """What a Function's forward leaves for its backward: saved tensors, marks, and any attribute of the user's."""

    __module__ = public_module("autograd.function")
    needs_input_grad: tuple[bool, ...] = ()
    materialize_grads: bool = True
    to_save: tuple[Any, ...] = ()
    saved_for_forward: tuple[Any, ...] = ()
    dirty_tensors: tuple[Any, ...] = ()
    non_differentiable: tuple[Any, ...] = ()
    _materialize_non_diff_grads: bool = True
    _reference: Callable[[], Node | None] | None = None

    def save_for_backward(self, *tensors: Any) -> None:
        """Keep tensors (inputs, outputs, others, or None) for `saved_tensors` in backward; call it once."""
        self.to_save = tensors

    def save_for_forward(self, *tensors: Any) -> None:
        """Keep tensors for `saved_tensors` in jvp."""
        for tensor in tensors:
            if not (isinstance(tensor, Tensor) or tensor is None):
                raise AssertionError(
                    "save_for_forward expects all arguments to be tensors; you should save non-tensors as attributes on ctx."
                )
        self.saved_for_forward = tensors

    def mark_dirty(self, *args: Any) -> None:
        """Say which inputs forward wrote to; they must be among the outputs."""
        self.dirty_tensors = args

    def mark_non_differentiable(self, *args: Any) -> None:
        """Say which outputs need no gradient."""
        self.non_differentiable = args

    def set_materialize_grads(self, value: bool) -> None:
        """Whether backward gets zeros (True, the default) or None for outputs nobody used."""
        self.materialize_grads = value

    @property
    def saved_tensors(self) -> tuple[Any, ...]:
        """The tensors given to save_for_backward. Raises RuntimeError when they were freed or overwritten."""
        node = self._reference() if self._reference is not None else None
        if node is None:
            return self.to_save
        return node.saved_tensors  # type: ignore[attr-defined, no-any-return]

    @property
    def saved_variables(self) -> tuple[Any, ...]:
        """The deprecated name of saved_tensors."""
        warnings.warn("'saved_variables' is deprecated; use 'saved_tensors'", DeprecationWarning, stacklevel=2)
        return self.saved_tensors


class BackwardCFunction(FunctionCtx):
    """The context of a call: FunctionCtx with the face of the graph's node, to which it leads while the call is in the graph."""

    __module__ = public_module("autograd.function")
    _forward_cls: type[Function]

    def _node(self) -> Node | None:
        return self._reference() if self._reference is not None else None

    def name(self) -> str:
        """The node's name, "MyFunctionBackward"."""
        return type(self).__name__

    @property
    def next_functions(self) -> tuple[Any, ...]:
        """The node's edges."""
        node = self._node()
        return () if node is None else node.next_functions

    @property
    def metadata(self) -> dict[Any, Any]:
        """A dict for the user's notes, the node's."""
        node = self._node()
        return {} if node is None else node.metadata


class FunctionNode(MultiNode):
    """The graph's node of a call of a Function."""

    __slots__ = ("context", "function", "layouts", "origins", "variables")

    runs_without = True  # its backward gets zeros, or sees None
    #: The Function; the user's context; per output its layout, None if it gets no zeros; per saved tensor which output it is
    #: (or None); which arguments were tensors.
    function: type[Function]
    context: FunctionCtx
    layouts: tuple[Any, ...]
    origins: tuple[int | None, ...]
    variables: tuple[bool, ...]

    def name(self) -> str:
        return type(self.context).__name__

    @property
    def saved_tensors(self) -> tuple[Any, ...]:
        """The saved tensors, outputs among them joined to the graph again."""
        if self.saved is None:
            raise RuntimeError(FREED)
        values = self.unpack()
        return tuple(
            value if origin is None else self.attach(value, origin) for value, origin in zip(values, self.origins, strict=True)
        )

    @property
    def _raw_saved_tensors(self) -> tuple[SavedTensor, ...]:
        """The saved tensors as the node keeps them."""
        if self.saved is None:
            raise RuntimeError(FREED)
        return tuple(SavedTensor(self, position) for position in range(len(self.saved)))

    def apply(self, gradients: Sequence[Any]) -> tuple[Any, ...]:
        context = self.context
        given = list(gradients)
        if context.materialize_grads:
            for index, gradient in enumerate(given):
                layout = self.layouts[index]
                if gradient is None and layout is not None:
                    given[index] = _zeros(layout.dense(), gradients)
        function = self.function
        if function.backward is not Function.backward and function.vjp is not Function.vjp:
            raise RuntimeError(
                "Implementing both 'backward' and 'vjp' for a custom Function is not allowed. You should only "
                "implement one of them."
            )
        rule = function.vjp if function.vjp is not Function.vjp else function.backward
        results = rule(context, *given)
        if not isinstance(results, (tuple, list)):
            results = (results,)
        return self._for_edges(tuple(results))

    def _for_edges(self, results: tuple[Any, ...]) -> tuple[Any, ...]:
        """One gradient per tensor argument from what backward returned for all arguments."""
        expected = len(self.variables)
        if len(results) > expected and all(result is None for result in results[expected:]):
            results = results[:expected]
        if len(results) != expected:
            raise RuntimeError(
                f"function {self.name()} returned an incorrect number of gradients (expected {expected}, got {len(results)})"
            )
        chosen: list[Any] = []
        for position, (result, variable) in enumerate(zip(results, self.variables, strict=True)):
            if not variable:
                if result is not None:
                    raise RuntimeError(
                        f"function {self.name()} returned a gradient different than None at position "
                        f"{position + 1}, but the corresponding forward input was not a Variable"
                    )
            else:
                if result is not None and not isinstance(result, Tensor):
                    raise RuntimeError(f"expected Variable or None (got {type(result).__name__})")
                chosen.append(result)
        return tuple(chosen)

    __call__ = None  # unlike the steps of operators

    def __getattr__(self, name: str) -> Any:
        private = name.startswith("_") and name not in ("_forward_cls", "_materialize_non_diff_grads")
        if private or name in FunctionNode.__slots__:
            raise AttributeError(f"'{type(self).__name__}' object has no attribute '{name}'")
        return getattr(self.context, name)

    def __repr__(self) -> str:
        return f"<{type(self).__module__}.{self.name()} object at {id(self):#x}>"


class Function:
    """Base of user-written operators: subclass it with static methods `forward` and `backward`, call it with `apply`.

    forward(ctx, *args) computes, and keeps what backward needs in ctx; or forward(*args) with
    setup_context(ctx, inputs, output). backward(ctx, *gradients of the outputs) returns one gradient (or None) per
    argument of forward.
    """

    __module__ = public_module("autograd.function")
    generate_vmap_rule = False
    _backward_cls: type[FunctionNode]  # of the node in the graph
    _context_cls: type[BackwardCFunction]  # of what forward and backward get as ctx

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        warnings.warn(
            f"{type(self)} should not be instantiated. Methods on autograd functions are all static, so you "
            "should invoke them on the class itself. Instantiating an autograd function will raise an error "
            "in a future version of PyTorch.",
            DeprecationWarning,
            stacklevel=2,
        )

    def __init_subclass__(cls, **keywords: Any) -> None:
        super().__init_subclass__(**keywords)
        cls._context_cls, cls._backward_cls = _classes_of(cls, f"{cls.__name__}Backward")

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        raise RuntimeError(
            "Legacy autograd function with non-static forward method is deprecated. Please use new-style "
            "autograd function with static forward method. (Example: "
            "https://pytorch.org/docs/stable/autograd.html#torch.autograd.Function)"
        )

    @staticmethod
    def forward(*args: Any, **kwargs: Any) -> Any:
        """Compute the result; written by the subclass."""
        raise NotImplementedError("You must implement the forward function for custom autograd.Function.")

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: Any) -> Any:
        """Keep in ctx what backward needs; for a forward without ctx."""
        raise NotImplementedError("setup_context is not implemented.")

    @staticmethod
    def backward(ctx: Any, *grad_outputs: Any) -> Any:
        """Gradients of the arguments from those of the outputs; written by the subclass."""
        raise NotImplementedError(
            "You must implement either the backward or vjp method for your custom "
            "autograd.Function to use it with backward mode AD."
        )

    vjp = backward

    @staticmethod
    def jvp(ctx: Any, *grad_inputs: Any) -> Any:
        """Forward-mode rule; written by the subclass."""
        raise NotImplementedError(
            "You must implement the jvp function for custom autograd.Function to use it with forward mode AD."
        )

    @staticmethod
    def vmap(info: Any, in_dims: Any, *args: Any) -> Any:
        """Batching rule; written by the subclass."""
        raise NotImplementedError(
            "To use autograd.Function with vmap, you must either override the vmap staticmethod or set generate_vmap_rule=True."
        )

    @classmethod
    def apply(cls, *args: Any, **kwargs: Any) -> Any:
        """Run forward on the arguments and record the call."""
        if cls is Function:
            cls.forward()
        separate = cls.setup_context is not Function.setup_context
        if not separate and mutation_guard.transformed():
            raise RuntimeError(mutation_guard.NO_SETUP_CONTEXT)
        if kwargs or (separate and len(args) != getattr(getattr(cls.forward, "__code__", None), "co_argcount", -1)):
            leading = () if separate else (None,)
            bound = inspect.signature(cls.forward).bind(*leading, *args, **kwargs)
            bound.apply_defaults()  # setup_context gets what the caller left out, too
            args = bound.args[len(leading) :]
        for argument in args:  # tensors of a transform (vmap, forward mode) know what is to be done
            if isinstance(argument, Tensor):
                flavor = argument._layout.flavor
                if flavor is not None and hasattr(flavor, "apply_function"):
                    return flavor.apply_function(cls, args)
        if observed.count and local.observer is not None:
            return local.observer.operator(cls.__name__, call, cls, args)[0]
        return call(cls, args)[0]


def _zeros(layout: Layout, gradients: Sequence[Any]) -> Any:
    """Zeros of a layout, by an operator that modes below autograd see if there are any; one of the gradients is a tensor."""
    known = next((gradient for gradient in gradients if gradient is not None), None)
    if local.dispatch_modes and known is not None:
        return known.new_zeros(layout.shape, dtype=layout.dtype, device=layout.device.shown)
    zeros = empty_layout(layout)
    zeros.zero_()
    return zeros


def _classes_of(function: type[Function], name: str) -> tuple[type[BackwardCFunction], type[FunctionNode]]:
    """The classes of a Function's contexts and of its nodes in the graph."""
    module = BackwardCFunction.__module__
    return (
        type(name, (BackwardCFunction,), {"_forward_cls": function, "__module__": module}),
        type(name, (FunctionNode,), {"__slots__": (), "__module__": module}),
    )


@functools.lru_cache(256)
def _generated_classes_of(function: type[Function]) -> tuple[type[BackwardCFunction], type[FunctionNode]]:
    """Those of calls that a function transform differentiates, which PyTorch makes of a Function of its own."""
    return _classes_of(function, f"{function.__name__}GeneratedBackward")


def call(function: type[Function], args: tuple[Any, ...]) -> tuple[Any, FunctionCtx, tuple[Any, ...]]:
    """The result of a Function on tensors of no transform, recorded; the context that its forward filled in; and what it marked
    as not differentiable.
    """
    return joined(function, args, *forwarded(function, args))


def forwarded(function: type[Function], args: tuple[Any, ...]) -> tuple[tuple[bool, ...], FunctionCtx, Any]:
    """The first half of a call: which arguments need gradients, the context that forward has filled in, and what it gave."""
    context_class = _generated_classes_of(function)[0] if local.guard else function._context_cls
    context = context_class()
    needs = tuple([isinstance(argument, Tensor) and argument._node is not None for argument in args])
    context.needs_input_grad = needs
    before, local.grad = local.grad, False
    moving, local.forward_grad = local.forward_grad, False
    try:
        if function.setup_context is not Function.setup_context:
            result = function.forward(*args)
            function.setup_context(context, args, result)
            _check_saved(context, args, result)
        else:
            result = function.forward(context, *args)
    finally:
        local.grad, local.forward_grad = before, moving
    return needs, context, result


def joined(
    function: type[Function], args: tuple[Any, ...], needs: tuple[bool, ...], context: FunctionCtx, result: Any
) -> tuple[Any, FunctionCtx, tuple[Any, ...]]:
    """The second half of a call: its result, in the graph."""
    outputs = list(result) if isinstance(result, tuple) else [result]
    variables = tuple([isinstance(argument, Tensor) for argument in args])
    node = None
    if local.grad and True in needs:
        node_class = _generated_classes_of(function)[1] if local.guard else function._backward_cls
        edges = tuple(
            [
                (argument._node, argument._index) if need else NO_EDGE
                for argument, variable, need in zip(args, variables, needs)
                if variable
            ]
        )
        layouts = tuple([argument._layout for argument, variable in zip(args, variables) if variable])
        node = node_class(len(outputs), edges, layouts)
    wrapped = _wrap(context, node, args, outputs)
    if node is not None:
        _fill(node, context, function, variables, outputs)
    unmoved = context.non_differentiable
    if unmoved or context.dirty_tensors:
        context.dirty_tensors = context.non_differentiable = ()  # or results would hold themselves
    return tuple(wrapped) if isinstance(result, tuple) else wrapped[0], context, unmoved


def _place_of(tensor: Any, tensors: Sequence[Any]) -> int | None:
    """Where this very tensor stands among others, or None."""
    for place, other in enumerate(tensors):
        if other is tensor:
            return place
    return None


def _check_saved(context: FunctionCtx, args: tuple[Any, ...], result: Any) -> None:
    """RuntimeError where setup_context has kept an input that is an output too: that one will be another tensor."""
    outputs = result if isinstance(result, tuple) else (result,)
    for tensor in (*context.to_save, *context.saved_for_forward):
        if (
            isinstance(tensor, Tensor)
            and None not in (_place_of(tensor, args), _place_of(tensor, outputs))
            and (_place_of(tensor, context.dirty_tensors) is None)
        ):
            raise RuntimeError(
                "An input that has been returned as-is as output is being saved for backward. This is not supported if you "
                "override setup_context. You should return and save a view of the input instead, e.g. with x.view_as(x) or "
                "setup ctx inside the forward function itself."
            )


def _wrap(context: FunctionCtx, node: FunctionNode | None, args: tuple[Any, ...], outputs: list[Any]) -> list[Any]:
    """The outputs as the caller gets them: joined to the node, inputs among them as aliases unless written to."""
    wrapped: list[Any] = []
    written, unmoved = context.dirty_tensors, context.non_differentiable
    for tensor in written:
        if _place_of(tensor, outputs) is None:
            raise RuntimeError(
                "Some elements marked as dirty during the forward method were not returned as output. "
                "The inputs that are modified inplace must all be outputs of the Function."
            )
    joined = 0
    for index, output in enumerate(outputs):
        if not isinstance(output, Tensor):
            wrapped.append(output)
            continue
        is_input = _place_of(output, args) is not None
        dirty = bool(written) and _place_of(output, written) is not None
        differentiable = node is not None and _moves(output) and not (unmoved and _place_of(output, unmoved) is not None)
        joined += differentiable
        if dirty:
            if not is_input:
                warn(
                    "ctx.mark_dirty() received a tensor that was not an input. Only input Tensors that have been mutated "
                    "should be passed to ctx.mark_dirty().",
                    UserWarning,
                )
            if differentiable:
                _join_written(output, node, index, args, len(outputs), is_input)  # type: ignore[arg-type]
        elif is_input and not differentiable and output._node is not None:
            output = tensor_from(output._storage, output._offset, output._layout)
        elif is_input:
            before, local.grad = local.grad, False
            output = view.alias(output)
            local.grad = before
            output._node = None
        if not dirty and differentiable:
            output._node, output._index = node, index
        wrapped.append(output)
    for index, output in enumerate(wrapped):  # views, but for inputs that were written to, must not be written to now
        if (
            isinstance(output, Tensor)
            and inplace.base_of(output) is not None
            and not (outputs[index] is output and _place_of(output, args) is not None)
        ):
            inplace.mark(output, inplace.MULTI_VIEW if joined > 1 else inplace.FUNCTION_VIEW)
    return wrapped


def _moves(output: Tensor) -> bool:
    dtype = output._layout.dtype
    return dtype.is_floating_point or dtype.is_complex


def _join_written(output: Any, node: FunctionNode, index: int, args: tuple[Any, ...], count: int, is_input: bool) -> None:
    """Make output `index` of a Function's node the history of a tensor that its forward wrote to."""
    if not is_input:
        output._node, output._index = node, index
        return
    if type(output._node) is AccumulateGrad and inplace.base_of(output) is None:
        raise RuntimeError("a leaf Variable that requires grad has been used in an in-place operation.")
    inplace.check(output)
    if inplace.base_of(output) is not None:
        if count > 1:
            raise RuntimeError(_WRITTEN_VIEW)
        if output is not next((argument for argument in args if isinstance(argument, Tensor)), None):
            raise NotImplementedError(
                "a Function that writes to a view must take it as its first tensor argument; pass a clone otherwise"
            )
    inplace.rebase(output, node, index)


_WRITTEN_VIEW = (
    "If your Function modifies inplace an input that is a view of another Tensor, your Function cannot return "
    "more than one Tensor. This is not supported by the current autograd engine. You should either make sure the "
    "input is not a view (using .clone() for example) or make your Function only return one Tensor (potentially "
    "splitting it into two Functions: one doing the inplace that returns a single Tensor and a second one that "
    "does the other operations). You can ask on the forum https://discuss.pytorch.org/ if you need help to do "
    "this change."
)


def _fill(node: FunctionNode, context: FunctionCtx, cls: type[Function], variables: tuple[bool, ...], outputs: list[Any]) -> None:
    """Give the node what backward needs; outputs are saved as aliases outside the graph, or they would hold themselves."""
    node.context, node.function, node.variables = context, cls, variables
    unmoved = () if context._materialize_non_diff_grads else context.non_differentiable
    node.layouts = tuple(
        [
            values_of(output)._layout if isinstance(output, Tensor) and _place_of(output, unmoved) is None else None
            for output in outputs
        ]
    )
    saved: list[Any] = []
    versions: list[int | None] = []
    origins: list[int | None] = []
    for position, tensor in enumerate(context.to_save):
        version, origin = None, None
        if tensor is not None:
            if not isinstance(tensor, Tensor):
                raise TypeError(
                    f"save_for_backward can only save variables, but argument {position} is of type {type(tensor).__name__}"
                )
            if tensor._node is node:
                origin = _place_of(tensor, outputs)
            version = tensor._storage.version
        saved.append(tensor if origin is None else tensor.detach())
        origins.append(origin)
        versions.append(version)
    node.origins = tuple(origins)
    node.save(tuple(saved), tuple(versions))
    context.to_save = ()
    context._reference = weakref.ref(node)


class _TwiceBackward(Node):
    """Stands behind the results of a rule that can't be differentiated again."""

    __slots__ = ()

    def apply(self, gradients: Sequence[Any]) -> tuple[Any, ...]:
        raise RuntimeError("trying to differentiate twice a function that was marked with @once_differentiable")


def once_differentiable(fn: Callable[..., Any]) -> Callable[..., Any]:
    """Decorate a Function's backward that isn't itself differentiable: a second derivative raises RuntimeError."""

    @functools.wraps(fn)
    def wrapper(ctx: Any, *args: Any) -> Any:
        with no_grad():
            outputs = fn(ctx, *args)
        tracked = [argument for argument in args if isinstance(argument, Tensor) and argument._node is not None]
        if not local.grad or not tracked:
            return outputs
        several = outputs if isinstance(outputs, tuple) else (outputs,)
        edges = tuple((argument._node, argument._index) for argument in tracked)
        guarded: list[Any] = []
        for output in several:
            if output is not None:
                output = output.detach()
                output._node = _TwiceBackward(edges, tuple(argument._layout for argument in tracked))
            guarded.append(output)
        return tuple(guarded) if isinstance(outputs, tuple) else guarded[0]

    return wrapper
