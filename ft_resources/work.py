"""What is asked of a worker: a request names the result, a spec is one complete, self-sufficient attempt at it."""

from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict

from ft_resources.artifacts import Address, InputRef
from ft_resources.canonical import digest

Priority = Literal["production", "batch", "interactive"]


class Resources(BaseModel):
    """What a worker asks of the place it runs in; no part of an artifact's identity. None: as the place has it.

    Args:
        gpus: on each node.
        gpu_type: as recipes name it.
        memory_gib: host memory of each node, in GiB.
        spot: whether a machine will do that may be taken away.
        image: container image, by digest.
        priority: ``production``, ``batch`` or ``interactive``.
        timeout_s: longest time that one attempt may run.
    """

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)

    gpus: int = 0
    gpu_type: str | None = None
    memory_gib: float | None = None
    spot: bool | None = None
    image: str | None = None
    priority: Priority | None = None
    timeout_s: float | None = None


@dataclass(frozen=True, kw_only=True)
class WorkRequest:
    """A wanted artifact. Everything but ``label``, ``runtime`` and ``resources`` decides its fingerprint.

    Args:
        asset: name of the asset, which is also the kind of work (see ``ft_assets.worker.WORK``).
        tenant: whose prefix it goes to; ``shared`` for what belongs to nobody.
        code_version: of the asset's code; a change makes everything again.
        inputs: name to reference; only the references' digests are hashed.
        params: every resolved setting that matters to the result (JSON values).
        runtime: settings that do not change the result, such as cadences and limits (JSON values).
        label: for humans, usually the partition key.
        resources: what its worker asks of the place it runs in.
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


class WorkSpec(BaseModel):
    """One attempt, as JSON: a worker needs this file, the store's credentials and nothing else.

    ``previous`` are the numbers of earlier attempts at the same address, whose saves may be resumed from.
    """

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)

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

    @property
    def attempt_path(self) -> str:
        """The attempt's own folder in the store; the only place beside the result that a worker writes to."""
        return attempt_path(self.address, self.attempt)

    @property
    def previous(self) -> list[int]:
        return list(range(1, self.attempt))


def attempt_path(address: Address, attempt: int) -> str:
    """Where attempt number ``attempt`` at ``address`` keeps its records."""
    return f"{address}/attempts/{attempt:04d}"
