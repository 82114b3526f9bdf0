"""`flambeau.autograd.functional`: vjp, jvp, jacobian, hessian and products with them, for functions of tensors.

Stands on core.autograd.engine; jvp differentiates the backward pass a second time. What is vectorized stands on
flambeau.transform.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from flambeau.autograd import batched
from flambeau.core.autograd import engine
from flambeau.core.modes.modes import enable_grad
from flambeau.core.operator.publishing import NAMESPACE
from flambeau.core.tensor.tensor import Tensor, empty_layout

__all__ = ["hessian", "hvp", "jacobian", "jvp", "vhp", "vjp"]


def _as_tuple(given: Any, argument: str, function: str) -> tuple[bool, tuple[Any, ...]]:
    """(whether it was a tuple, the tensors as a tuple)."""
    several = isinstance(given, tuple)
    tensors = given if several else (given,)
    for position, tensor in enumerate(tensors):
        if not isinstance(tensor, Tensor):
            if several:
                raise TypeError(
                    f"The {argument} given to {function} must be either a Tensor or a tuple of Tensors but "
                    f"the value at index {position} has type {type(tensor)}."
                )
            raise TypeError(
                f"The {argument} given to {function} must be either a Tensor or a tuple of Tensors but the "
                f"given {argument} has type {type(tensor)}."
            )
    return several, tensors


def _zeros(tensor: Any) -> Any:
    made = empty_layout(tensor._layout.dense())
    made.zero_()
    return made


def _prepare(tensors: tuple[Any, ...], create_graph: bool) -> tuple[Any, ...]:
    """Fresh tensors to differentiate with respect to: joined to the caller's graph if that is to be recorded."""
    return tuple(
        tensor.view_as(tensor) if create_graph and tensor._node is not None else tensor.detach().requires_grad_()
        for tensor in tensors
    )


def _result(tensors: Any, several: bool, create_graph: bool) -> Any:
    made = tuple(tensor if create_graph else tensor.detach() for tensor in tensors)
    return made if several else made[0]


def _gradients(
    outputs: tuple[Any, ...], inputs: tuple[Any, ...], weights: tuple[Any, ...] | None, create_graph: bool
) -> tuple[Any, ...]:
    """engine.grad that leaves out outputs outside the graph; None where an input has no influence."""
    weights = (None,) * len(outputs) if weights is None else weights
    pairs = [(output, weight) for output, weight in zip(outputs, weights, strict=True) if output._node is not None]
    if not pairs:
        return (None,) * len(inputs)
    return engine.grad(
        [output for output, _ in pairs], inputs, [weight for _, weight in pairs], True, create_graph, allow_unused=True
    )


def _filled(gradients: tuple[Any, ...], like: tuple[Any, ...], strict: bool, message: str) -> tuple[Any, ...]:
    """Zeros for gradients that don't exist, or, when strict, a RuntimeError naming the first of them."""
    if strict:
        for position, gradient in enumerate(gradients):
            if gradient is None:
                raise RuntimeError(message.format(position))
    return tuple(_zeros(tensor) if gradient is None else gradient for gradient, tensor in zip(gradients, like, strict=True))


def _directions(v: Any, like: tuple[Any, ...], several: bool, function: str, missing: str) -> tuple[Any, ...]:
    if v is None:
        if len(like) != 1 or like[0]._layout.numel != 1:
            raise RuntimeError(missing)
        one = _zeros(like[0])
        return (one.fill_(1),)
    _, given = _as_tuple(v, "v", function)
    if len(given) != len(like):
        if not several:
            raise RuntimeError("The given v should contain a single Tensor.")
        raise RuntimeError(f"v is a tuple of invalid length: should be {len(like)} but got {len(given)}.")
    for position, (direction, tensor) in enumerate(zip(given, like, strict=True)):
        if direction._layout.shape != tensor._layout.shape:
            entry = f"Entry {position} in " if several else ""
            raise RuntimeError(f"{entry}v has invalid size: should be {tensor._layout.shape} but got {direction._layout.shape}.")
    return given


_INDEPENDENT = "The output of the user-provided function is independent of input {}. This is not allowed in strict mode."
_OUTSIDE = (
    "Output {} of the user-provided function does not require gradients. The outputs must be computed in a "
    "differentiable manner from the input when running in strict mode."
)
_LINEAR = (
    "The jacobian of the user-provided function is independent of input {}. This is not allowed in strict mode when "
    "create_graph=True."
)
_NO_HESSIAN = (
    "While computing the hessian, found that the jacobian of the user-provided function with respect to input {} is "
    "independent of the input. This is not allowed in strict mode. You should ensure that your function is twice "
    "differentiable and that the jacobian depends on the inputs (this would be violated by a linear function for "
    "example)."
)


_LINEAR_GRADIENT = _LINEAR.replace("jacobian", "hessian")
_NO_TRICK = (
    "The hessian of the user-provided function is independent of entry {} in the grad_jacobian. This is not allowed in "
    "strict mode as it prevents from using the double backward trick to replace forward mode AD."
)


def _in_graph(tensors: tuple[Any, ...], strict: bool, message: str) -> None:
    """When strict, a RuntimeError naming the first of the tensors that isn't in the graph."""
    if strict:
        for position, tensor in enumerate(tensors):
            if tensor is None or tensor._node is None:
                raise RuntimeError(message.format(position))


def vjp(func: Callable[..., Any], inputs: Any, v: Any = None, create_graph: bool = False, strict: bool = False) -> Any:
    """(func(*inputs), v @ Jacobian). v may be left out for a single-element output."""
    with enable_grad():
        several, given = _as_tuple(inputs, "inputs", "vjp")
        fresh = _prepare(given, create_graph)
        out_several, outputs = _as_tuple(func(*fresh), "outputs of the user-provided function", "vjp")
        _in_graph(outputs, strict, _OUTSIDE)
        weights = _directions(
            v,
            outputs,
            out_several,
            "vjp",
            "The vector v can only be None if the user-provided function returns a single Tensor with a single element.",
        )
        products = _filled(_gradients(outputs, fresh, weights, create_graph), fresh, strict, _INDEPENDENT)
        _in_graph(products, strict and create_graph, _LINEAR)
    return _result(outputs, out_several, create_graph), _result(products, several, create_graph)


def jvp(func: Callable[..., Any], inputs: Any, v: Any = None, create_graph: bool = False, strict: bool = False) -> Any:
    """(func(*inputs), Jacobian @ v), by differentiating the backward pass. v may be left out for one-element inputs."""
    with enable_grad():
        several, given = _as_tuple(inputs, "inputs", "jvp")
        fresh = _prepare(given, create_graph)
        directions = _directions(
            v,
            fresh,
            several,
            "jvp",
            "The vector v can only be None if the input to the user-provided function is a single Tensor with a single element.",
        )
        out_several, outputs = _as_tuple(func(*fresh), "outputs of the user-provided function", "jvp")
        _in_graph(outputs, strict, _OUTSIDE)
        weights = tuple(NAMESPACE["zeros_like"](output, requires_grad=True) for output in outputs)
        pulled = _filled(_gradients(outputs, fresh, weights, True), fresh, strict, _INDEPENDENT)
        products = _filled(_gradients(pulled, weights, directions, create_graph), outputs, False, "")
        _in_graph(products, strict and create_graph, _LINEAR)
    return _result(outputs, out_several, create_graph), _result(products, out_several, create_graph)


def jacobian(
    func: Callable[..., Any],
    inputs: Any,
    create_graph: bool = False,
    strict: bool = False,
    vectorize: bool = False,
    strategy: str = "reverse-mode",
) -> Any:
    """The Jacobian of func: per output and input a tensor of shape (*output, *input), nested as they are.

    vectorize: all rows (or columns) at once; strategy "forward-mode" computes columns, and needs it.
    """
    if strategy not in ("forward-mode", "reverse-mode"):
        raise AssertionError(
            'Expected strategy to be either "forward-mode" or "reverse-mode". Hint: If your function '
            'has more outputs than inputs, "forward-mode" tends to be more performant. Otherwise, '
            'prefer to use "reverse-mode".'
        )
    if strategy == "forward-mode":
        if create_graph or strict:
            kind = NotImplementedError if create_graph else RuntimeError
            option = "create_graph" if create_graph else "strict"
            raise kind(
                f'torch.autograd.functional.jacobian: `{option}=True` and `strategy="forward-mode"` are not supported '
                f'together (yet). Please either set `{option}=False` or `strategy="reverse-mode"`.'
            )
        several, given = _as_tuple(inputs, "inputs", "jacobian")
        if not vectorize:
            raise NotImplementedError(
                "Computing Jacobian using forward-AD or forward-over-reverse Hessian isonly implemented for `vectorize=True`."
            )
        return _forward_jacobian(func, several, given)
    with enable_grad():
        several, given = _as_tuple(inputs, "inputs", "jacobian")
        fresh = _prepare(given, create_graph)
        out_several, outputs = _as_tuple(func(*fresh), "outputs of the user-provided function", "jacobian")
        _in_graph(outputs, strict, _OUTSIDE)
        if strict and vectorize:
            raise RuntimeError(
                "torch.autograd.functional.jacobian: `strict=True` and `vectorized=True` are not supported "
                "together. Please either set `strict=False` or `vectorize=False`."
            )
        blocks = (
            _rows_at_once(outputs, fresh, create_graph)
            if vectorize
            else [_jacobian_of(position, output, fresh, create_graph, strict) for position, output in enumerate(outputs)]
        )
    made = tuple(_result(block, several, create_graph) for block in blocks)
    return made if out_several else made[0]


def _units(tensors: tuple[Any, ...]) -> list[Any]:
    """The unit vectors in the space of all tensors together, each tensor's part: (elements of all, *its shape)."""
    parts = _construct_standard_basis_for(tensors, tuple([tensor._layout.numel for tensor in tensors]))
    return [part.reshape((part._layout.shape[0], *tensor._layout.shape)) for part, tensor in zip(parts, tensors, strict=True)]


def _construct_standard_basis_for(tensors: tuple[Any, ...], tensor_numels: tuple[int, ...]) -> tuple[Any, ...]:
    """The unit vectors in the space of all tensors together, each tensor's part: (elements of all, elements of the tensor)."""
    made, begin = [], 0
    for tensor, count in zip(tensors, tensor_numels, strict=True):
        part = tensor.detach().new_zeros((sum(tensor_numels), count))
        part.diagonal(-begin).fill_(1)
        made.append(part)
        begin += count
    return tuple(made)


def _rows_at_once(outputs: tuple[Any, ...], inputs: tuple[Any, ...], create_graph: bool) -> list[tuple[Any, ...]]:
    """What `_jacobian_of` gives for each output, with the rows of all outputs as one batch."""
    from flambeau.transform.pullback import gradients

    joined = [output for output in outputs if output._node is not None]
    rows: list[Any] = [None] * len(inputs)
    if joined:
        rows = batched.over_rows(
            lambda *weights: gradients(
                joined, inputs, [w for w, y in zip(weights, outputs, strict=True) if y._node is not None], create_graph
            ),
            sum(output._layout.numel for output in outputs),
            _units(outputs),
        )
    blocks, begin = [], 0
    for output in outputs:
        shape, count = output._layout.shape, output._layout.numel
        blocks.append(
            tuple(
                [
                    tensor.new_zeros((*shape, *tensor._layout.shape))
                    if row is None
                    else row.narrow(0, begin, count).reshape((*shape, *tensor._layout.shape))
                    for row, tensor in zip(rows, inputs, strict=True)
                ]
            )
        )
        begin += count
    return blocks


def _forward_jacobian(func: Callable[..., Any], several: bool, given: tuple[Any, ...]) -> Any:
    """The Jacobian by forward mode, all columns at once; lists where it has an entry per input, as in PyTorch."""
    from flambeau.transform import tangents  # noqa: F401
    from flambeau.transform.dual import DualLevel

    kept: dict[str, Any] = {}
    blocks: list[list[Any]] = []
    for position, moving in enumerate(given):

        def column(tangent: Any, position: int = position) -> list[Any]:
            with DualLevel() as level:
                duals = [level.dual(x, tangent) if n == position else x for n, x in enumerate(given)]
                kept["several"], outputs = _as_tuple(func(*duals), "outputs", "None")
                kept["shapes"] = [y._layout.shape for y in outputs]
                return [level.tangent(y) if level.has(y) else y.new_zeros(y._layout.shape) for y in outputs]

        columns = batched.over_rows(column, moving._layout.numel, _units((moving,)))
        blocks.append(
            [c.movedim(0, -1).reshape((*shape, *moving._layout.shape)) for c, shape in zip(columns, kept["shapes"], strict=True)]
        )
    rows = [[block[n].detach() for block in blocks] for n in range(len(kept["shapes"]))]
    made = rows if several else tuple(row[0] for row in rows)
    return made if kept["several"] else made[0]


def _jacobian_of(position: int, output: Any, inputs: tuple[Any, ...], create_graph: bool, strict: bool) -> tuple[Any, ...]:
    """Per input, the rows of the Jacobian of the output at `position`, stacked."""
    independent = _INDEPENDENT.replace("The output", f"Output {position}")
    rows: list[list[Any]] = [[] for _ in inputs]
    flat = output.reshape(-1)
    for element in range(output._layout.numel):
        gradients = _gradients((flat.select(0, element),), inputs, None, create_graph)
        for number, (row, gradient, tensor) in enumerate(zip(rows, gradients, inputs, strict=True)):
            if strict and gradient is None:
                raise RuntimeError(independent.format(number))
            if strict and create_graph and gradient._node is None:
                raise RuntimeError(_LINEAR.format(number))
            row.append(_zeros(tensor) if gradient is None else gradient)
    made: list[Any] = []
    for row, tensor in zip(rows, inputs, strict=True):
        shape = (*output._layout.shape, *tensor._layout.shape)
        made.append(NAMESPACE["stack"](row).reshape(shape))
    return tuple(made)


def _single(outputs: Any, function: str, strict: bool) -> Any:
    several, tensors = _as_tuple(outputs, "outputs of the user-provided function", function)
    _in_graph(tensors, strict, _OUTSIDE)
    if several or tensors[0]._layout.numel != 1:
        raise RuntimeError(
            f"The function given to {function} should return a single Tensor"
            if several
            else f"The Tensor returned by the function given to {function} should contain a single element"
        )
    return tensors[0]


def hessian(
    func: Callable[..., Any],
    inputs: Any,
    create_graph: bool = False,
    strict: bool = False,
    vectorize: bool = False,
    outer_jacobian_strategy: str = "reverse-mode",
) -> Any:
    """The matrix of second derivatives of a func with one element: per pair of inputs a tensor (*first, *second).

    vectorize, outer_jacobian_strategy: how the Jacobian of the gradient is computed, see jacobian.
    """
    if outer_jacobian_strategy not in ("forward-mode", "reverse-mode"):
        raise AssertionError('Expected strategy to be either "forward-mode" or "reverse-mode".')
    several, given = _as_tuple(inputs, "inputs", "hessian")

    def gradient(*fresh: Any) -> Any:
        if outer_jacobian_strategy == "forward-mode":
            return _gradient_of_wrapped(lambda *x: _single(func(*x), "hessian", strict).squeeze(), fresh)
        gradients = jacobian(lambda *x: _single(func(*x), "hessian", strict).squeeze(), fresh, create_graph=True)
        _in_graph(gradients, strict, _NO_HESSIAN)
        return gradients

    made = jacobian(gradient, given, create_graph, strict, vectorize, outer_jacobian_strategy)
    return made if several else made[0][0]


def _gradient_of_wrapped(func: Callable[..., Any], inputs: tuple[Any, ...]) -> tuple[Any, ...]:
    """The gradient of func at tensors that may be dual."""
    from flambeau.transform.pullback import fresh, gradients

    with enable_grad():
        aliases = [fresh(x, joined=False) for x in inputs]
        output = func(*aliases)
        made = gradients([output], aliases, [output.detach().new_ones(())], False)
    return tuple(x.new_zeros(x._layout.shape) if g is None else g for g, x in zip(made, inputs, strict=True))


def vhp(func: Callable[..., Any], inputs: Any, v: Any = None, create_graph: bool = False, strict: bool = False) -> Any:
    """(func(*inputs), v @ Hessian) of a func with one element."""
    return _hessian_product(func, inputs, v, create_graph, strict, "vhp")


def hvp(func: Callable[..., Any], inputs: Any, v: Any = None, create_graph: bool = False, strict: bool = False) -> Any:
    """(func(*inputs), Hessian @ v) of a func with one element; the Hessian is symmetric, so this is `vhp`."""
    return _hessian_product(func, inputs, v, create_graph, strict, "hvp")


def _hessian_product(func: Callable[..., Any], inputs: Any, v: Any, create_graph: bool, strict: bool, name: str) -> Any:
    with enable_grad():
        several, given = _as_tuple(inputs, "inputs", name)
        fresh = _prepare(given, create_graph)
        directions = _directions(
            v,
            fresh,
            several,
            name,
            "The vector v can only be None if the input to the user-provided function is a single Tensor with a single element.",
        )
        output = _single(func(*fresh), name, strict)
        first = _filled(_gradients((output,), fresh, None, True), fresh, strict, _INDEPENDENT)
        _in_graph(first, strict, _NO_HESSIAN)
        if strict and name == "hvp":  # there PyTorch differentiates the products by the weights, and says where it can't
            weights = tuple(_zeros(tensor).requires_grad_() for tensor in first)
            pulled = _filled(_gradients(first, fresh, weights, True), fresh, strict, _NO_TRICK)
            products = _filled(_gradients(pulled, weights, directions, create_graph), fresh, strict, _NO_TRICK)
        else:
            products = _filled(_gradients(first, fresh, directions, create_graph), fresh, False, "")
        _in_graph(products, strict and create_graph, _LINEAR_GRADIENT)
    return _result((output,), False, create_graph), _result(products, several, create_graph)
