"""Which hosts may be asked to judge, and with which keys. The platform says so in ``tenants.yaml``; by default none."""

import re
from collections.abc import Sequence
from typing import Annotated
from urllib.parse import urlsplit

from pydantic import AfterValidator, Field, Strict

from ft_assets.recipes.judges import KEY_PREFIX, JudgeModel
from ft_assets.recipes.settings import Settings, unique
from ft_resources.errors import UserError

_HOST = re.compile(r"[a-z0-9:]([a-z0-9.:-]{0,252}[a-z0-9])?")


def _check_host(text: str) -> str:
    if not _HOST.fullmatch(text):
        raise ValueError("should be a host name or an address in lower case, without scheme, port and path")
    return text


class JudgeHost(Settings):
    """A host that evaluations may send prompts and answers to, for a judge behind an endpoint."""

    host: Annotated[str, AfterValidator(_check_host)] = Field(
        description="Its name or address, in lower case, as recipes write it; no pattern, no port."
    )
    keys: Annotated[
        tuple[Annotated[str, Field(pattern=rf"^{KEY_PREFIX}[A-Z0-9_]+$")], ...], Strict(False), AfterValidator(unique)
    ] = Field(default=(), description="Names of the keys that may be sent there; no other ever is.")
    private: bool = Field(
        default=False,
        description="Whether it is of this network: http is allowed, and addresses that are not public.",
    )


def _once(hosts: tuple[JudgeHost, ...]) -> tuple[JudgeHost, ...]:
    unique(tuple(each.host for each in hosts))
    return hosts


JudgeHosts = Annotated[tuple[JudgeHost, ...], Strict(False), AfterValidator(_once)]


def allowed_host(model: JudgeModel, hosts: Sequence[JudgeHost]) -> JudgeHost:
    """What the platform says of the host of ``model``, which has an endpoint.

    Raises UserError where it may not be asked, not with this key, or not over http.
    """
    where = "evaluation.judge"
    found = next((host for host in hosts if host.host == model.host), None)
    if found is None:
        raise UserError(
            f"the judge's host {model.host} is not among those that may see this tenant's rows",
            where=where,
            remedy="Have the platform add it to judge_hosts in tenants.yaml, or use a local judge.",
        )
    if model.key is not None and model.key not in found.keys:
        raise UserError(
            f"the key {model.key} may not be sent to {model.host}",
            where=where,
            remedy=f"Have the platform add it to the keys of {model.host} in judge_hosts of tenants.yaml.",
        )
    if urlsplit(model.endpoint or "").scheme != "https" and not found.private:
        raise UserError(
            f"the judge at {model.host} would be asked over http, where anybody on the way reads rows and key",
            where=where,
            remedy="Use https; for a host of this network the platform sets private: true in judge_hosts.",
        )
    return found
