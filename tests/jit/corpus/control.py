"""Control flow: if, while, for, break, continue, early returns, assertions."""

from typing import List, Optional

from implementation import torch


def unused_values(x):
    y = x + 1
    z = x * 2
    return y


def branch(x, n: int):
    if n > 0:
        x = x + 1
    else:
        x = x - 1
    return x


def chain(n: int):
    if n == 0:
        r = "zero"
    elif n == 1:
        r = "one"
    elif n < 0:
        r = "negative"
    else:
        r = "many"
    return r


def new_variable(n: int):
    if n > 2:
        a = 1
        b = 2.5
    else:
        a = 3
        b = 4.5
    return a + b


def counted(x, n: int):
    for i in range(n):
        x = x + i
    return x


def nested_loops(n: int):
    s = 0
    for i in range(n):
        for j in range(i):
            if j % 2 == 0:
                s += i * j
    return s


def breaks(x, n: int):
    while n > 0:
        x = x + n
        n -= 1
        if n == 5:
            break
        if n == 6:
            continue
    return x


def early(x, n: int):
    if n > 0:
        return x
    y = x + 1
    for i in range(n):
        if i == 3:
            return y
    return y * 2


def both_return(n: int):
    if n > 3:
        return 1
    else:
        return 2


def in_the_loop(xs: List[int], wanted: int):
    for i, x in enumerate(xs):
        if x == wanted:
            return i
    return -1


def return_none(x):
    x.add_(1)


def optional_return(n: int) -> Optional[int]:
    if n > 3:
        return n
    return None


def forever(n: int):
    total = 0
    while True:
        n -= 1
        if n < 0:
            break
        if n % 3 == 0:
            continue
        total += n
    return total


def logic(a: bool, b: bool, n: int):
    if (a and not b) or n > 3:
        return 1
    return 0 if b else 2


def asserted(x, n: int):
    assert n > 2
    assert n < 10, "too many"
    assert x.sum() > 0, f"sum of {n}"
    return x / n


def raised(n: int):
    if n == 1:
        raise ValueError("n is {}".format(n))
    if n == 2:
        raise RuntimeError("two")
    return n


def ternary(x, n: int):
    return x * (2 if n > 1 else 3)


def loop_and_return(x, n: int):
    for i in range(n):
        if i > 2:
            x = x * 2
            return x
        x = x + i
    return x


def while_pair(a: int, b: int):
    while b != 0:
        a, b = b, a % b
    return a


def nothing(x):
    pass


def condition_of_tensor(x):
    if x.sum() > 0:
        return x
    return -x


def two_loops(n: int):
    i = 0
    while i < n:
        j = 0
        while j < i:
            j += 1
            if j == 3:
                break
        i += 1
        if i == 7:
            return i * j
    return i


INPUTS = {
    "branch": lambda: (torch.ones(2), 1),
    "chain": lambda: (1,),
    "new_variable": lambda: (3,),
    "counted": lambda: (torch.ones(2), 4),
    "nested_loops": lambda: (5,),
    "breaks": lambda: (torch.ones(2), 8),
    "early": lambda: (torch.ones(2), -1),
    "both_return": lambda: (4,),
    "in_the_loop": lambda: ([4, 5, 6], 6),
    "optional_return": lambda: (2,),
    "forever": lambda: (9,),
    "logic": lambda: (True, True, 2),
    "asserted": lambda: (torch.ones(2), 11),
    "raised": lambda: (1,),
    "ternary": lambda: (torch.ones(2), 2),
    "loop_and_return": lambda: (torch.ones(2), 6),
    "while_pair": lambda: (48, 18),
    "condition_of_tensor": lambda: (-torch.ones(2),),
    "two_loops": lambda: (9,),
}
