"""Egress rules for workers. Network policies match addresses and pods, not host names."""

from dataclasses import dataclass
from typing import Annotated

from pydantic import Field, Strict

from ft_resources.strict_model import StrictModel

Texts = Annotated[tuple[str, ...], Strict(False)]


class Egress(StrictModel):
    """Addresses that workers may connect to, besides DNS."""

    cidr: str = Field("0.0.0.0/0", min_length=1, description="Addresses.")
    except_cidrs: Texts = Field(
        ("10.0.0.0/8", "172.16.0.0/12", "192.168.0.0/16", "100.64.0.0/10", "169.254.0.0/16"),
        description="Exceptions: the cluster's own network, its API and metadata services.",
    )
    port: int = Field(443, ge=1, le=65535, description="TCP port.")


Egresses = Annotated[tuple[Egress, ...], Strict(False)]


class JudgeService(StrictModel):
    """A judge model in this cluster: the pods that its Service selects."""

    namespace: str = Field(min_length=1, description="Namespace of its pods.")
    pod_labels: dict[str, str] = Field(default_factory=dict, description="Labels of its pods; none: all of them.")
    port: int = Field(ge=1, le=65535, description="TCP port of its pods, which may differ from the Service's.")


class Judges(StrictModel):
    """How evaluations reach judge endpoints. ``tenants.yaml`` lists the hosts that a tenant's evaluations may ask."""

    secret: str = Field(
        "ft-judge-keys",
        min_length=1,
        description="Secret in a tenant's namespace with the judges' keys, under the names in judge_hosts.",
    )
    egress: Egresses = Field((Egress(),), description="Addresses of judges outside this network.")
    private_egress: Egresses = Field((), description="Addresses of judges with `private: true`.")
    services: Annotated[tuple[JudgeService, ...], Strict(False)] = Field(
        (), description="Judges with `private: true` that run in this cluster."
    )


@dataclass(frozen=True, kw_only=True, slots=True)
class JudgeReach:
    """Which kinds of judges a tenant's evaluations may ask, by ``judge_hosts``."""

    public: bool = False
    private: bool = False
