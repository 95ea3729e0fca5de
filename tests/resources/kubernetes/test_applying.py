"""What an apply deletes."""

from collections.abc import Mapping, Sequence
from typing import Any

from ft_resources.kubernetes.api import Api
from ft_resources.kubernetes.applying import strays
from ft_resources.kubernetes.objects import Object


class Listing(Api):
    """A cluster with two namespaces, of which ``acme`` is deleted already and waits for what is in it."""

    def items(self, path: str, query: Mapping[str, str], *, patient: bool = True) -> Sequence[Object]:
        names: list[dict[str, Any]] = [{"name": "acme", "deletionTimestamp": "2026-01-01T00:00:00Z"}, {"name": "left"}]
        if path.endswith("/namespaces"):
            return [{"metadata": each} for each in names]
        return [{"metadata": {"name": "ft", "namespace": each["name"]}} for each in names]


def test_what_is_being_deleted_and_what_is_in_it_is_not_deleted_again() -> None:
    wanted = [
        {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "globex"}},
        {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "ft", "namespace": "globex"}},
    ]
    gone = [each.object for each in strays(Listing(client=None), wanted, "a=b", "")]
    assert [(each["kind"], each["metadata"]["name"]) for each in gone] == [("Namespace", "left")]


def test_warm_nodes_that_the_files_no_longer_have_are_deleted_though_they_were_the_only_ones_of_their_kinds() -> None:
    class Warm(Api):
        def items(self, path: str, query: Mapping[str, str], *, patient: bool = True) -> Sequence[Object]:
            return [{"metadata": {"name": "ft-warm"}}] if "deployments" in path or "priorityclasses" in path else []

    wanted = [{"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "ft-shared"}}]
    gone = strays(Warm(client=None), wanted, "a=b", "")
    assert {(each.object["apiVersion"], each.object["kind"]) for each in gone} == {
        ("apps/v1", "Deployment"),
        ("scheduling.k8s.io/v1", "PriorityClass"),
    }
