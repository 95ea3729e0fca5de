"""What a worker is asked to do: a request describes the wanted artifact, a spec is one self-contained attempt at it."""

from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Literal

from ft_resources.artifacts import Address, InputRef
from ft_resources.canonical import digest
from ft_resources.store import Store
from ft_resources.store_layout import Layout
from ft_resources.strict_model import StrictModel, added_field

Priority = Literal["production", "batch", "interactive"]


class Resources(StrictModel):
    """Resources that a worker requests; not part of an artifact's identity. None: the launcher's default.

    Args:
        gpus: number per node.
        gpu_sizes: numbers of which the launcher chooses by what there is room for, the largest first; empty: ``gpus``.
        gpu_type: its name in recipes.
        larger_gpu_type: type of the next attempt if one runs out of memory on this one; None: the same.
        memory_gib: host memory of each node, in GiB.
        spot: whether an interruptible machine is allowed.
        image: container image, by digest.
        priority: ``production``, ``batch`` or ``interactive``.
        timeout_s: maximum run time of one attempt.
        pod: what Dagster's configuration adds to its pod (``UserDefinedDagsterK8sConfig`` as a dictionary).
    """

    gpus: int = 0
    gpu_type: str | None = None
    memory_gib: float | None = None
    spot: bool | None = None
    image: str | None = None
    priority: Priority | None = None
    timeout_s: float | None = None
    gpu_sizes: tuple[int, ...] = added_field(())
    larger_gpu_type: str | None = added_field(None)
    pod: dict[str, Any] = added_field({})


@dataclass(frozen=True, kw_only=True)
class WorkRequest:
    """A wanted artifact. Everything but ``label``, ``runtime`` and ``resources`` decides its fingerprint.

    Args:
        asset: name of the asset, which is also the kind of work (see ``ft_assets.worker.WORK``).
        tenant: owner of its store prefix; ``shared`` for what belongs to no tenant.
        code_version: version of the asset's code; after a change everything is made again.
        inputs: references by name; only their digests are hashed.
        params: every resolved setting that affects the result (JSON values).
        runtime: settings that do not change the result, such as intervals and limits (JSON values).
        label: for people, usually the partition key.
        resources: resources that its worker requests.
    """

    asset: str
    tenant: str
    code_version: str
    inputs: dict[str, InputRef]
    params: dict[str, Any]
    label: str
    runtime: dict[str, Any] = field(default_factory=dict)
    resources: Resources = field(default_factory=Resources)

    @cached_property
    def identity(self) -> dict[str, Any]:
        """The value whose digest is the fingerprint."""
        return {
            "asset": self.asset,
            "code_version": self.code_version,
            "inputs": {name: ref.digest for name, ref in self.inputs.items()},
            "params": self.params,
        }

    @cached_property
    def address(self) -> Address:
        return Address(tenant=self.tenant, asset=self.asset, fingerprint=digest(self.identity))


class WorkSpec(StrictModel):
    """One attempt, as JSON: a worker needs this file, the store's credentials and nothing else.

    ``previous`` has the numbers of earlier attempts at the same address, whose saves it may resume from.
    """

    version: int = 1
    asset: str
    store_url: str
    address: Address
    attempt: int
    identity: dict[str, Any]
    inputs: dict[str, InputRef]
    params: dict[str, Any]
    runtime: dict[str, Any]
    label: str
    actor: str
    resources: Resources = Resources()
    # A session may read its own tenant's data only, and not the store's marker.
    store_layout: Layout = added_field(Layout.BESIDE, strict=False)

    def open_store(self) -> Store:
        """The store of the attempt. Raises NoStore for a folder that does not exist."""
        return Store(self.store_url, create=False, layout=self.store_layout)

    def on_gpus(self, gpus: int) -> "WorkSpec":
        """The spec with so many GPUs of each node, and a process for each."""
        resources = self.resources.model_copy(update={"gpus": gpus})
        return self.model_copy(update={"resources": resources, "runtime": {**self.runtime, "processes": gpus}})

    @property
    def location(self) -> str:
        """``<store url>#<place in the store>`` of the spec itself, for a command line."""
        return f"{self.store_url}#{self.store_layout.place(f'{self.attempt_path}/spec.json')}"

    @property
    def attempt_path(self) -> str:
        """The attempt's own folder in the store; a worker writes only there and to the result."""
        return attempt_path(self.address, self.attempt)

    @property
    def previous(self) -> list[int]:
        return list(range(1, self.attempt))


def attempt_path(address: Address, attempt: int) -> str:
    """Folder of the records of attempt number ``attempt`` at ``address``."""
    return f"{address}/attempts/{attempt:04d}"
