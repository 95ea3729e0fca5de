"""A tier's share of a cluster: what its tenants always have, what they may borrow, and what they lend."""

from pydantic import Field, model_validator

from ft_resources.settings import Settings


class Share(Settings):
    """Parts (0 to 1) of every kind of node that the cluster has."""

    reserved: float = Field(
        default=0.0, ge=0.0, le=1.0, description="Guaranteed capacity of all tenants of the tier together."
    )
    borrow: float | None = Field(
        default=None,
        ge=0.0,
        le=1.0,
        description="Maximum capacity beyond `reserved`, from idle capacity and from work of a lower priority; null: "
        "no limit.",
    )
    lend: float | None = Field(
        default=None,
        ge=0.0,
        le=1.0,
        description="Maximum part of `reserved` that other tiers may use while it is idle; null: all.",
    )
    weight: float = Field(
        default=1.0,
        ge=0.01,
        le=1000.0,
        description="Weight of the tier, if Kueue's fair sharing is enabled.",
    )
    tenant_reserved: float = Field(default=0.0, ge=0.0, le=1.0, description="Guaranteed part of `reserved` per tenant.")
    tenant_borrow: float | None = Field(
        default=None, ge=0.0, le=1.0, description="Maximum capacity of one tenant beyond that; null: no limit."
    )

    @model_validator(mode="after")
    def _parts_of_what_is_reserved(self) -> "Share":
        for name, part in (("lend", self.lend or 0.0), ("tenant_reserved", self.tenant_reserved)):
            if part > self.reserved:
                raise ValueError(f"{name} ({part:g}) is above reserved ({self.reserved:g})")
        return self
