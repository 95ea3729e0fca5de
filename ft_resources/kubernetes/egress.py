"""Whom workers may talk to, as an administrator says it: network policies know addresses and pods, no host names."""

from dataclasses import dataclass
from typing import Annotated

from pydantic import Field, Strict

from ft_resources.kubernetes.strict import StrictSettings

Texts = Annotated[tuple[str, ...], Strict(False)]


class Egress(StrictSettings):
    """Addresses that workers may connect to beside DNS."""

    cidr: str = Field("0.0.0.0/0", min_length=1, description="Addresses.")
    except_cidrs: Texts = Field(
        ("10.0.0.0/8", "172.16.0.0/12", "192.168.0.0/16", "100.64.0.0/10", "169.254.0.0/16"),
        description="Addresses of these that are not meant: the cluster's own network, its API and metadata services.",
    )
    port: int = Field(443, ge=1, le=65535, description="TCP port.")


Egresses = Annotated[tuple[Egress, ...], Strict(False)]


class JudgeService(StrictSettings):
    """A judge that runs in this cluster: the pods behind its Service."""

    namespace: str = Field(min_length=1, description="Namespace of its pods.")
    pod_labels: dict[str, str] = Field(default_factory=dict, description="Labels of its pods; none: all of them.")
    port: int = Field(
        ge=1, le=65535, description="TCP port that its pods listen on, which may differ from the Service's."
    )


class Judges(StrictSettings):
    """How evaluations get to judges behind endpoints; which hosts a tenant's may ask is said in ``tenants.yaml``."""

    secret: str = Field(
        "ft-judge-keys",
        min_length=1,
        description="Secret in a tenant's namespace with keys of judges, by the names that judge_hosts lists.",
    )
    egress: Egresses = Field((Egress(),), description="Where judges are that are not of this network.")
    private_egress: Egresses = Field((), description="Where judges with `private: true` are, by address.")
    services: Annotated[tuple[JudgeService, ...], Strict(False)] = Field(
        (), description="Judges with `private: true` that run in this cluster."
    )


@dataclass(frozen=True, kw_only=True, slots=True)
class JudgeReach:
    """Which kinds of judges ``judge_hosts`` lets a tenant's evaluations ask."""

    public: bool = False
    private: bool = False
