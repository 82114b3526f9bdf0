"""Every public operator gives here what it gave under PyTorch, in every form it has.

`recorded.json.xz` holds the samples of `catalogue` and their outcomes: values, shapes, strides, dtypes, aliasing, first and
second derivatives, tangents, batches, methods, in-place and `out=` forms, other dtypes and layouts, the meta device, and the
types and words of exceptions. `departures/` lists what is known to differ. `generate.py` records, `replay.py` shows.
"""

from itertools import groupby

import pytest
from conformance.catalogue import FAMILIES
from conformance.record import Recorded, read
from conformance.replay import compared, departures, is_known, known

SAMPLES = read()
KNOWN = known()
AT_ONCE = 40
CHUNKS = [
    pytest.param(chunk, id=f"{family}-{first // AT_ONCE + 1}")
    for family, group in groupby(SAMPLES, lambda sample: sample.family)
    for members in [list(group)]
    for first in range(0, len(members), AT_ONCE)
    for chunk in [members[first : first + AT_ONCE]]
]


@pytest.mark.parametrize("samples", CHUNKS)
def test_operators_give_what_pytorch_gave(samples: list[Recorded]) -> None:
    found = [departure for departure in departures(samples) if not is_known(departure, KNOWN)]
    assert not found, f"{len(found)} outcomes differ:\n" + "\n".join(map(str, found))


def test_the_record_is_that_of_the_catalogue() -> None:
    """Otherwise: generate.py."""
    lines = [sample.line for sample in SAMPLES]
    assert lines == [line for lines in FAMILIES.values() for line in dict.fromkeys(lines)] and len(lines) == len(set(lines))


def test_known_departures_are_of_recorded_samples() -> None:
    """Otherwise: replay.py --write."""
    lines = {sample.line for sample in SAMPLES}
    assert not [key for key in KNOWN if key[35:] not in lines]


def test_a_wrong_outcome_is_noticed() -> None:
    """The comparison itself, where it isn't that of random programs: exceptions, and results on the meta device."""
    assert compared(["raised", "TypeError", "a"], ["raised", "TypeError", "a"]) is None
    assert compared(["raised", "TypeError", "a"], ["raised", "TypeError", "b"]) == "words"
    assert compared(["raised", "TypeError", "a"], ["raised", "ValueError", "a"]) == "exception type"
    assert compared(["raised", "TypeError", "a"], ["gave", ["plain", "int", "1"]]) == "raises not"
    assert compared(["gave", ["plain", "int", "1"]], ["raised", "TypeError", "a"]) == "raises"
    meta = ["gave", ["meta", [2, 3], [3, 1], "float32", "meta"]]
    assert compared(meta, meta) is None
    assert compared(meta, ["gave", ["meta", [2, 3], [1, 2], "float32", "meta"]]) == "value"
