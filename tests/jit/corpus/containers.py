"""Lists, tuples, dicts, texts, and what is done with them."""

from typing import Dict, List, Tuple

from implementation import torch


def list_methods(a: List[int]):
    a.append(4)
    a.extend([5, 6])
    a.insert(0, 9)
    b = a.copy()
    b.reverse()
    c = b.pop()
    b.sort()
    return a, b, c, len(a), a.index(4), a.count(5), sum(a), max(a), min(a)


def slices(a: List[int], s: str):
    return a[1:], a[:-1], a[::2], a[1:3], s[1:], s[0], a[-1]


def comprehension(a: List[int]):
    return [i * 2 for i in a], [float(i) for i in range(3)], [x + 1 for x in [1, 2, 3]]


def empty_lists(n: int):
    a: List[int] = []
    b = torch.jit.annotate(List[str], [])
    for i in range(n):
        a.append(i)
        b.append(str(i))
    return a, b


def dicts(d: Dict[str, int]):
    d["b"] = 2
    total = 0
    for k, v in d.items():
        total += v
        print(k)
    for k in d:
        print(k)
    e = {k: v * 2 for k, v in d.items()}
    return total, "a" in d, list(d.keys()), list(d.values()), e, d.get("z", 5), len(d)


def empty_dict(n: int) -> Dict[int, float]:
    d: Dict[int, float] = {}
    for i in range(n):
        d[i] = i / 2
    del d[0]
    return d


def tuples(t: Tuple[int, str, float]):
    a, b, c = t
    d = (a, c)
    e = d + (b,)
    return t[0], t[-1], e, t[1:], len(t), (a,)


def nested(x: List[List[int]], y: Dict[str, List[Tuple[int, float]]]):
    x[0].append(3)
    y["a"].append((1, 2.0))
    return x[0][1], y["a"][0][1]


def starred(t: Tuple[int, int, int, int]):
    a, *b, c = t
    return a, b, c


def texts(s: str, n: int):
    return (s.upper(), s.split(","), s.replace("a", "b"), s + "x", s * 2, f"{s}-{n}", "%s %d" % (s, n), s.startswith("a"), s.find("b"),
            ",".join(["a", s]), len(s), "a" in s, s.strip(), s == "q")


def zipped(a: List[int], b: List[str]):
    for i, (x, y) in enumerate(zip(a, b)):
        print(i, x, y)
    for x, z in zip(a, range(2, 10, 3)):
        print(x + z)
    return len(a)


def of_tensors(xs: List[torch.Tensor]):
    total = torch.zeros(2)
    for x in xs:
        total += x
    a, b = xs
    return total, torch.cat(xs), torch.stack([a, b])


def assigned(a: List[int], b: List[float]):
    a[0] = 5
    a[1] += 2
    b[0] *= 2.0
    return a, b


def conversions(n: int, f: float, s: str):
    return int(f), float(n), str(n), bool(n), int(s), float("1.5"), list(s), int(True)


def loop_over_tuple(x):
    for k in (1, 2, 3):
        x = x * k
    return x


def lists_equal(a: List[int], b: List[int]):
    return a == b, a != b, a + b, a * 2


def sorts(a: List[int], b: List[str]):
    a.sort(reverse=True)
    return a, sorted(b)


INPUTS = {
    "list_methods": lambda: ([1, 2, 3],),
    "slices": lambda: ([1, 2, 3, 4], "word"),
    "comprehension": lambda: ([1, 2],),
    "empty_lists": lambda: (2,),
    "dicts": lambda: ({"a": 1},),
    "empty_dict": lambda: (3,),
    "tuples": lambda: ((1, "a", 2.0),),
    "nested": lambda: ([[1]], {"a": []}),
    "starred": lambda: ((1, 2, 3, 4),),
    "texts": lambda: ("a,b", 3),
    "zipped": lambda: ([1, 2], ["a", "b"]),
    "of_tensors": lambda: ([torch.ones(2), torch.ones(2)],),
    "assigned": lambda: ([1, 2], [1.5]),
    "conversions": lambda: (3, 2.5, "7"),
    "loop_over_tuple": lambda: (torch.ones(2),),
    "lists_equal": lambda: ([1], [1]),
    "sorts": lambda: ([1, 3, 2], ["b", "a"]),
}
