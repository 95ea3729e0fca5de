"""GitOps: a folder with the desired state of the platform; show the differences, and apply them.

The folder has ``tenants.yaml`` and ``recipes/*.yaml``, and for a cluster ``kubernetes.yaml``, ``flavours.yaml``,
``models.yaml`` and ``servers.yaml``. A registered recipe that is not in the folder stays: its results need it.
"""

from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path

from ft_assets.api.clusters import cluster_manifests
from ft_assets.api.defaults import Orchestrator, actor_or_user, store_or_default, tenants_or_default
from ft_assets.api.folder_steps import SETTINGS, FolderStep, step_of
from ft_assets.api.recipes import has_recipe
from ft_assets.api.registration import register_recipe
from ft_assets.control.lines.lines import address_at
from ft_assets.control.lines.walls import walls_of_recipe
from ft_assets.control.recipes.stored import StoredRecipe
from ft_assets.control.registry import register
from ft_assets.records.submissions import open_submissions
from ft_assets.settings.models import load_models
from ft_assets.settings.servers import load_servers
from ft_assets.settings.tenants import TenantsFile, load_tenants
from ft_resources.artifacts import Artifacts
from ft_resources.errors import BadRecipe, Misconfigured, NotPermitted
from ft_resources.hub import Hub
from ft_resources.kubernetes.api import Api, jobs
from ft_resources.kubernetes.applying import WARM, Difference, carry_out, differences, strays
from ft_resources.kubernetes.kueue_api import served_version
from ft_resources.kubernetes.names import MANAGED, STORE, TENANT, store_label
from ft_resources.kubernetes.objects import Object, ended, name_of
from ft_resources.kubernetes.settings_file import read_settings
from ft_resources.store import Store

_CONFIG_MAP = "ft-settings"
_QUEUE = "ft-"


def plan_folder(
    folder: Path, *, store: Store | None = None, cluster: Api | None = None, actor: str = "", hub: Hub | None = None
) -> list[FolderStep]:
    """What ``apply_folder`` would do; nothing is written.

    Args:
        cluster: the one of the kubeconfig where not given; not asked for a folder without ``kubernetes.yaml``.
        hub: where recipes' bases are looked up, as by a registration.

    Raises UserError for files that cannot be read or would be refused; ClusterUnavailable, StoreUnavailable.
    """
    tenants = _tenants_of(folder)
    store = store_or_default(store)
    found = [step_of(each) for each in _on_cluster(folder, tenants, store, cluster or _cluster_of(folder))]
    recipes = _unregistered(folder, store, tenants, actor, hub)
    return [*found, *(step for _, step in recipes)]


def apply_folder(
    folder: Path,
    *,
    store: Store | None = None,
    cluster: Api | None = None,
    orchestrator: Orchestrator | None = None,
    actor: str = "",
    hub: Hub | None = None,
    told: Callable[[FolderStep], None] = lambda step: None,
) -> list[FolderStep]:
    """Bring the platform to what the folder says; ``told`` hears of each step when it is done.

    Again, it does nothing. What was interrupted is completed by asking once more. Raises NotPermitted before anything
    is written if something would be deleted whose tenant has work in flight; else as ``plan_folder``.
    """
    tenants = _tenants_of(folder)
    store = store_or_default(store, create=True)
    cluster = cluster or _cluster_of(folder)
    on_cluster = _on_cluster(folder, tenants, store, cluster)
    recipes = _unregistered(folder, store, tenants, actor, hub)
    _require_idle([each.object for each in on_cluster if each.verb == "delete"], store, cluster)
    done = []

    def note(step: FolderStep) -> None:
        done.append(step)
        told(step)

    for each in on_cluster:
        assert cluster is not None
        carry_out(cluster, each)
        note(step_of(each))
    for file, step in recipes:
        register_recipe(file, store=store, tenants=tenants, actor=actor, orchestrator=orchestrator, hub=hub)
        note(step)
    return done


def _tenants_of(folder: Path) -> TenantsFile:
    if not folder.is_dir():
        raise Misconfigured("there is no such folder", where=str(folder), remedy="Name the folder of tenants.yaml.")
    file = folder / "tenants.yaml"
    if (folder / "kubernetes.yaml").exists() and not file.exists():
        raise Misconfigured(
            "a folder for a cluster has tenants.yaml, and this one has none",
            where=str(file),
            remedy="Add the file: without it every tenant would be removed. A file without tenants is `{}`.",
        )
    return load_tenants(file) if file.exists() else tenants_or_default(None)


def _cluster_of(folder: Path) -> Api | None:
    return Api.connect() if (folder / "kubernetes.yaml").exists() else None


def _on_cluster(folder: Path, tenants: TenantsFile, store: Store, cluster: Api | None) -> list[Difference]:
    """What differs on the cluster: the settings that pods mount, then tenants' objects, then what is too much."""
    if cluster is None:
        return []
    settings = read_settings(str(folder / "kubernetes.yaml"))
    for name, load in (("models.yaml", load_models), ("servers.yaml", load_servers)):
        if (folder / name).exists():
            load(folder / name)
    flavours, kueue = folder / "flavours.yaml", served_version(cluster)
    objects = cluster_manifests(
        flavours=flavours if flavours.exists() else None,
        kueue=kueue or "v1beta2",
        tenants=tenants,
        settings=settings,
    )
    mark = store_label(store.url)
    wanted = [_marked(each, mark) for each in objects]
    files = {name: (folder / name).read_text(encoding="utf-8") for name in SETTINGS if (folder / name).exists()}
    metadata = {"name": _CONFIG_MAP, "namespace": settings.control_namespace}
    mounted = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": files}
    first = differences(cluster, [mounted])
    if [each.verb for each in first] == ["create"]:
        raise Misconfigured(
            f"the platform is not installed on this cluster: there is no ConfigMap {_CONFIG_MAP}",
            where=f"namespace {settings.control_namespace}",
            remedy="Install the chart first (docs/start/cluster.md), or point KUBECONFIG to another cluster.",
        )
    gone = strays(cluster, wanted, f"{STORE}={mark}", kueue or "")
    if settings.queue and not flavours.exists() and any(each.object["kind"] == "ClusterQueue" for each in gone):
        raise Misconfigured(
            "kubernetes.yaml names a queue, and the folder has no flavours.yaml any more",
            where=str(flavours),
            remedy="Add the file: without it every tenant would lose its queue. Without Kueue, leave out `queue`.",
        )
    return [*first, *differences(cluster, wanted), *gone]


def _marked(manifest: Object, mark: str) -> Object:
    """With the label by which it is found once it is gone from the folder; a platform of another store on the same
    cluster has another label."""
    labels = {**manifest["metadata"].get("labels", {}), STORE: mark}
    return {**manifest, "metadata": {**manifest["metadata"], "labels": labels}}


class _CheckedError(Exception):
    """Raised in place of a registration once a recipe has passed every check."""


def _unregistered(
    folder: Path, store: Store, tenants: TenantsFile, actor: str, hub: Hub | None
) -> list[tuple[Path, FolderStep]]:
    """The files of recipes that would be registered, with the step that tells what keeps their results out of
    production. Every file is checked as by a registration; raises BadRecipe also for two with one key."""
    files: dict[str, Path] = {}
    steps = []
    for file in sorted((folder / "recipes").glob("*.yaml")):
        stored = _checked(file, store, tenants, actor, hub)
        key = stored.recipe.key
        if key in files:
            raise BadRecipe(
                f"recipe {key} is in two files, {files[key].name} and {file.name}",
                where=str(file.parent),
                remedy="Remove one of them, or give it another key.",
            )
        files[key] = file
        if not has_recipe(key, store=store):
            told = (f"production: {wall}" for wall in walls_of_recipe(Artifacts(store), tenants, stored))
            steps.append((file, FolderStep(verb="create", what=f"recipe {key}", details=tuple(told))))
    return steps


def _checked(file: Path, store: Store, tenants: TenantsFile, actor: str, hub: Hub | None) -> StoredRecipe:
    """The recipe in ``file``, as a registration would record it, after every check of one."""
    found = []

    def stop(recipe: StoredRecipe) -> None:
        found.append(recipe)
        raise _CheckedError

    with suppress(_CheckedError):
        register.register_recipe(
            store, file, actor=actor_or_user(actor), tenants=tenants, hub=hub, at_stage=address_at, before=stop
        )
    (stored,) = found
    return stored


def _require_idle(gone: Sequence[Object], store: Store, cluster: Api | None) -> None:
    """Refuse to delete what work in flight needs: work of its tenant, or of any tenant for shared objects. None needs
    that nodes stay warm."""
    gone = [each for each in gone if each["kind"] not in WARM]
    if not gone or cluster is None:
        return
    busy = {each.tenant for each in open_submissions(store)}
    busy |= {
        job["metadata"]["labels"].get(TENANT, "")
        for job in cluster.items(jobs(), {"labelSelector": MANAGED})
        if not ended(job)
    }
    for each in gone:
        tenant = _tenant_of(each)
        if held := sorted(busy & {tenant} if tenant else busy):
            raise NotPermitted(
                f"{name_of(each)} would be deleted, and work of {', '.join(held)} is in flight",
                where="nothing was changed",
                remedy="Wait for it or cancel it (ft status --tenant, ft cancel), or leave it in the files until then.",
            )


def _tenant_of(manifest: Object) -> str:
    """The tenant of an object; "" for one that tenants share."""
    metadata = manifest["metadata"]
    if manifest["kind"] == "ClusterQueue":
        return str(metadata["name"]).removeprefix(_QUEUE)
    return str((metadata.get("labels") or {}).get(TENANT, ""))
