"""A line search to the strong Wolfe conditions: bracketing, then zooming with cubic interpolation.

Stands on the tensor API; used by LBFGS. The method and its constants are those of Schmidt's minFunc, which PyTorch's
search follows as well, so that both take the same steps.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

from flambeau.core.tensor import Tensor

SUFFICIENT_DECREASE = 1e-4
CURVATURE = 0.9
NARROWEST = 1e-9
MOST_EVALUATIONS = 25


class Point(NamedTuple):
    """The loss, its gradient, and its slope along the direction, at some length of the step."""

    length: Any
    loss: float
    gradient: Tensor
    slope: Any


def cubic_minimum(a: Point, b: Point, bounds: tuple[Any, Any] | None = None) -> Any:
    """Where the cubic through two points with their slopes is least, within `bounds` (the points if not given)."""
    low, high = bounds if bounds is not None else (min(a.length, b.length), max(a.length, b.length))
    middle = a.slope + b.slope - 3 * (a.loss - b.loss) / (a.length - b.length)
    discriminant = middle**2 - a.slope * b.slope
    if discriminant < 0:
        return (low + high) / 2.0
    root = discriminant**0.5
    left, right = (a, b) if a.length <= b.length else (b, a)
    minimum = right.length - (right.length - left.length) * (
        (right.slope + root - middle) / (right.slope - left.slope + 2 * root)
    )
    return min(max(minimum, low), high)


def strong_wolfe(
    at: Callable[[Any], tuple[float, Tensor]],
    length: Any,
    direction: Tensor,
    loss: float,
    gradient: Tensor,
    slope: Any,
) -> tuple[float, Tensor, Any, int]:
    """A step length along `direction` where the loss has fallen and its slope has flattened enough.

    Args:
        at: the (loss, gradient) at a length.
        length: the first length to try.
        direction: the direction, as long a vector as `gradient`.
        loss, gradient, slope: what they are at length 0.

    Returns:
        (loss, gradient, length, number of evaluations).
    """
    scale = direction.abs().max()
    origin = Point(0, loss, gradient, slope)

    def evaluate(distance: Any) -> Point:
        value, flat = at(distance)
        return Point(distance, value, flat.clone(), flat.dot(direction))

    def is_too_high(point: Point, best: Point | None) -> bool:
        limit = loss + SUFFICIENT_DECREASE * point.length * slope
        return bool(point.loss > limit) or (best is not None and point.loss >= best.loss)

    def is_flat(point: Point) -> bool:
        return bool(abs(point.slope) <= -CURVATURE * slope)

    point = evaluate(length)
    evaluations = 1
    previous = origin
    bracket: list[Point] = []
    done = False
    tries = 0
    while tries < MOST_EVALUATIONS:
        if is_too_high(point, previous if tries > 1 else None):
            bracket = [previous, point]
            break
        if is_flat(point):
            bracket = [point]
            done = True
            break
        if point.slope >= 0:
            bracket = [previous, point]
            break
        nearest = point.length + 0.01 * (point.length - previous.length)
        following = cubic_minimum(previous, point, (nearest, point.length * 10))
        previous, point = point, evaluate(following)
        evaluations += 1
        tries += 1
    else:
        bracket = [origin, point]

    # zoom: the bracket's best end is `low`; the other end shrinks towards it
    stalled = False
    low, high = (0, 1) if bracket[0].loss <= bracket[-1].loss else (1, 0)
    while not done and tries < MOST_EVALUATIONS:
        left, right = sorted((bracket[0].length, bracket[1].length))
        if (right - left) * scale < NARROWEST:
            break
        distance = cubic_minimum(bracket[0], bracket[1])
        # a minimum by the very end makes no progress: take a tenth of the bracket the second time, or at its edge
        margin = 0.1 * (right - left)
        if min(right - distance, distance - left) < margin:
            if stalled or distance >= right or distance <= left:
                distance = right - margin if abs(distance - right) < abs(distance - left) else left + margin
                stalled = False
            else:
                stalled = True
        else:
            stalled = False
        point = evaluate(distance)
        evaluations += 1
        tries += 1
        if is_too_high(point, bracket[low]):
            bracket[high] = point
            low, high = (0, 1) if bracket[0].loss <= bracket[1].loss else (1, 0)
        else:
            if is_flat(point):
                done = True
            elif point.slope * (bracket[high].length - bracket[low].length) >= 0:
                bracket[high] = bracket[low]
            bracket[low] = point
    best = bracket[low] if len(bracket) > 1 else bracket[0]
    return best.loss, best.gradient, best.length, evaluations
