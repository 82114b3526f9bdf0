"""Blocks that live at the same time lie apart, and memory is used again."""

from __future__ import annotations

import random

from flambeau.codegen.programs.arena import LINE, arrange


def test_blocks_that_live_together_lie_apart() -> None:
    for seed in range(50):
        draw = random.Random(seed)
        lives = [(a, a + draw.choice((0, 1, 2, 9, 40))) for a in (draw.randrange(60) for _ in range(80))]
        sizes = [draw.choice((0, 1, 64, 65, 1000, 5000)) for _ in lives]
        places, top = arrange(lives, sizes)
        for i, (first, last) in enumerate(lives):
            assert places[i] % LINE == 0
            assert places[i] + sizes[i] <= top
            for j in range(i):
                if lives[j][0] <= last and first <= lives[j][1]:
                    assert places[i] + sizes[i] <= places[j] or places[j] + sizes[j] <= places[i]


def test_a_chain_needs_room_for_two() -> None:
    places, top = arrange([(i, i + 1) for i in range(20)], [640] * 20)
    assert top == 1280
    assert len(set(places)) == 2


def test_holes_that_touch_are_one() -> None:
    lives = [(0, 1), (0, 1), (0, 9), (2, 3)]
    assert arrange(lives, [64, 64, 64, 128])[1] == 192
