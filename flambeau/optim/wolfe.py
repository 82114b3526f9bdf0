"""A line search to the strong Wolfe conditions: bracketing, then zooming with cubic interpolation.

Stands on the tensor API; used by LBFGS. The method and its constants are those of Schmidt's minFunc, which PyTorch's
search follows as well, so that both take the same steps.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

from flambeau.core.tensor.tensor import Tensor

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


class Search:
    """A search along `direction`: what it has evaluated so far, and what it asks of a point."""

    def __init__(self, at: Callable[[Any], tuple[float, Tensor]], direction: Tensor, loss: float, gradient: Tensor, slope: Any):
        self.at, self.direction = at, direction
        self.origin = Point(0, loss, gradient, slope)
        self.evaluations = 0
        self.tries = 0  # evaluations but the first
        self.done = False

    def evaluate(self, distance: Any) -> Point:
        value, flat = self.at(distance)
        self.tries = self.evaluations
        self.evaluations += 1
        return Point(distance, value, flat.clone(), flat.dot(self.direction))

    def is_too_high(self, point: Point, best: Point | None) -> bool:
        limit = self.origin.loss + SUFFICIENT_DECREASE * point.length * self.origin.slope
        return bool(point.loss > limit) or (best is not None and point.loss >= best.loss)

    def is_flat(self, point: Point) -> bool:
        return bool(abs(point.slope) <= -CURVATURE * self.origin.slope)

    def bracket(self, length: Any) -> list[Point]:
        """Two points with a minimum in between, found by ever longer steps; one point where the search is over."""
        previous, point = self.origin, self.evaluate(length)
        while self.tries < MOST_EVALUATIONS:
            if self.is_too_high(point, previous if self.tries > 1 else None):
                return [previous, point]
            if self.is_flat(point):
                self.done = True
                return [point]
            if point.slope >= 0:
                return [previous, point]
            nearest = point.length + 0.01 * (point.length - previous.length)
            following = cubic_minimum(previous, point, (nearest, point.length * 10))
            previous, point = point, self.evaluate(following)
        return [self.origin, point]

    def zoom(self, bracket: list[Point]) -> Point:
        """The best point in the bracket: its lower end is kept, the other end shrinks towards it."""
        scale = self.direction.abs().max()
        stalled = False
        low, high = (0, 1) if bracket[0].loss <= bracket[-1].loss else (1, 0)
        while not self.done and self.tries < MOST_EVALUATIONS:
            left, right = sorted((bracket[0].length, bracket[1].length))
            if (right - left) * scale < NARROWEST:
                break
            distance = cubic_minimum(bracket[0], bracket[1])
            # a minimum by the very end makes no progress: take a tenth of the bracket the second time, or at its edge
            margin = 0.1 * (right - left)
            by_the_end = min(right - distance, distance - left) < margin
            if by_the_end and (stalled or distance >= right or distance <= left):
                distance = right - margin if abs(distance - right) < abs(distance - left) else left + margin
                stalled = False
            else:
                stalled = bool(by_the_end)
            point = self.evaluate(distance)
            if self.is_too_high(point, bracket[low]):
                bracket[high] = point
                low, high = (0, 1) if bracket[0].loss <= bracket[1].loss else (1, 0)
            else:
                if self.is_flat(point):
                    self.done = True
                elif point.slope * (bracket[high].length - bracket[low].length) >= 0:
                    bracket[high] = bracket[low]
                bracket[low] = point
        return bracket[low] if len(bracket) > 1 else bracket[0]


def strong_wolfe(
    at: Callable[[Any], tuple[float, Tensor]], length: Any, direction: Tensor, loss: float, gradient: Tensor, slope: Any
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
    search = Search(at, direction, loss, gradient, slope)
    best = search.zoom(search.bracket(length))
    return best.loss, best.gradient, best.length, search.evaluations
