"""Optionals and their refinement, unions, Any, named tuples, enumerations, annotations."""

import enum
from typing import Any, Dict, List, NamedTuple, Optional, Tuple, Union

from implementation import torch


class Point(NamedTuple):
    x: torch.Tensor
    y: int = 3


class Color(enum.Enum):
    RED = 1
    GREEN = 2


def optional(x: Optional[torch.Tensor], n: int = 3):
    if x is None:
        x = torch.zeros(2)
    return x + n


def optional_and(x, n: Optional[int]):
    if n is not None and n > 0:
        x = x + n
    y = n if n is not None else 3
    return x * y


def optional_or(n: Optional[int]):
    if n is None or n < 0:
        return 0
    return n


def asserted(n: Optional[int]):
    assert n is not None
    return n + 1


def union(x: Union[int, str], y: Any):
    if isinstance(x, int):
        r = x + 1
    else:
        r = len(x)
    if isinstance(y, int):
        r = r + y
    return r


def of_three(x: Union[int, float, str]):
    if isinstance(x, (int, float)):
        return 1
    return len(x)


def instances(x: Any, y: Optional[torch.Tensor]):
    if torch.jit.isinstance(x, List[int]):
        return len(x)
    if isinstance(y, torch.Tensor):
        return y.dim()
    return 0


def make_point(x):
    p = Point(x, 2)
    q = Point(x)
    return p, q.x, p.y, q[1]


def take_point(p: Point):
    x, y = p
    return x * y + p.x


def color(c: Color):
    if c == Color.RED:
        return c.name
    return "other"


def color_value(n: int):
    return Color.GREEN.value + n, Color.RED


def annotated(n: int) -> Tuple[int, Optional[str], Dict[str, List[int]]]:
    s: Optional[str] = None
    d: Dict[str, List[int]] = {"a": [n]}
    if n > 2:
        s = "x"
    return n, s, d


def defaults(x, n: int = 2, f: float = 1.5, s: str = "a", flag: bool = True, k: Optional[int] = None):
    if flag and k is not None:
        return x * n * f
    return x + len(s)


def commented(x, n, s):
    # type: (Tensor, int, List[str]) -> Tensor
    return x * n + len(s)


def inner_none(d: Dict[str, Optional[int]]):
    v = d["a"]
    if v is not None:
        return v
    return 0


def new_unions(x: int | str, y: list[int], z: dict[str, float] | None = None):
    if isinstance(x, str):
        return len(y)
    return x


def numbers(a: int, b: float, c: complex):
    return a + b, a / 2, a // 2, a % 2, a**2, -a, a & 3, a | 4, a ^ 1, a << 2, b * c, a > b, not a, abs(a), round(b)


INPUTS = {
    "optional": lambda: (None,),
    "optional_and": lambda: (torch.ones(2), 2),
    "optional_or": lambda: (None,),
    "asserted": lambda: (None,),
    "union": lambda: ("abc", 4),
    "of_three": lambda: ("abc",),
    "instances": lambda: ([1, 2], None),
    "make_point": lambda: (torch.ones(2),),
    "take_point": lambda: (Point(torch.ones(2)),),
    "color": lambda: (Color.RED,),
    "color_value": lambda: (2,),
    "annotated": lambda: (3,),
    "defaults": lambda: (torch.ones(2),),
    "commented": lambda: (torch.ones(2), 2, ["a"]),
    "inner_none": lambda: ({"a": 4},),
    "new_unions": lambda: (3, [1]),
    "numbers": lambda: (7, 2.5, 1 + 2j),
}
