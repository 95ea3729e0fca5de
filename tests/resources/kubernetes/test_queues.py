"""Queues, priorities that change with time, and Volcano: as reviewed."""

import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ft_resources.kubernetes.ageing import STEPS, Rules, all_classes, class_for
from ft_resources.kubernetes.kueue import PRIORITIES, Flavour, platform_queues
from ft_resources.kubernetes.plan import plan_pod
from ft_resources.kubernetes.volcano import volcano_job
from tests.resources.kubernetes.specs import settings_of, spec_of

QUOTA = {"cpu": "64", "memory": "768Gi", "nvidia.com/gpu": "8"}
FLAVOURS = [
    Flavour(name="h100-on-demand", labels={"gpu": "h100", "capacity": "on-demand"}, quota=QUOTA, topology="racks"),
    Flavour(
        name="h100-spot",
        labels={"gpu": "h100", "capacity": "spot"},
        quota=QUOTA,
        taints=[{"key": "spot", "value": "true", "effect": "NoSchedule"}],
    ),
]
GOLDEN = Path(__file__).parent


def test_the_queues_of_a_platform_are_as_reviewed() -> None:
    found = platform_queues(settings_of(queue="ft-{tenant}"), FLAVOURS, ["acme", "globex"])
    assert found == json.loads((GOLDEN / "queues.json").read_text())


def test_volcanos_job_is_as_reviewed() -> None:
    plan = plan_pod(spec_of(runtime={"nodes": 2}, gpus=1), settings_of())
    assert volcano_job(plan, "ft-acme") == json.loads((GOLDEN / "volcano.json").read_text())


def test_every_tenant_has_a_queue_of_its_own_that_only_its_namespace_may_use() -> None:
    found = platform_queues(settings_of(queue="ft-{tenant}"), FLAVOURS, ["acme", "globex"])
    queues = {each["metadata"]["name"]: each["spec"] for each in found if each["kind"] == "ClusterQueue"}
    for tenant in ("acme", "globex"):
        selector = queues[f"ft-{tenant}"]["namespaceSelector"]["matchLabels"]
        assert selector == {"kubernetes.io/metadata.name": f"ft-{tenant}"}


@given(waited=st.floats(0, 1e7), ran=st.floats(0, 1e7), expected=st.none() | st.floats(1, 1e6))
def test_every_class_that_ageing_names_exists_and_none_reaches_the_next_priority_by_waiting(
    waited: float, ran: float, expected: float | None
) -> None:
    classes = all_classes("batch", "ft-batch")
    assert class_for("ft-batch", Rules(), waited_s=waited, ran_s=ran, expected_s=expected) in classes
    aged = class_for("ft-batch", Rules(), waited_s=waited)
    assert PRIORITIES["batch"] <= classes[aged] < PRIORITIES["production"]


@pytest.mark.parametrize(("waited_h", "steps"), [(0, 0), (3.9, 0), (4, 1), (9, 2), (100, STEPS)])
def test_work_rises_while_it_waits(waited_h: float, steps: int) -> None:
    expected = f"ft-batch-age-{steps}" if steps else "ft-batch"
    assert class_for("ft-batch", Rules(), waited_s=waited_h * 3600) == expected


@pytest.mark.parametrize(("ran_s", "kept"), [(0, False), (79, False), (80, True), (150, True), (200, False)])
def test_work_that_is_nearly_done_is_kept_unless_the_expectation_was_wrong(ran_s: float, kept: bool) -> None:
    found = class_for("ft-batch", Rules(keep_from=0.8), ran_s=ran_s, expected_s=100.0)
    assert (found == "ft-batch-done") is kept
    if kept:
        assert all_classes("batch", "ft-batch")[found] > max(PRIORITIES.values())
