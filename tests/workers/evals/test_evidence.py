"""Evidence that is spoilt, or contradicts itself, cannot be read."""

import copy
import json
import math
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from ft_assets.settings.recipe.acceptance import GateSettings
from ft_assets.workers.evals.evidence import BadEvidence, SuiteEvidence, read_evidence
from ft_assets.workers.evals.gates import judge, passed
from ft_resources.canonical import canonical_json
from tests.workers.evals.results import FINGERPRINT, SUITE, make_evidence, make_measured, suite_evidence


def numbers_in(value: Any, path: tuple[str | int, ...] = ()) -> list[tuple[str | int, ...]]:
    if isinstance(value, dict):
        return [p for key, item in value.items() for p in numbers_in(item, (*path, key))]
    if isinstance(value, list):
        return [p for index, item in enumerate(value) for p in numbers_in(item, (*path, index))]
    return [path] if isinstance(value, int | float) and not isinstance(value, bool) else []


GOOD = make_evidence().model_dump(mode="json")


@given(st.sampled_from(numbers_in(GOOD)), st.sampled_from([math.nan, math.inf, -math.inf, None, "0.5", True]))
def test_evidence_with_any_number_spoilt_cannot_be_read(path: tuple[str | int, ...], spoilt: object) -> None:
    if (spoilt is None and path[-1] == "relative_gain") or (spoilt is True and path == ("version",)):
        return  # Both are read, and mean what they say.
    broken = copy.deepcopy(GOOD)
    place: Any = broken
    for key in path[:-1]:
        place = place[key]
    place[path[-1]] = spoilt
    with pytest.raises(BadEvidence, match="cannot be read as evidence"):
        read_evidence(json.dumps(broken).encode(), "report.json")


@given(st.sampled_from([path for path in numbers_in(GOOD) if path[0] in ("suites", "holdout")]), st.floats(0.01, 0.4))
def test_scores_that_contradict_their_difference_cannot_be_read(path: tuple[str | int, ...], shift: float) -> None:
    if path[-1] in ("n", "p_value") or isinstance(path[-1], int):
        return
    broken = copy.deepcopy(GOOD)
    place: Any = broken
    for key in path[:-1]:
        place = place[key]
    place[path[-1]] += shift
    with pytest.raises(BadEvidence):
        read_evidence(json.dumps(broken).encode(), "report.json")


def test_an_interval_beside_its_difference_cannot_be_read() -> None:
    # A drop of 5 points whose interval claims a gain would be judged by the interval alone.
    report = make_evidence(suites={SUITE: suite_evidence(0.5, 0.49)}).model_dump(mode="json")
    report["suites"][SUITE]["interval_points"] = [3.0, 4.0]
    with pytest.raises(BadEvidence, match="interval contradicts"):
        read_evidence(json.dumps(report).encode(), "report.json")


def test_good_evidence_survives_being_written_and_read() -> None:
    evidence = make_evidence()
    assert read_evidence(canonical_json(evidence.model_dump(mode="json")), "x") == evidence
    assert passed(judge(make_measured(), GateSettings(), expected_fingerprint=FINGERPRINT, suites=[SUITE]))
    with pytest.raises(BadEvidence):
        read_evidence(b"", "x")


def test_a_suite_score_outside_its_range_is_no_evidence() -> None:
    with pytest.raises(ValidationError):
        SuiteEvidence(metric="acc", base=0.5, candidate=1.5, n=3, difference_points=100.0, interval_points=(0.0, 200.0))
