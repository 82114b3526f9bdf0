"""Classes of programs, context managers, interfaces, overloads, forks, functions of modules."""

from typing import Any, Dict, List, Optional, Tuple

from implementation import torch

nn = torch.nn


@torch.jit.script
class Pair:
    def __init__(self, x: int, y: int):
        self.x = x
        self.y = y

    def total(self) -> int:
        return self.x + self.y

    def __add__(self, other: "Pair") -> "Pair":
        return Pair(self.x + other.x, self.y + other.y)

    def __len__(self) -> int:
        return 2

    def __getitem__(self, i: int) -> int:
        return self.x if i == 0 else self.y

    @staticmethod
    def zero() -> int:
        return 0


class Counter:
    def __init__(self, start: int = 0):
        self.count = start
        self.log: List[str] = []

    def __enter__(self):
        self.count += 1
        return self.count

    def __exit__(self, kind: Any, value: Any, trace: Any):
        self.count -= 1

    def add(self, name: str) -> None:
        self.log.append(name)


@torch.jit.interface
class OneArgument(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        pass


class Doubling(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x * 2


class Adding(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x + 2


class ByInterface(nn.Module):
    part: OneArgument

    def __init__(self):
        super().__init__()
        self.part = Doubling()

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.part.forward(x)


class Overloaded(nn.Module):
    @torch.jit._overload_method
    def pick(self, x: int) -> int:
        pass

    @torch.jit._overload_method
    def pick(self, x: str) -> str:
        pass

    def pick(self, x):
        if isinstance(x, int):
            return x + 1
        return x + "a"

    def forward(self, n: int) -> Tuple[int, str]:
        return self.pick(n), self.pick("b")


@torch.jit._overload
def several(x: int) -> int:
    pass


@torch.jit._overload
def several(x: List[int]) -> int:
    pass


def several(x):
    if torch.jit.isinstance(x, List[int]):
        return len(x)
    return 1


def calls_several(n: int):
    return several(n) + several([n, n])


def pairs(a: int):
    p = Pair(a, 2)
    q = p + Pair(1, 1)
    p.x = 5
    return q.total(), len(q), q[1], p.x, Pair.zero()


def taking(p: Pair) -> Pair:
    return Pair(p.y, p.x)


def contexts(x, n: int):
    c = Counter(n)
    with c as inside:
        x = x * inside
        c.add("a")
    return x, c.count


def forked(x):
    future = torch.jit.fork(doubled, x)
    y = x + 1
    return torch.jit.wait(future) + y


def doubled(x):
    return x * 2


class Function(nn.Module):
    def __init__(self):
        super().__init__()
        self.act = torch.relu
        self.own = doubled

    def forward(self, x):
        return self.own(self.act(x))


class Calls(nn.Module):
    @staticmethod
    def fixed(x, n: int):
        return x * n

    def forward(self, x):
        return self.fixed(x, 3)


class Buffers(nn.Module):
    def __init__(self):
        super().__init__()
        self.register_buffer("total", torch.zeros(2))
        self.register_buffer("maybe", None)

    def forward(self, x):
        self.total += x
        if self.maybe is not None:
            return x
        self.total = self.total * 2
        return self.total


class Recurrent(nn.Module):
    def __init__(self, layers: int = 2):
        super().__init__()
        self.cells = nn.ModuleList([nn.Linear(2, 2) for _ in range(layers)])

    def forward(self, x, state: Optional[List[torch.Tensor]] = None) -> Tuple[torch.Tensor, List[torch.Tensor]]:
        if state is None:
            state = [torch.zeros(2), torch.zeros(2)]
        new: List[torch.Tensor] = []
        for i, cell in enumerate(self.cells):
            x = torch.tanh(cell(x) + state[i])
            new.append(x)
        return x, new


class Tables(nn.Module):
    def __init__(self):
        super().__init__()
        self.words: Dict[str, int] = torch.jit.annotate(Dict[str, int], {"a": 1})
        self.sizes = [1, 2]

    def forward(self, key: str):
        if key in self.words:
            return self.words[key]
        self.words[key] = len(self.sizes)
        return -1


class Inner(nn.Module):
    def __init__(self):
        super().__init__()
        self.name = "inner"

    def forward(self, x: str):
        return x + "_" + self.name


class Hooked(nn.Module):
    def __init__(self):
        super().__init__()
        self.inner = Inner()
        self.inner.register_forward_pre_hook(before)
        self.inner.register_forward_hook(behind)
        self.register_forward_pre_hook(before_all)

    def forward(self, x: str):
        return self.inner(x) + "_outer"


def before(self, input: Tuple[str]) -> Tuple[str]:
    return (input[0] + "_before",)


def before_all(self, input: Tuple[str]) -> Tuple[str]:
    return (input[0] + "_first",)


def behind(self, input: Tuple[str], output: str) -> str:
    return output + "_behind"


def recursive(n: int) -> int:
    if n == 0:
        return 0
    return recursive(n - 1)


class Circular(nn.Module):
    def again(self, n: int) -> int:
        return self.again(n)

    def forward(self, x):
        return self.again(2)


def PROGRAMS():
    torch.manual_seed(0)
    return {
        "pairs": pairs,
        "taking": taking,
        "contexts": contexts,
        "forked": forked,
        "calls_several": calls_several,
        "by_interface": ByInterface(),
        "overloaded": Overloaded(),
        "function": Function(),
        "calls": Calls(),
        "buffers": Buffers(),
        "recurrent": Recurrent(),
        "tables": Tables(),
        "hooked": Hooked(),
        "recursive": recursive,
        "circular": Circular(),
    }


INPUTS = {
    "pairs": lambda: (3,),
    "contexts": lambda: (torch.ones(2), 3),
    "forked": lambda: (torch.ones(2),),
    "calls_several": lambda: (3,),
    "by_interface": lambda: (torch.ones(2),),
    "overloaded": lambda: (2,),
    "function": lambda: (torch.ones(2),),
    "calls": lambda: (torch.ones(2),),
    "buffers": lambda: (torch.ones(2),),
    "tables": lambda: ("a",),
    "hooked": lambda: ("x",),
}
