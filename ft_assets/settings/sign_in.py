"""Sign-in of people by OpenID Connect: which provider, and which of its groups may do what for whom."""

from typing import Annotated, Literal
from urllib.parse import urlsplit

from pydantic import AfterValidator, Field, Strict, model_validator

from ft_assets.settings.keys import check_tenant
from ft_resources.settings import Names, Settings, text_check

SECRET = "FT_OIDC_CLIENT_SECRET"
_HERE = ("127.0.0.1", "localhost", "::1")


def _check_issuer(url: str) -> str:
    parts = urlsplit(url)
    secure = parts.scheme == "https" or (parts.scheme == "http" and parts.hostname in _HERE)
    if not secure or not parts.netloc or parts.query or parts.fragment or parts.username:
        raise ValueError("should be the provider's issuer, https://HOST/PATH, exactly as in its tokens")
    return url


class Member(Settings):
    """What the people of a group may do."""

    group: str = Field(min_length=1, max_length=200, description="Group name in the provider's claim.")
    tenant: Annotated[str, text_check(check_tenant)] = Field(
        description="Tenant whose data and models the group can access."
    )
    role: Literal["viewer", "member", "promoter", "admin"] = Field(
        default="member", description="Role of the group's members, as for an API key."
    )


class SignIn(Settings):
    """An OpenID Connect provider. The secret of the client is in FT_OIDC_CLIENT_SECRET."""

    issuer: Annotated[str, AfterValidator(_check_issuer)] = Field(
        max_length=300, description="Issuer URL of the provider; /.well-known/openid-configuration is below it."
    )
    client_id: str = Field(
        min_length=1, max_length=200, description="Client id that the provider assigned to this server."
    )
    name: str = Field(
        default="your organisation",
        min_length=1,
        max_length=60,
        description="Name of the provider on the sign-in page.",
    )
    scopes: Names = Field(default=("openid", "email"), description="Scopes to request; must include openid.")
    claim: str = Field(
        default="groups",
        min_length=1,
        max_length=100,
        description="Claim of the ID token that lists the person's groups.",
    )
    members: Annotated[tuple[Member, ...], Strict(False)] = Field(
        default=(),
        description="Groups and their roles; nobody else may sign in. A group may be listed for several tenants.",
    )

    @model_validator(mode="after")
    def _asks_for_openid(self) -> "SignIn":
        if "openid" not in self.scopes:
            raise ValueError("scopes must include openid")
        return self

    def memberships(self, groups: list[str]) -> dict[str, str]:
        """By tenant, the role of a person in these groups; of several roles, the one with most rights."""
        order = ("viewer", "member", "promoter", "admin")
        found: dict[str, str] = {}
        for each in self.members:
            if each.group in groups:
                found[each.tenant] = max(found.get(each.tenant, "viewer"), each.role, key=order.index)
        return dict(sorted(found.items()))
