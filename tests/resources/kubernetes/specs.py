"""Specs and settings for tests of the Kubernetes launcher's pure parts."""

from typing import Any

from ft_resources.artifacts import Address, InputRef
from ft_resources.kubernetes.settings import KubernetesSettings
from ft_resources.store_layout import Layout
from ft_resources.work import Resources, WorkSpec

IMAGE = f"registry.example/ft@sha256:{'a' * 64}"
FINGERPRINT = "0123456789abcdef" * 4


def settings_of(**changes: Any) -> KubernetesSettings:
    return KubernetesSettings.model_validate({"image": IMAGE, **changes})


def spec_of(
    *,
    tenant: str = "acme",
    asset: str = "checkpoint",
    attempt: int = 1,
    inputs: int = 2,
    store_url: str = "s3://bucket/ft",
    layout: Layout = Layout.BELOW,
    runtime: dict[str, Any] | None = None,
    **resources: Any,
) -> WorkSpec:
    refs = {
        f"input{number}": InputRef(address=f"{tenant}/token_pack/{number:064x}", digest="d") for number in range(inputs)
    }
    return WorkSpec(
        asset=asset,
        store_url=store_url,
        store_layout=layout,
        address=Address(tenant=tenant, asset=asset, fingerprint=FINGERPRINT),
        attempt=attempt,
        identity={},
        inputs={**refs, "base": InputRef(address=f"shared/base_model/{'b' * 64}", digest="d")},
        params={},
        runtime=runtime or {},
        label="acme.support.v1|small.v1",
        actor="ann",
        resources=Resources(**resources),
    )
