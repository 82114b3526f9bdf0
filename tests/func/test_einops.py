"""functorch.einops: patterns, and tensors rearranged by them."""

import pytest

import flambeau as torch
from flambeau._functorch.functorch.einops import rearrange
from flambeau._functorch.functorch.einops._parsing import AnonymousAxis, ParsedExpression, comma_separate, parse_pattern
from flambeau._functorch.functorch.einops.rearrange import DimensionBindError

X = torch.arange(24).reshape(2, 3, 4)


@pytest.mark.parametrize(
    ("pattern", "lengths", "expected"),
    [
        ("a b c -> c b a", {}, X.permute(2, 1, 0)),
        ("a b c -> (a b) c", {}, X.reshape(6, 4)),
        ("... -> (...)", {}, X.flatten()),
        ("a b (c d) -> d a b c", {"d": 2}, X.reshape(2, 3, 2, 2).permute(3, 0, 1, 2)),
        ("a ... -> ... a", {}, X.permute(1, 2, 0)),
        ("a b c -> a 1 b c ()", {}, X[:, None, :, :, None]),
        ("a b ... -> b (...) a", {}, X.permute(1, 2, 0)),
        ("a b c -> b (a c)", {}, X.permute(1, 0, 2).reshape(3, 8)),
    ],
)
def test_axes_are_moved_joined_and_split(pattern, lengths, expected):
    assert torch.equal(rearrange(X, pattern, **lengths), expected)


def test_several_tensors_are_stacked_and_views_stay_views():
    assert torch.equal(rearrange([X, X + 1], "n a b c -> a n b c"), torch.stack([X, X + 1], 1))
    assert rearrange(X, "a b c -> c (a b)").data_ptr() == X.data_ptr()
    x = torch.ones(2, 3, requires_grad=True)
    rearrange(x, "a b -> (b a)")[0].backward()
    assert x.grad.tolist() == [[1, 0, 0], [0, 0, 0]] and rearrange(torch.tensor(3), "... -> ...") == 3


@pytest.mark.parametrize(
    ("pattern", "lengths", "error", "words"),
    [
        ("a b -> b a", {}, ValueError, r"Number of dimensions in pattern \(2\) must be equal"),
        ("a b c d ... -> a b c d ...", {}, ValueError, "must be less than or equal"),
        ("a b c", {}, ValueError, "single '->'"),
        ("a b (c d) -> a b c d", {}, DimensionBindError, "cannot infer the sizes of two dimensions at once"),
        ("a b (c d) -> a b c d", {"c": 3}, DimensionBindError, "does not evenly fit"),
        ("a b c -> a b c", {"a": 3}, DimensionBindError, "do not match"),
        ("a b c -> a b", {}, ValueError, "only on one side"),
        ("a b c -> a b c", {"q": 1}, ValueError, "not found"),
        ("a b 2 -> a b 2", {}, ValueError, "unnamed axes of size 1"),
        ("a b c -> a b c", {"a": "2"}, TypeError, "must be integers"),
        ("a b c -> a b c ...", {}, ValueError, "not left side"),
        ("(...) -> ...", {}, ValueError, "parenthesis in the left side"),
    ],
)
def test_what_is_refused(pattern, lengths, error, words):
    with pytest.raises(error, match=words):
        rearrange(X, pattern, **lengths)


@pytest.mark.parametrize("text", ["a a", "a..b", "... ...", "(a b", "a)", "((a))", "1a", "_a", "a$", "0"])
def test_texts_that_are_no_patterns(text):
    with pytest.raises(ValueError):
        ParsedExpression(text)


def test_what_patterns_are_made_of():
    found = ParsedExpression("a (b ...) 1 3")
    assert found.composition[:3] == [["a"], ["b", "\u2026"], []] and found.composition[3][0].value == 3
    assert found.has_ellipsis and found.has_ellipsis_parenthesized and found.has_non_unitary_anonymous_axes
    assert AnonymousAxis("2") != AnonymousAxis("2") and comma_separate([("a", "b"), ("c",), "d"]) == "(a, b), (c,), d"
    assert [side.identifiers for side in parse_pattern("a b -> b a", {})] == [{"a", "b"}] * 2
