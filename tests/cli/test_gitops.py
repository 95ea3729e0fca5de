"""A folder under version control: planned, applied, and then nothing differs; also on a test cluster."""

import shutil
from pathlib import Path

import pytest
import yaml

from ft_assets import api
from ft_resources.kubernetes.api import Api
from tests.cli.conftest import Ft
from tests.cluster.cluster import Cluster
from tests.cluster.fixtures import Access
from tests.cluster.objects import CLUSTER_QUEUES, CONFIG_MAPS, JOBS, NAMESPACES, POLICIES
from tests.e2e.project import Project
from tests.k8s.chart import K8S

pytestmark = pytest.mark.dagster
BASE = K8S / "kustomize" / "base"
TENANTS = {"tiers": {"free": {"quota": {"hard_gpu_hours": 2}}}, "tenants": {"acme": {"tier": "free"}}}


@pytest.fixture
def folder(project: Project) -> Path:
    """Recipes of the project, and a tenant."""
    folder = project.folder / "platform"
    (folder / "recipes").mkdir(parents=True)
    write(folder, TENANTS)
    for key in ("tiny.v1", "other.v1"):
        file = project.recipe(key, base=f"folder:{project.folder / 'base'}")
        file.rename(folder / "recipes" / file.name)
    return folder


@pytest.fixture
def installed(cluster: Access, folder: Path, monkeypatch: pytest.MonkeyPatch) -> Cluster:
    """A cluster with the chart's namespace and settings, for which the folder has files too."""
    made = cluster.machines
    monkeypatch.setenv("KUBECONFIG", str(cluster.kubeconfig))
    for name in ("kubernetes.yaml", "flavours.yaml"):
        shutil.copy(BASE / name, folder)
    made.objects.create(NAMESPACES, "", {"metadata": {"name": "ft-system"}})
    settings = {"metadata": {"name": "ft-settings"}, "data": {"tenants.yaml": yaml.safe_dump(TENANTS), "x.yaml": "{}"}}
    made.objects.create(CONFIG_MAPS, "ft-system", settings)
    return made


def write(folder: Path, tenants: object) -> None:
    (folder / "tenants.yaml").write_text(yaml.safe_dump(tenants))


def test_recipes_are_planned_then_registered_and_then_nothing_differs(ft: Ft, folder: Path, project: Project) -> None:
    planned = ft("plan", folder)
    steps = [line for line in planned.stdout.splitlines() if not line.startswith("    production: ")]
    assert (planned.exit_code, steps) == (0, ["+ recipe other.v1", "+ recipe tiny.v1"]), planned.output
    assert api.list_recipes(store=project.store) == []
    assert ft("apply", folder).stdout == planned.stdout
    assert [each.recipe.key for each in api.list_recipes(store=project.store)] == ["other.v1", "tiny.v1"]
    for command in ("plan", "apply"):
        again = ft(command, folder)
        assert (again.exit_code, again.stdout) == (0, "")
        assert "nothing differ" in again.stderr


def test_a_recipe_that_changed_under_its_key_is_refused_before_anything_is_done(
    ft: Ft, folder: Path, project: Project
) -> None:
    assert ft("apply", folder).exit_code == 0
    file = folder / "recipes" / "tiny.v1.yaml"
    file.write_text(file.read_text().replace("max_steps: 8", "max_steps: 9"))
    project.recipe("new.v1", base=f"folder:{project.folder / 'base'}").rename(folder / "recipes" / "a-new.yaml")
    for command in ("plan", "apply"):
        refused = ft(command, folder)
        assert refused.exit_code == 2
        assert "tiny.v1" in refused.stderr
    assert not api.has_recipe("new.v1", store=project.store)


def test_two_files_with_the_key_of_one_recipe_are_refused_by_their_names(
    ft: Ft, folder: Path, project: Project
) -> None:
    shutil.copy(folder / "recipes" / "tiny.v1.yaml", folder / "recipes" / "wide.v1.yaml")
    for command in ("plan", "apply"):
        refused = ft(command, folder)
        assert (refused.exit_code, refused.stdout) == (2, "")
        assert "recipe tiny.v1 is in two files, tiny.v1.yaml and wide.v1.yaml" in refused.stderr
    assert api.list_recipes(store=project.store) == []


def test_a_cluster_is_brought_to_the_folder_and_then_nothing_differs(ft: Ft, folder: Path, installed: Cluster) -> None:
    planned = ft("plan", folder).stdout.splitlines()
    assert planned[0] == "~ ConfigMap ft-system/ft-settings"
    assert {"+ Namespace ft-acme", "+ ClusterQueue ft-acme", "+ RoleBinding ft-acme/ft-launcher"} < set(planned)
    assert installed.objects.list(CLUSTER_QUEUES) == []
    assert ft("apply", folder).stdout.splitlines() == planned
    assert ft("plan", folder).stdout == "", ft("plan", folder).stdout
    settings = installed.objects.get(CONFIG_MAPS, "ft-system", "ft-settings")["data"]
    assert settings["tenants.yaml"] == (folder / "tenants.yaml").read_text()
    assert settings["x.yaml"] == "{}"


def test_a_plan_says_which_quota_changes(ft: Ft, folder: Path, installed: Cluster) -> None:
    assert ft("apply", folder).exit_code == 0
    tiers = {"free": {"quota": {"hard_gpu_hours": 5, "concurrent": 1}}}
    write(folder, TENANTS | {"tiers": tiers})
    assert ft("plan", folder).stdout.splitlines()[:3] == [
        "~ ConfigMap ft-system/ft-settings",
        "    tenants.yaml: tiers.free.quota.concurrent: not set -> 1",
        "    tenants.yaml: tiers.free.quota.hard_gpu_hours: 2 -> 5",
    ]


def test_settings_that_no_pod_could_read_are_refused(ft: Ft, folder: Path, installed: Cluster) -> None:
    for name in ("models.yaml", "servers.yaml"):
        (folder / name).write_text("unknown: 1\n")
        for command in ("plan", "apply"):
            refused = ft(command, folder)
            assert (refused.exit_code, refused.stdout, name in refused.stderr) == (2, "", True)
        assert name not in installed.objects.get(CONFIG_MAPS, "ft-system", "ft-settings")["data"]
        (folder / name).unlink()


def test_settings_that_somebody_broke_by_hand_are_set_right(ft: Ft, folder: Path, installed: Cluster) -> None:
    for broken in ("tiers: [", "- acme"):

        def break_it(draft: dict[str, object], broken: str = broken) -> None:
            draft["data"] = {"tenants.yaml": broken}

        settings = installed.objects.get(CONFIG_MAPS, "ft-system", "ft-settings")
        installed.objects.change(CONFIG_MAPS, settings, break_it)
        assert "    tenants.yaml: it was not a settings file" in ft("plan", folder).stdout.splitlines()
        assert ft("apply", folder).exit_code == 0
    assert ft("plan", folder).stdout == ""


def test_what_somebody_changed_by_hand_is_found_and_set_right(ft: Ft, folder: Path, installed: Cluster) -> None:
    assert ft("apply", folder).exit_code == 0
    policy = installed.objects.get(POLICIES, "ft-acme", "ft-store")

    def open_wide(draft: dict[str, object]) -> None:
        draft["spec"] = {"podSelector": {}, "policyTypes": ["Egress"], "egress": [{}]}

    installed.objects.change(POLICIES, policy, open_wide)
    (line, detail) = ft("plan", folder).stdout.splitlines()
    assert line == "~ NetworkPolicy ft-acme/ft-store"
    assert detail.startswith("    spec.egress: [{}] -> [{'to'")
    assert ft("apply", folder).exit_code == 0
    assert ft("plan", folder).stdout == ""
    assert installed.objects.get(POLICIES, "ft-acme", "ft-store")["spec"] == policy["spec"]


def test_a_policy_that_the_settings_no_longer_ask_for_goes(ft: Ft, folder: Path, installed: Cluster) -> None:
    settings = folder / "kubernetes.yaml"
    before = settings.read_text()
    settings.write_text(before + "monitoring_namespace: monitoring\n")
    assert ft("apply", folder).exit_code == 0
    assert installed.objects.find(POLICIES, "ft-acme", "ft-metrics")
    settings.write_text(before)
    assert "- NetworkPolicy ft-acme/ft-metrics" in ft("apply", folder).stdout
    assert installed.objects.find(POLICIES, "ft-acme", "ft-metrics") is None


def test_a_folder_that_lost_its_tenants_file_deletes_nobody(ft: Ft, folder: Path, installed: Cluster) -> None:
    assert ft("apply", folder).exit_code == 0
    (folder / "tenants.yaml").rename(folder / "tenants.yml")
    for command in ("plan", "apply"):
        refused = ft(command, folder)
        assert (refused.exit_code, refused.stdout) == (2, "")
        assert "tenants.yaml" in refused.stderr
    assert installed.objects.find(NAMESPACES, "", "ft-acme")


def test_a_folder_that_lost_its_flavours_file_takes_nobodys_queue(ft: Ft, folder: Path, installed: Cluster) -> None:
    assert ft("apply", folder).exit_code == 0
    (folder / "flavours.yaml").unlink()
    refused = ft("apply", folder)
    assert refused.exit_code == 2
    assert "the folder has no flavours.yaml any more" in " ".join(refused.stderr.split())
    settings = (folder / "kubernetes.yaml").read_text()
    (folder / "kubernetes.yaml").write_text(settings.replace("queue: ft-{tenant}\n", ""))
    queues = {"ResourceFlavor cpu", "Cohort ft", "ClusterQueue ft-acme", "LocalQueue ft-acme/ft-acme"}
    assert queues < deleted(ft("plan", folder).stdout)


def test_tenants_of_another_platform_on_the_cluster_stay(
    ft: Ft, folder: Path, installed: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert ft("apply", folder).exit_code == 0
    write(folder, {"tenants": {"umbrella": {}}})
    settings = folder / "kubernetes.yaml"
    settings.write_text(settings.read_text().replace("ft-{tenant}", "staging-{tenant}"))
    monkeypatch.setenv("FT_STORE", str(folder / "other-store"))
    for file in (folder / "recipes").iterdir():
        file.unlink()
    done = ft("apply", folder)
    assert "+ Namespace staging-umbrella" in done.stdout.splitlines(), done.output
    assert [line for line in done.stdout.splitlines() if line.startswith("-")] == []
    assert installed.objects.find(NAMESPACES, "", "ft-acme")


def test_a_tenant_that_left_keeps_its_namespace_while_it_has_work_and_nothing_else_is_done(
    ft: Ft, folder: Path, installed: Cluster, cluster: Access
) -> None:
    assert ft("apply", folder).exit_code == 0
    write(folder, {"tenants": {"globex": {}}})
    labels = {"app.kubernetes.io/managed-by": "ft-platform", "ft.platform/tenant": "acme"}
    container = {"name": "t", "image": "x", "command": ["sleep", "600"]}
    pod = {"spec": {"restartPolicy": "Never", "containers": [container]}}
    spec = {"completionMode": "Indexed", "completions": 1, "suspend": True, "template": pod}
    job = {"metadata": {"name": "training", "labels": labels}, "spec": spec}
    cluster.batch.create_namespaced_job("ft-acme", job)
    assert {"- Namespace ft-acme", "- ClusterQueue ft-acme"} < set(ft("plan", folder).stdout.splitlines())
    refused = ft("apply", folder)
    assert (refused.exit_code, refused.stdout) == (2, "")
    assert "work of acme is in flight" in " ".join(refused.stderr.split())
    assert "acme" in installed.objects.get(CONFIG_MAPS, "ft-system", "ft-settings")["data"]["tenants.yaml"]

    installed.objects.delete(JOBS, "ft-acme", "training", {"propagationPolicy": "Background"})
    done = ft("apply", folder)
    assert {"- Namespace ft-acme", "- ClusterQueue ft-acme"} < set(done.stdout.splitlines()), done.output
    assert installed.objects.find(CLUSTER_QUEUES, "", "ft-globex")
    assert ft("plan", folder).stdout == ""


def test_nodes_need_not_stay_warm_until_no_work_is_in_flight(
    ft: Ft, folder: Path, installed: Cluster, pair: tuple[str, str]
) -> None:
    settings = folder / "kubernetes.yaml"
    before = settings.read_text()
    settings.write_text(before + "keep_warm: {H100: {}}\n")
    assert ft("apply", folder).exit_code == 0
    assert ft("submit", *pair).exit_code == 0
    settings.write_text(before)
    assert "- Deployment ft-shared/ft-warm-h100" in ft("apply", folder).stdout.splitlines()


def test_an_open_submission_keeps_its_tenants_objects_too(
    ft: Ft, folder: Path, installed: Cluster, pair: tuple[str, str]
) -> None:
    assert ft("apply", folder).exit_code == 0
    assert ft("submit", *pair).exit_code == 0
    write(folder, {"tenants": {"globex": {}}})
    refused = ft("apply", folder)
    assert refused.exit_code == 2
    assert "work of acme is in flight" in " ".join(refused.stderr.split())


def test_a_cluster_without_the_platform_is_told_as_such(ft: Ft, folder: Path, installed: Cluster) -> None:
    installed.objects.delete(CONFIG_MAPS, "ft-system", "ft-settings")
    refused = ft("plan", folder)
    assert refused.exit_code == 2
    assert "the platform is not installed on this cluster" in " ".join(refused.stderr.split())


def test_an_apply_that_was_interrupted_is_completed_by_another(
    folder: Path, installed: Cluster, project: Project, cluster: Access
) -> None:
    done: list[api.FolderStep] = []

    def stop(step: api.FolderStep) -> None:
        done.append(step)
        if len(done) == 5:
            raise KeyboardInterrupt

    connected = Api(client=cluster.client(retries=0))
    whole = api.plan_folder(folder, store=project.store, cluster=connected)
    with pytest.raises(KeyboardInterrupt):
        api.apply_folder(folder, store=project.store, cluster=connected, told=stop)
    rest = api.plan_folder(folder, store=project.store, cluster=connected)
    assert [each.what for each in rest] == [each.what for each in whole[5:]]


def test_what_the_cluster_refuses_is_told_by_its_name(ft: Ft, folder: Path, installed: Cluster) -> None:
    # Each apply comes as far as the object that is refused, so these stand in the order in which they are applied.
    for code, where, command, told in (
        (403, "GET .*/namespaces/ft-acme", "plan", "the cluster refuses Namespace ft-acme (403"),
        (403, "GET .*/v1/networkpolicies", "plan", "a list of /apis/networking.k8s.io/v1/networkpolicies (403"),
        (404, "PATCH .*/cohorts", "apply", "install Kueue, or a newer one"),
        (422, "PATCH .*/clusterqueues", "apply", "the cluster refuses ClusterQueue ft-acme (422"),
        (403, "PATCH .*/rolebindings", "apply", "the cluster refuses RoleBinding ft-acme/ft-launcher (403"),
    ):
        installed.answer(code, where)
        refused = ft(command, folder)
        assert (refused.exit_code, told in " ".join(refused.stderr.split())) == (2, True), (where, refused.output)
    assert ft("apply", folder).exit_code == 0


def test_flavours_may_name_their_resources_in_any_order(ft: Ft, folder: Path, installed: Cluster) -> None:
    """Kueue refuses a queue whose flavours do not."""
    file = folder / "flavours.yaml"
    said = yaml.safe_load(file.read_text())
    said["flavours"][1]["capacity"] = dict(reversed(said["flavours"][1]["capacity"].items()))
    file.write_text(yaml.safe_dump(said, sort_keys=False))
    applied = ft("apply", folder)
    assert applied.exit_code == 0, applied.output
    assert len(installed.objects.list(CLUSTER_QUEUES)) == 2


def test_what_left_the_flavours_is_deleted_and_told_so(ft: Ft, folder: Path, installed: Cluster) -> None:
    file = folder / "flavours.yaml"
    written = yaml.safe_load(file.read_text())
    provisioned = {"class_name": "check-capacity.autoscaling.x-k8s.io"}
    written["flavours"][1] |= {"provisioning": provisioned}
    file.write_text(yaml.safe_dump(written))
    assert ft("apply", folder).exit_code == 0
    assert ft("plan", folder).stdout == ""
    del written["flavours"][1]
    file.write_text(yaml.safe_dump(written))
    gone = {"ResourceFlavor h100-spot"} | {
        f"{kind} ft-provision-h100-spot" for kind in ("AdmissionCheck", "ProvisioningRequestConfig")
    }
    assert deleted(ft("plan", folder).stdout) == gone
    assert ft("apply", folder).exit_code == 0
    assert ft("plan", folder).stdout == ""


def deleted(plan: str) -> set[str]:
    return {line.removeprefix("- ") for line in plan.splitlines() if line.startswith("- ")}
