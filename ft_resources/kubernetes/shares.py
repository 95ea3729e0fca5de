"""A tier's share of a cluster: what its tenants always have, what they may borrow, and what they lend."""

from pydantic import Field, model_validator

from ft_resources.settings import Settings


class Share(Settings):
    """Parts (0 to 1) of every kind of node that the cluster has."""

    reserved: float = Field(
        default=0.0, ge=0.0, le=1.0, description="Part that the tier's tenants get together whenever they ask for it."
    )
    borrow: float | None = Field(
        default=None,
        ge=0.0,
        le=1.0,
        description="Most that they may hold beyond `reserved`: what is idle, and what work of a lower priority has "
        "borrowed; null: no limit.",
    )
    lend: float | None = Field(
        default=None,
        ge=0.0,
        le=1.0,
        description="Most of `reserved` that other tiers may hold while it is idle; null: all of it.",
    )
    weight: float = Field(
        default=1.0,
        ge=0.01,
        le=1000.0,
        description="Weight among tiers, where Kueue's own fair sharing is switched on.",
    )
    tenant_reserved: float = Field(
        default=0.0, ge=0.0, le=1.0, description="Part of `reserved` that each tenant has for itself."
    )
    tenant_borrow: float | None = Field(
        default=None, ge=0.0, le=1.0, description="Most that one tenant may hold beyond that; null: no limit."
    )

    @model_validator(mode="after")
    def _parts_of_what_is_reserved(self) -> "Share":
        for name, part in (("lend", self.lend or 0.0), ("tenant_reserved", self.tenant_reserved)):
            if part > self.reserved:
                raise ValueError(f"{name} ({part:g}) is above reserved ({self.reserved:g})")
        return self
