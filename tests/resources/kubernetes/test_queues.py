"""Queues and priority classes: as reviewed."""

import json
from pathlib import Path

from ft_resources.kubernetes.kueue import Flavour, platform_queues
from tests.resources.kubernetes.specs import settings_of

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


def test_every_tenant_has_a_queue_of_its_own_that_only_its_namespace_may_use() -> None:
    found = platform_queues(settings_of(queue="ft-{tenant}"), FLAVOURS, ["acme", "globex"])
    queues = {each["metadata"]["name"]: each["spec"] for each in found if each["kind"] == "ClusterQueue"}
    for tenant in ("acme", "globex"):
        selector = queues[f"ft-{tenant}"]["namespaceSelector"]["matchLabels"]
        assert selector == {"kubernetes.io/metadata.name": f"ft-{tenant}"}
