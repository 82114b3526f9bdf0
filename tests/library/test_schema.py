"""Schemas: what is read prints back, and what can't be read is refused in PyTorch's words."""

from __future__ import annotations

import pytest

import flambeau as torch

READ = [
    "aten::add.Tensor(Tensor self, Tensor other, *, Scalar alpha=1) -> Tensor",
    "a::b(Tensor(a!) x) -> Tensor(a!)",
    "a::b.c(Tensor(a)[] x, Tensor(b!)[]? y, int[2]? z=None, SymInt[] s=[], str[] q) -> (Tensor(a) out, Tensor[] l)",
    "f(Tensor x) -> ()",
    'f(Tensor x, str mode="a b", int[] dims=[1, 2], int[2] k=1, bool b=True, ScalarType? dtype=None) -> (Tensor, int)',
    "f(Dict(str, Tensor) d, (int, Tensor) t, Future(int) f, t[] l, Any a) -> Any",
    "f(Tensor(a -> *) x, Tensor?[] i) -> Tensor(a)",
]


@pytest.mark.parametrize("text", READ)
def test_a_schema_prints_as_it_is_written(text: str) -> None:
    assert str(torch._C.parse_schema(text)) == text


@pytest.mark.parametrize(
    ("text", "printed"),
    [
        ("f(float f2=1e-3, float x=1, float[2] y=1.5) -> Tensor",
         "f(float f2=0.001, float x=1., float[2] y=[1.5, 1.5]) -> Tensor"),
        ("f(float x=0.1)->Tensor", "f(float x=0.10000000000000001) -> Tensor"),
        ("f(Tensor x, int r=Mean, Device d='cpu', int[3] k=0) -> Tensor",
         "f(Tensor x, int r=1, Device d=cpu, int[3] k=0) -> Tensor"),
    ],
)  # fmt: skip
def test_defaults_print_as_numbers(text: str, printed: str) -> None:
    assert str(torch._C.parse_schema(text)) == printed


def test_what_a_schema_says() -> None:
    schema = torch._C.parse_schema("f(Tensor x, int[2] k=1, *, Tensor(a!)? out=None, ScalarType? d=None) -> (Tensor y, int)")
    x, k, out, d = schema.arguments
    assert (x.name, str(x.type), x.has_default_value(), x.alias_info) == ("x", "Tensor", False, None)
    assert isinstance(x.type, torch._C.TensorType) and isinstance(k.type, torch._C.ListType)
    assert (str(k.type), k.N, k.default_value) == ("List[int]", 2, [1, 1])
    assert out.kwarg_only and out.is_out and out.alias_info.before_set == {"a"} and str(out.type) == "Optional[Tensor]"
    assert str(d.type) == "Optional[int]" and str(d.real_type) == "Optional[ScalarType]"
    assert schema.is_mutable and [r.name for r in schema.returns] == ["y", ""]


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("bad(Tensor x -> Tensor", "expected ) but found 'arrow' here:\nbad(Tensor x -> Tensor\n             ~~ <--- HERE\n"),
        ("bad(Tensor x)", "expected arrow but found 'eof' here:\nbad(Tensor x)"),
        ("", "expected ident but found 'eof' here:\n"),
        ("f(Tensor) -> Tensor", "expected ident but found ')' here:\nf(Tensor) -> Tensor\n        ~ <--- HERE\n"),
        ("f(int x=a) -> Tensor", "\ninvalid numeric default value:\nf(int x=a) -> Tensor\n         ~ <--- HERE\n"),
        ("f.default(Tensor x) -> Tensor", "default is not a legal overload name for aten operators"),
    ],
)
def test_what_cant_be_read(text: str, words: str) -> None:
    with pytest.raises(RuntimeError) as caught:
        torch._C.parse_schema(text)
    assert str(caught.value) == words


def test_unknown_types_and_orders() -> None:
    with pytest.raises(RuntimeError, match=r"unknown type specifier. Common valid schema types include Tensor") as caught:
        torch._C.parse_schema("bad(Tenso x) -> Tensor")
    assert str(caught.value).endswith("bad(Tenso x) -> Tensor\n    ~~~~~ <--- HERE\n")
    with pytest.raises(RuntimeError, match=r"Non-default positional argument follows default argument. Parameter x"):
        torch._C.parse_schema("bad(int n=3, Tensor x) -> Tensor")


def test_schemas_of_functions() -> None:

    def f(x: torch.Tensor, ys: list[torch.Tensor], n: int = 3, s: float = 1.5, b: bool = True, m: str = "z",
          *, o: torch.Tensor | None = None, c: int | float | bool = 2, l: list[int] | None = None
          ) -> tuple[torch.Tensor, int]: ...  # fmt: skip

    assert torch.library.infer_schema(f, mutates_args={"x"}) == (
        '(Tensor(a0!) x, Tensor[] ys, SymInt n=3, float s=1.5, bool b=True, str m="z", *, Tensor? o=None, Scalar c=2, '
        "SymInt[]? l=None) -> (Tensor, SymInt)"
    )
    assert torch.library.infer_schema(f, mutates_args="unknown", op_name="g").startswith("g(Tensor(a0!) x, Tensor(a1!)[] ys")

    def nothing(x: torch.Tensor) -> None: ...

    assert torch.library.infer_schema(nothing, mutates_args=()) == "(Tensor x) -> ()"
    for function, words in (
        (lambda x: x, "Parameter x must have a type annotation."),
        (_without_result, "No return type annotation was provided. Please add one."),
        (_of_dicts, r"Parameter x has unsupported type <class 'dict'>."),
        (_of_many, "We do not support positional-only args, varargs, or varkwargs."),
        (_with_a_tuple, r"Parameter l has an unsupported default value type <class 'tuple'>."),
    ):
        with pytest.raises(ValueError, match=words):
            torch.library.infer_schema(function, mutates_args=())
    with pytest.raises(ValueError, match=r"\{'q'\} in mutates_args were not found in the custom op's signature"):
        torch.library.infer_schema(nothing, mutates_args=("q",))


def _without_result(x: torch.Tensor): ...


def _of_dicts(x: dict) -> torch.Tensor: ...


def _of_many(x: torch.Tensor, *rest: torch.Tensor) -> torch.Tensor: ...


def _with_a_tuple(l: list[int] = (1, 2)) -> torch.Tensor: ...


def test_dtypes_as_defaults() -> None:
    text = "f(Tensor x, ScalarType a=float32, ScalarType b=long, ScalarType c=uint4, ScalarType d=float8_e4m3fn) -> Tensor"
    assert [a.default_value for a in torch._C.parse_schema(text).arguments[1:]] == [6, 4, 33, 24]
    with pytest.raises(RuntimeError, match="invalid numeric default value"):
        torch._C.parse_schema("f(ScalarType a=float33) -> Tensor")

    def function(x: torch.Tensor, kind: torch.dtype = torch.bfloat16) -> torch.Tensor: ...

    inferred = "f" + torch.library.infer_schema(function, mutates_args=())
    assert torch._C.parse_schema(inferred).arguments[1].default_value == 15
