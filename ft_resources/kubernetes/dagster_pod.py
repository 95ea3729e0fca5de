"""Additions of Dagster's configuration to a worker's pod, by dagster-k8s's functions and within the settings' bounds.

``Config`` is ``UserDefinedDagsterK8sConfig.to_dict()``: Kubernetes' fields in snake case.
"""

import re
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from ft_resources.errors import UserError
from ft_resources.kubernetes import names
from ft_resources.kubernetes.from_dagster import FromDagster
from ft_resources.kubernetes.places import Toleration
from ft_resources.kubernetes.worker_settings import MOUNTS

Config = dict[str, Any]
Item = dict[str, Any]

_RESERVED_VARIABLES = ("FT_", "AWS_", "KUBERNETES_", "LD_", "MASTER_", "NODE_", "PYTHON", "PYTORCH_")
"""Beginnings of names by which the launcher, or a process that starts, is told what to do."""
_RESERVED_LABELS = (f"{names.PREFIX}/", "kueue.x-k8s.io/", "batch.kubernetes.io/", "app.kubernetes.io/", "job-name")
_SIZES = {f"{part}.{name}" for part in ("limits", "requests") for name in ("cpu", "memory", "ephemeral-storage")}
"""GPUs and networks are what the recipe is billed for."""
_QUANTITY = re.compile(r"[1-9][0-9]*(\.[0-9]+)?(m|k|Ki|M|Mi|G|Gi|T|Ti)?")


def honoured(from_instance: Config, from_work: Config, bounds: FromDagster) -> Config:
    """One configuration of both.

    Args:
        from_instance: of the instance's run launcher and the code location. It describes the pods of runs, which have
            other duties and the control plane's rights: workers get what the settings name, and nothing else of it.
        from_work: of the tags of the job's and the op's definitions. It describes this work.

    Raises UserError for a field of ``from_work`` that no pod of a tenant may have.
    """
    from dagster_k8s.container_context import K8sContainerContext
    from dagster_k8s.job import UserDefinedDagsterK8sConfig

    kept, _ = _within(from_instance, bounds, instance=True)
    check(from_work, bounds)
    one, other = (
        K8sContainerContext(run_k8s_config=UserDefinedDagsterK8sConfig.from_dict(c)) for c in (kept, from_work)
    )
    merged: Config = one.merge(other).run_k8s_config.to_dict()
    return {field: value for field, value in merged.items() if value and field != "merge_behavior"}


def check(config: Config, bounds: FromDagster) -> None:
    """Raises UserError if a tenant's pod may not have all of ``config``."""
    _, refused = _within(config, bounds, instance=False)
    if refused:
        raise UserError(
            f"workers' pods may not have what Dagster's configuration asks for: {', '.join(refused)}",
            where="dagster-k8s/config",
            remedy="Take it out of the tags of the op or the job, or have the platform's administrators name the "
            "object under from_dagster of the cluster's settings (docs/how-to/dagster-k8s.md).",
        )


def with_config(job: dict[str, Any], config: Config) -> dict[str, Any]:
    """The manifest ``job`` with ``config`` merged into it: what the launcher itself says stands."""
    from dagster_k8s.container_context import K8sContainerContext
    from dagster_k8s.job import DagsterK8sJobConfig, UserDefinedDagsterK8sConfig, construct_dagster_k8s_job
    from kubernetes.client import ApiClient

    template = job["spec"]["template"]
    (worker,) = template["spec"]["containers"]
    ours = UserDefinedDagsterK8sConfig(
        container_config=worker,
        pod_spec_config=_without(template["spec"], "containers"),
        pod_template_spec_metadata=template["metadata"],
        job_metadata=job["metadata"],
        job_spec_config=_without(job["spec"], "template"),
    )
    asked = K8sContainerContext(run_k8s_config=UserDefinedDagsterK8sConfig.from_dict(config))
    whole = asked.merge(K8sContainerContext(run_k8s_config=ours)).run_k8s_config
    made = construct_dagster_k8s_job(
        DagsterK8sJobConfig(), args=None, job_name=job["metadata"]["name"], user_defined_k8s_config=whole
    )
    found: dict[str, Any] = ApiClient().sanitize_for_serialization(made)
    pod = found["spec"]["template"]["spec"]
    # Empty lists that an API server would not store.
    for each in (pod, *pod["containers"]):
        for field in [name for name, value in each.items() if value == []]:
            del each[field]
    return found


def sizes_of(config: Config) -> tuple[float | None, float | None]:
    """CPUs and memory (GiB) that ``config`` asks for, None where it does not."""
    asked = config.get("container_config", {}).get("resources", {})
    limits, requests = asked.get("limits") or {}, asked.get("requests") or {}
    memory = _amount(limits.get("memory", requests.get("memory")))
    return _amount(requests.get("cpu", limits.get("cpu"))), memory and memory / 2**30


def _amount(quantity: Any) -> float | None:
    if quantity is None:
        return None
    from kubernetes.utils.quantity import parse_quantity

    return float(parse_quantity(quantity))


def places_of(config: Config, bounds: FromDagster) -> tuple[Mapping[str, str], list[Toleration]]:
    """Labels of nodes and tolerated taints that ``config`` asks for."""
    pod = config.get("pod_spec_config", {})
    known = {toleration_text(each): each for each in bounds.tolerations}
    return pod.get("node_selector", {}), [known[_text(each)] for each in pod.get("tolerations", ())]


def toleration_text(each: Toleration) -> str:
    """A toleration as the admission policy compares it."""
    return f"{each.key}:{'Exists' if each.value is None else 'Equal'}:{each.value or ''}:{each.effect}"


def _within(config: Config, bounds: FromDagster, *, instance: bool) -> tuple[Config, list[str]]:
    """The part of ``config`` within the bounds, and the names of the rest."""
    kept, refused = {}, list[str]()
    volumes = _Sieve(config.get("pod_spec_config", {}).get("volumes", ()), lambda item: _volume(item, bounds))
    mountable = {each.get("name") for each in volumes.kept}
    sieves: dict[str, Callable[[Any], _Sieve]] = {
        "container_config.env": lambda found: _Sieve(found, lambda item: _variable(item, bounds, instance)),
        "container_config.env_from": lambda found: _Sieve(found, lambda item: _source(item, bounds)),
        "container_config.volume_mounts": lambda found: _Sieve(found, lambda item: _mount(item, mountable)),
        "container_config.resources": lambda found: _Sieve.of_resources(found, instance),
        "pod_spec_config.volumes": lambda found: volumes,
        "pod_spec_config.tolerations": lambda found: _Sieve(found, lambda item: _toleration(item, bounds)),
        "pod_spec_config.node_selector": lambda found: _Sieve.of_pairs(
            found, lambda label, value: value in bounds.node_labels.get(label, ())
        ),
        "pod_template_spec_metadata.labels": lambda found: _Sieve.of_pairs(found, _label),
        "job_metadata.labels": lambda found: _Sieve.of_pairs(found, _label),
    }
    for part, fields in config.items():
        if part == "merge_behavior":
            kept[part] = fields
            continue
        for field, found in (fields or {}).items():
            name = f"{part}.{field}"
            if name not in sieves:
                refused.append(name)
                continue
            sieve = sieves[name](found)
            refused += [f"{name}: {each}" for each in sieve.refused]
            if sieve.kept:
                kept.setdefault(part, {})[field] = sieve.kept
    return kept, refused


class _Sieve:
    """``kept`` of a list of items, and what of it was ``refused``, by name."""

    def __init__(self, items: Iterable[Item], fits: Callable[[Item], bool]) -> None:
        self.kept: Any = []
        self.refused: list[str] = []
        for item in items:
            if fits(item):
                self.kept.append(item)
            else:
                self.refused.append(str(item.get("name") or item.get("key") or next(iter(item), "")))

    @classmethod
    def of_pairs(cls, found: Mapping[str, str], fits: Callable[[str, str], bool]) -> "_Sieve":
        sieve = cls([{"name": name} for name in found], lambda item: fits(item["name"], found[item["name"]]))
        sieve.kept = {item["name"]: found[item["name"]] for item in sieve.kept}
        return sieve

    @classmethod
    def of_resources(cls, found: Mapping[str, Any], instance: bool) -> "_Sieve":
        """Those of the instance are of a run, which only waits."""
        sieve = cls((), lambda item: False)
        asked = {f"{part}.{name}": size for part, sizes in found.items() for name, size in (sizes or {}).items()}
        sieve.refused = [
            name for name, size in asked.items() if name not in _SIZES or not _QUANTITY.fullmatch(str(size))
        ]
        sieve.kept = {} if instance or sieve.refused else dict(found)
        return sieve


def _variable(item: Item, bounds: FromDagster, instance: bool) -> bool:
    name = item.get("name", "")
    if not name or name.startswith(_RESERVED_VARIABLES) or (instance and name not in bounds.environment):
        return False
    source = item.get("value_from")
    if source is None or set(source) == {"field_ref"}:
        return True
    return _named(
        source, {"secret_key_ref": ("name", bounds.secrets), "config_map_key_ref": ("name", bounds.config_maps)}
    )


def _source(item: Item, bounds: FromDagster) -> bool:
    return _named(item, {"secret_ref": ("name", bounds.secrets), "config_map_ref": ("name", bounds.config_maps)})


def _volume(item: Item, bounds: FromDagster) -> bool:
    if item.get("name", "") in ("", *MOUNTS):
        return False
    return set(item) == {"name", "empty_dir"} or _named(
        item,
        {
            "secret": ("secret_name", bounds.secrets),
            "config_map": ("name", bounds.config_maps),
            "persistent_volume_claim": ("claim_name", bounds.claims),
        },
    )


def _named(item: Item, sources: Mapping[str, tuple[str, tuple[str, ...]]]) -> bool:
    """Whether the one source that ``item`` has is among ``sources``, and one of the objects named there."""
    (source, *others) = [field for field in item if field not in ("name", "prefix")] or [""]
    field, allowed = sources.get(source, ("", ()))
    return not others and item.get(source, {}).get(field) in allowed


def _mount(item: Item, mountable: set[str | None]) -> bool:
    path = item.get("mount_path", "").rstrip("/") + "/"
    clashes = any(path.startswith(f"{ours}/") or f"{ours}/".startswith(path) for ours in MOUNTS.values())
    simple = set(item) <= {"name", "mount_path", "sub_path", "read_only"} and path.startswith("/") and ".." not in path
    return item.get("name") in mountable and simple and not clashes


def _toleration(item: Item, bounds: FromDagster) -> bool:
    return _text(item) in map(toleration_text, bounds.tolerations)


def _text(item: Item) -> str:
    asked = {"operator": "Equal", **item}
    return ":".join(str(asked.get(field) or "") for field in ("key", "operator", "value", "effect"))


def _label(name: str, value: str) -> bool:
    return not name.startswith((*_RESERVED_LABELS, "controller-uid"))


def _without(fields: Mapping[str, Any], left_out: str) -> dict[str, Any]:
    return {name: value for name, value in fields.items() if name != left_out}
