"""What every worker gets, as the administrators' settings say: its cache, its credentials, the sandbox for programs."""

from typing import Annotated, Literal

from pydantic import AfterValidator, Field, model_validator

from ft_resources.strict_model import StrictModel

SCRATCH, CACHE, SHARED_MEMORY, IDENTITY = "/scratch", "/cache", "/dev/shm", "/var/run/secrets/ft-store"
WARM = "/warm"
"""Where bases that are kept warm are mounted: their own pods write there, workers read."""
MOUNTS = {
    "scratch": SCRATCH,
    "tmp": "/tmp",
    "shared-memory": SHARED_MEMORY,
    "cache": CACHE,
    "store-identity": IDENTITY,
    "warm": WARM,
}
"""All volumes of a worker's pod by name, with their places."""
IN_PATTERN = "{tenant}"
"""Where the tenant's name goes in a pattern."""
_PROFILE = r"^[A-Za-z0-9_-][A-Za-z0-9._-]*(/[A-Za-z0-9_-][A-Za-z0-9._-]*)*$"


def per_tenant(pattern: str) -> str:
    if IN_PATTERN not in pattern:
        raise ValueError("should contain {tenant}, to keep tenants apart")
    return pattern


class Cache(StrictModel):
    """The volume on local disk that inputs are fetched to."""

    kind: Literal["empty-dir", "ephemeral", "host-path"] = Field(
        "empty-dir",
        description="empty-dir: on the node's disk, deleted with the pod. ephemeral: a volume of a storage class, "
        "deleted with the pod. host-path: a folder of the node, shared by the pods of one tenant and kept.",
    )
    size_gib: float = Field(100.0, gt=0.0, description="Space for files, in GiB; the volume is 1.5 times as large.")
    storage_class: str | None = Field(
        None, min_length=1, description="Storage class of an ephemeral volume; null: the default."
    )
    path: str = Field(
        "/var/lib/ft-cache",
        pattern=r"/[A-Za-z0-9._/-]+",
        description="Path of a host-path: below it one folder per tenant, created by an administrator and owned by "
        "run_as.",
    )

    def path_of(self, tenant: str) -> str:
        """The tenant's folder of a host-path: tenants have different credentials, so none reads another's files."""
        return f"{self.path}/{tenant}"

    @property
    def warm_path(self) -> str:
        """The folder of a host-path for bases that are kept warm. No tenant's name has an underscore."""
        return f"{self.path}/warm_bases"


class WebIdentity(StrictModel):
    """Credentials of the store by the pod's own, refreshed token (AssumeRoleWithWebIdentity)."""

    role_arn: Annotated[str, AfterValidator(per_tenant)] = Field(
        description="Role of a tenant's workers, such as arn:aws:iam::123456789012:role/ft-{tenant}."
    )
    audience: str = Field("sts.amazonaws.com", min_length=1, description="Audience of the token.")
    token_s: int = Field(
        3600, ge=600, le=86400, description="Lifetime of a token; the kubelet renews it before it expires."
    )
    kms_key: str | None = Field(
        None,
        pattern=r"arn:aws[a-z-]*:kms:[a-z0-9-]+:[0-9]{12}:key/[A-Za-z0-9-]+",
        description="KMS key that encrypts the bucket; null: S3's own key.",
    )


class RunCode(StrictModel):
    """Profiles that allow evaluations the namespaces and mounts of their sandbox (docs/how-to/own-suite.md); container
    runtimes' default profiles forbid them. Names of profiles are relative, as each node's kubelet finds them."""

    seccomp_profile: str | None = Field(
        None, pattern=_PROFILE, description="Seccomp profile of the nodes, such as profiles/ft-sandbox.json."
    )
    apparmor_profile: str | None = Field(
        None, pattern=_PROFILE, description="AppArmor profile of the nodes, if they have AppArmor."
    )
    runtime_class: str | None = Field(
        None, min_length=1, description="RuntimeClass of evaluations, such as one with a separate kernel."
    )

    @model_validator(mode="after")
    def _some_way(self) -> "RunCode":
        if not self.seccomp_profile and not self.runtime_class:
            raise ValueError("should name a seccomp_profile or a runtime_class: the default profile forbids namespaces")
        return self
