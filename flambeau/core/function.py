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

from flambeau.base.naming import public_module
from flambeau.core import captured, inplace, views
from flambeau.core.modes import local, no_grad
from flambeau.core.node import FREED, NO_EDGE, MultiNode, Node
from flambeau.core.tensor import Tensor, empty_layout

__all__ = ["Function", "FunctionCtx", "FunctionNode", "once_differentiable"]


class FunctionCtx:
    """What a Function's forward leaves for its backward: saved tensors, marks, and any attribute of the user's."""

    __module__ = public_module("autograd.function")
    needs_input_grad: tuple[bool, ...] = ()
    materialize_grads: bool = True
    to_save: tuple[Any, ...] = ()
    saved_for_forward: tuple[Any, ...] = ()
    dirty_tensors: tuple[Any, ...] = ()
    non_differentiable: tuple[Any, ...] = ()
    _reference: Callable[[], Node | None] | None = None

    def save_for_backward(self, *tensors: Any) -> None:
        """Keep tensors (inputs, outputs, others, or None) for `saved_tensors` in backward; call it once."""
        self.to_save = tensors

    def save_for_forward(self, *tensors: Any) -> None:
        """Keep tensors for `saved_tensors` in jvp."""
        for tensor in tensors:
            if not (isinstance(tensor, Tensor) or tensor is None):
                raise AssertionError("save_for_forward expects all arguments to be tensors; you should save "
                                     "non-tensors as attributes on ctx.")
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

    saved_variables = saved_tensors

    def name(self) -> str:
        """The node's name, "MyFunctionBackward"."""
        return type(self).__name__

    @property
    def next_functions(self) -> tuple[Any, ...]:
        """The node's edges."""
        node = self._reference() if self._reference is not None else None
        return () if node is None else node.next_functions


class FunctionNode(MultiNode):
    """The graph's node of a call of a Function."""

    __slots__ = ("context", "function", "layouts", "origins", "variables")

    #: The Function; the user's context; layouts of the outputs; per saved tensor which output it is (or None);
    #: which arguments were tensors.
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
        return tuple(value if origin is None else self.attach(value, origin)
                     for value, origin in zip(values, self.origins, strict=True))

    def apply(self, gradients: Sequence[Any]) -> tuple[Any, ...]:
        context = self.context
        given = list(gradients)
        if context.materialize_grads:
            for index, gradient in enumerate(given):
                layout = self.layouts[index]
                if gradient is None and layout is not None:
                    given[index] = empty_layout(layout.dense())
                    given[index].zero_()
        function = self.function
        if function.backward is not Function.backward and function.vjp is not Function.vjp:
            raise RuntimeError("Implementing both 'backward' and 'vjp' for a custom Function is not allowed. You should "
                               "only implement one of them.")
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
            raise RuntimeError(f"function {self.name()} returned an incorrect number of gradients (expected {expected}, "
                               f"got {len(results)})")
        chosen: list[Any] = []
        for position, (result, variable) in enumerate(zip(results, self.variables, strict=True)):
            if not variable:
                if result is not None:
                    raise RuntimeError(f"function {self.name()} returned a gradient different from None at position "
                                       f"{position + 1}, but the corresponding forward input was not a Variable")
            else:
                if result is not None and not isinstance(result, Tensor):
                    raise RuntimeError(f"expected Variable or None (got {type(result).__name__})")
                chosen.append(result)
        return tuple(chosen)

    def __getattr__(self, name: str) -> Any:
        if name in FunctionNode.__slots__ or (name.startswith("_") and name != "_forward_cls"):
            raise AttributeError(f"'{type(self).__name__}' object has no attribute '{name}'")
        return getattr(self.context, name)

    def __repr__(self) -> str:
        return f"<flambeau.autograd.function.{self.name()} object at {id(self):#x}>"


class Function:
    """Base of user-written operators: subclass it with static methods `forward` and `backward`, call it with `apply`.

    forward(ctx, *args) computes, and keeps what backward needs in ctx; or forward(*args) with
    setup_context(ctx, inputs, output). backward(ctx, *gradients of the outputs) returns one gradient (or None) per
    argument of forward.
    """

    __module__ = public_module("autograd.function")
    generate_vmap_rule = False
    _backward_cls: type[FunctionCtx]

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        warnings.warn(f"{type(self)} should not be instantiated. Methods on autograd functions are all static, so you "
                      "should invoke them on the class itself. Instantiating an autograd function will raise an error "
                      "in a future version of PyTorch.", DeprecationWarning, stacklevel=2)

    def __init_subclass__(cls, **keywords: Any) -> None:
        super().__init_subclass__(**keywords)
        cls._backward_cls = type(f"{cls.__name__}Backward", (FunctionCtx,),
                                 {"_forward_cls": cls, "__module__": cls.__module__})

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        raise RuntimeError("Legacy autograd function with non-static forward method is deprecated. Please use new-style "
                           "autograd function with static forward method. (Example: "
                           "https://pytorch.org/docs/stable/autograd.html#torch.autograd.Function)")

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
        raise NotImplementedError("You must implement either the backward or vjp method for your custom "
                                  "autograd.Function to use it with backward mode AD.")

    vjp = backward

    @staticmethod
    def jvp(ctx: Any, *grad_inputs: Any) -> Any:
        """Forward-mode rule; written by the subclass."""
        raise NotImplementedError("You must implement the jvp function for custom autograd.Function to use it with "
                                  "forward mode AD.")

    @staticmethod
    def vmap(info: Any, in_dims: Any, *args: Any) -> Any:
        """Batching rule; written by the subclass."""
        raise NotImplementedError("To use autograd.Function with vmap, you must either override the vmap staticmethod "
                                  "or set generate_vmap_rule=True.")

    @classmethod
    def apply(cls, *args: Any, **kwargs: Any) -> Any:
        """Run forward on the arguments and record the call."""
        if cls is Function:
            cls.forward()
        separate = cls.setup_context is not Function.setup_context
        if not isinstance(inspect.getattr_static(cls, "forward"), staticmethod):
            raise RuntimeError("Legacy autograd function with non-static forward method is deprecated. Please use "
                               "new-style autograd function with static forward method. (Example: "
                               "https://pytorch.org/docs/stable/autograd.html#torch.autograd.Function)")
        if not separate and captured.transformed():
            raise RuntimeError(captured.NO_SETUP_CONTEXT)
        if kwargs or separate:
            leading = () if separate else (None,)
            bound = inspect.signature(cls.forward).bind(*leading, *args, **kwargs)
            bound.apply_defaults()
            args = bound.args[len(leading):]
        for argument in args:       # tensors of a transform (vmap, forward mode) know what is to be done
            if isinstance(argument, Tensor) and argument._layout.flavor is not None and hasattr(
                    argument._layout.flavor, "apply_function"):
                return argument._layout.flavor.apply_function(cls, args)
        return cls._called(args)[0]

    @classmethod
    def _called(cls, args: tuple[Any, ...]) -> tuple[Any, FunctionCtx]:
        """What `apply` returns for plain tensors, and the context of this call."""
        separate = cls.setup_context is not Function.setup_context
        variables = tuple(isinstance(argument, Tensor) for argument in args)
        needs = tuple(variable and argument._node is not None for variable, argument in zip(variables, args, strict=True))
        recording = local.grad and any(needs)
        context = cls._backward_cls()
        context.needs_input_grad = needs
        before, local.grad = local.grad, False
        moving, local.forward_grad = local.forward_grad, False
        try:
            if separate:
                result = cls.forward(*args)
                cls.setup_context(context, args, result)
            else:
                result = cls.forward(context, *args)
        finally:
            local.grad, local.forward_grad = before, moving
        outputs = list(result) if isinstance(result, tuple) else [result]
        edges = [(argument._node, argument._index) if need else NO_EDGE
                 for argument, variable, need in zip(args, variables, needs, strict=True) if variable]
        layouts = [argument._layout for argument, variable in zip(args, variables, strict=True) if variable]
        node = FunctionNode(len(outputs), tuple(edges), tuple(layouts)) if recording else None
        wrapped = _wrap(context, node, args, outputs)
        if node is not None:
            _fill(node, context, cls, variables, outputs)
        return (tuple(wrapped) if isinstance(result, tuple) else wrapped[0]), context


def _wrap(context: FunctionCtx, node: FunctionNode | None, args: tuple[Any, ...], outputs: list[Any]) -> list[Any]:
    """The outputs as the caller gets them: joined to the node, inputs among them as aliases unless written to."""
    wrapped: list[Any] = []
    for dirty in context.dirty_tensors:
        if not any(dirty is output for output in outputs):
            raise RuntimeError("Some elements marked as dirty during the forward method were not returned as output. "
                               "The inputs that are modified inplace must all be outputs of the Function.")
    for index, output in enumerate(outputs):
        if not isinstance(output, Tensor):
            wrapped.append(output)
            continue
        is_input = any(output is argument for argument in args)
        dirty = any(output is tensor for tensor in context.dirty_tensors)
        differentiable = ((output._layout.dtype.is_floating_point or output._layout.dtype.is_complex)
                          and not any(output is tensor for tensor in context.non_differentiable))
        if dirty:
            if node is not None and differentiable:
                inplace.check(output)
                first = next((argument for argument in args if isinstance(argument, Tensor)), None)
                if inplace.base_of(output) is not None and output is not first:
                    raise NotImplementedError("a Function that writes to a view must take it as its first tensor "
                                              "argument; pass a clone otherwise")
                inplace.rebase(output, node, index)
        elif is_input:
            before, local.grad = local.grad, False
            output = views.alias(output)
            local.grad = before
            if node is not None and differentiable:
                output._node, output._index = node, index
        elif node is not None and differentiable:
            output._node, output._index = node, index
        wrapped.append(output)
    return wrapped


def _fill(node: FunctionNode, context: FunctionCtx, cls: type[Function], variables: tuple[bool, ...],
          outputs: list[Any]) -> None:
    """Give the node what backward needs; outputs are saved as aliases outside the graph, or they would hold themselves."""
    node.context, node.function, node.variables = context, cls, variables
    node.layouts = tuple(output._layout if isinstance(output, Tensor) else None for output in outputs)
    saved: list[Any] = []
    versions: list[int | None] = []
    origins: list[int | None] = []
    for position, tensor in enumerate(context.to_save):
        if tensor is not None and not isinstance(tensor, Tensor):
            raise TypeError(f"save_for_backward can only save variables, but argument {position} is of type "
                            f"{type(tensor).__name__}")
        origin = next((index for index, output in enumerate(outputs) if output is tensor and tensor is not None), None)
        if origin is not None and tensor._node is node:
            saved.append(tensor.detach())
            origins.append(origin)
        else:
            saved.append(tensor)
            origins.append(None)
        versions.append(None if tensor is None else tensor._storage.version)
    node.origins = tuple(origins)
    node.save(tuple(saved), tuple(versions))
    context.to_save = ()
    context.dirty_tensors = context.non_differentiable = ()
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
