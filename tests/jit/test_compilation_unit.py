"""torch.jit.CompilationUnit, torch.testing.FileCheck, and the names that torch and torch._C have of the compiler's objects."""

from __future__ import annotations

import pytest
from implementation import torch

FileCheck = torch.testing.FileCheck
TEXT = """
def f(a: int):
    return a + 1
def g(x, y):
    return f(2) * x + y
"""


def test_functions_of_a_text_call_each_other_and_come_one_by_one():
    unit = torch.jit.CompilationUnit(TEXT)
    assert unit.f(3) == 4 and unit.g(torch.ones(1), torch.ones(1)).tolist() == [4]
    assert unit.f.code == "def f(a: int) -> int:\n  return torch.add(a, 1)\n"
    assert (
        torch.jit.CompilationUnit("def f(x):\n  return 2 * x\n").f.code
        == "def f(x: Tensor) -> Tensor:\n  return torch.mul(x, 2)\n"
    )
    with pytest.raises(RuntimeError, match="undefined value g"):
        torch.jit.CompilationUnit(TEXT).define("def h(x):\n  return g(x, x)\n")
    unit.define("def h(x):\n  return x + x\n")
    assert unit.h(torch.ones(1)).tolist() == [2]
    assert [each.name for each in unit.get_functions()] == ["f", "g", "h"] and unit.find_function("k") is None


def test_a_unit_says_what_is_wrong_with_a_text():
    unit = torch.jit.CompilationUnit(TEXT)
    with pytest.raises(AttributeError, match="'CompilationUnit' has no attribute 'nope'"):
        _ = unit.nope
    with pytest.raises(RuntimeError, match="method 'f' already defined"):
        unit.define("def f(x: int):\n    return x\n")
    with pytest.raises(RuntimeError, match="undefined value nope") as caught:
        unit.define("def k(x):\n  return nope(x)\n")
    assert '  File "<string>", line 2\ndef k(x):\n  return nope(x)\n         ~~~~ <--- HERE\n' in str(caught.value)


def test_checks_that_a_text_passes():
    text = "one two\nthree\nfour four\n"
    FileCheck().check("one").check_same("two").check_next("three").check_not("five").run(text)
    FileCheck().check_count("four", 2, exactly=True).run(text)
    FileCheck().check_dag("three").check_dag("one").check("four").run(text)
    FileCheck().check_regex("t[a-z]+o").check_not("two").run(text)
    FileCheck().check_not("three").check("two").run(text)
    FileCheck().run("# CHECK: one\n# CHECK-NEXT: three\n# CHECK-COUNT-2: four\n", text)
    FileCheck().check_source_highlighted("two").run("one two\n    ~~~ <--- HERE\n")


@pytest.mark.parametrize(
    ("check", "text", "words"),
    [
        (FileCheck().check("q"), "abc\n",
         'Expected to find "q" but did not find it\nSearched string:\nabc\n~ <--- HERE\nFrom CHECK: q\n'),
        (FileCheck().check_not("b"), "abc\n",
         'Expected to not find "b" but found it\nabc\n ~ <--- HERE\nFrom CHECK-NOT: b\n'),
        (FileCheck().check_count("a", 2, exactly=True), "a a a",
         'Expected to not find "a" but found it\na a a\n    ~ <--- HERE\nFrom CHECK-NOT: a\n'),
        (FileCheck().check_count("a", 2), "a\n", 'Expected to find "a" but did not find it'),
        (FileCheck().check("a").check_next("c"), "a\nb\nc", 'Expected to not find "\\n" but found it'),
        (FileCheck().check("a").check_same("c"), "a\nc", 'Expected to not find "\\n" but found it'),
        (FileCheck().check_dag("b").check_dag("x"), "b a", 'Expected to find "x" but did not find it'),
        (FileCheck().check("c").check_not("b").check("a"), "c b a",
         'Expected to not find "b" but found it\nc b a\n  ~ <--- HERE\nFrom CHECK-NOT: b\n'),
        (FileCheck().check_regex("a+c"), "aab", 'Expected to find regex "a+c" but did not find it'),
        (FileCheck().check_source_highlighted("foo"), "x foo\n  ~~ <--- HERE", "highlighted but it is not"),
        (FileCheck(), "aab", "No checks have been added"),
    ],
)  # fmt: skip
def test_checks_that_a_text_fails(check, text, words):
    with pytest.raises(RuntimeError) as caught:
        check.run(text)
    assert words in str(caught.value)


def test_the_compiler_s_objects_by_the_names_of_torch():
    program = torch.jit.CompilationUnit(TEXT).g
    graph = program.graph
    assert isinstance(graph, torch.Graph) and isinstance(program, torch.ScriptFunction)
    assert isinstance(next(graph.nodes()), torch.Node) and isinstance(next(graph.inputs()), torch.Value)
    assert torch.CompilationUnit is torch._C.CompilationUnit is torch.jit.CompilationUnit
    assert torch._C.FileCheck is FileCheck and torch.JITException is torch.jit.Error
    integer, number = (each.type for each in torch._C.parse_schema("f(int a, float b) -> ()").arguments)
    assert torch.unify_type_list([integer, integer]) == integer
    with pytest.raises(RuntimeError, match="element 1 of type float did not match the types before it"):
        torch.unify_type_list([integer, number])
