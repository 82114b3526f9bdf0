"""What no program can have, and what doesn't fit: each is refused with PyTorch's words, line and mark."""

from typing import Any, Dict, List, Optional, Tuple

from implementation import torch

nn = torch.nn


def wrong_operand(n: int):
    return n + "a"


def wrong_argument(x):
    return torch.add(x, foo=1)


def no_attribute(x):
    return x.foo.bar


def no_attribute_of_int(n: int):
    return n.foo


def undefined(n: int):
    return unknown_name(n)  # noqa: F821


def no_function(n: int):
    return torch.unknown(n)


def a_lambda(n: int):
    f = lambda x: x  # noqa: E731
    return f(n)


def a_try(n: int):
    try:
        n = n + 1
    except ValueError:
        pass
    return n


def a_function(n: int):
    def g():
        return n

    return g()


def a_global(n: int):
    global Q
    return n


def an_import(n: int):
    import math

    return math.sqrt(n)


def variable_arguments(*args):
    return args


def keyword_arguments(**kwargs):
    return kwargs


def wrong_return(n: int) -> str:
    return n


def other_return(n: int):
    if n > 1:
        return 1
    return "a"


def missing_return(n: int) -> int:
    if n > 1:
        return 1


def other_type(n: int):
    if n > 1:
        n = "a"
    return n


def branch_types(n: int):
    if n > 1:
        a = 1
    else:
        a = "b"
    return a


def only_in_one(n: int):
    if n > 1:
        q = 1
    return q


def optional_used(n: Optional[int]):
    return n + 1


def not_iterable(n: int):
    for i in n:
        print(i)


def not_subscriptable(n: int):
    return n[0]


def wrong_list(a: List[int]):
    a.append("x")
    return a


def unpack_more(t: Tuple[int, int]):
    a, b, c = t
    return a


def unpack_fewer(t: Tuple[int, int, int]):
    a, b = t
    return a


def wrong_default(x, n: int = "a"):  # type: ignore[assignment]
    return x


def unknown_type(x: "Unknown"):  # noqa: F821
    return x


def a_with(x):
    with x:
        return x


def not_raised(n: int):
    raise "a"  # noqa: B016


def while_else(n: int):
    while n > 1:
        n -= 1
    else:
        n = 2
    return n


def for_else(n: int):
    for i in range(n):
        n -= 1
    else:
        n = 2
    return n


def comprehension_if(a: List[int]):
    return [x for x in a if x > 1]


def two_generators(a: List[int]):
    return [x + y for x in a for y in a]


def tuple_index(t: Tuple[int, str], n: int):
    return t[n]


def out_of_range(t: Tuple[int, str]):
    return t[5]


def caller(x):
    y = x * 2
    z = y + 1
    return called(z)


def called(x):
    return x + "a"


def deeper(x):
    return caller(x)


def too_many(x):
    return takes_one(x, x)


def takes_one(x):
    return x


def too_few(x):
    return takes_two(x)


def takes_two(x, n: int):
    return x * n


def wrong_kind(x):
    return takes_two(x, "a")


def not_optional(x: Optional[torch.Tensor]):
    return x.sum()


def dict_key(d: Dict[str, int]):
    return d[1]


def a_generator(n: int):
    yield n


def any_used(x: Any):
    return x + 1


def starred_call(a: List[int]):
    return takes_two(*a)


def annotation_only(n: int):
    x: int
    return n


def aug_unsupported(n: int):
    n //= 2
    return n


def a_set(n: int):
    return {n, 2}


class NoAttribute(nn.Module):
    def forward(self, x):
        return self.bar


class Unconvertible(nn.Module):
    def __init__(self):
        super().__init__()
        self.foo = object()

    def forward(self, x):
        return self.foo


class InHelper(nn.Module):
    def helper(self, x):
        return x + "a"

    def forward(self, x):
        return self.helper(x)


class NewAttribute(nn.Module):
    def forward(self, x):
        self.y = x
        return x


class WrongAttribute(nn.Module):
    def __init__(self):
        super().__init__()
        self.n = 2

    def forward(self, x):
        self.n = "a"
        return x


def PROGRAMS():
    from types import FunctionType

    found = {name: value for name, value in globals().items() if isinstance(value, FunctionType) and name != "PROGRAMS"}
    classes = {"NoAttribute": NoAttribute, "Unconvertible": Unconvertible, "InHelper": InHelper, "NewAttribute": NewAttribute,
               "WrongAttribute": WrongAttribute}
    return found | {name: cls() for name, cls in classes.items()}
