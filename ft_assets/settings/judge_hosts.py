"""Hosts of allowed judges, with the keys to use. The platform lists them in ``tenants.yaml``; by default none."""

import re
from collections.abc import Sequence
from typing import Annotated
from urllib.parse import urlsplit

from pydantic import AfterValidator, Field, Strict

from ft_assets.settings.recipe.judges import KEY_PREFIX, JudgeModel
from ft_resources.errors import UserError
from ft_resources.settings import Settings, unique

_HOST = re.compile(r"[a-z0-9:]([a-z0-9.:-]{0,252}[a-z0-9])?")


def _check_host(text: str) -> str:
    if not _HOST.fullmatch(text):
        raise ValueError("should be a host name or an address in lower case, without scheme, port and path")
    return text


class JudgeHost(Settings):
    """A host to which evaluations may send prompts and answers, for a judge behind an endpoint."""

    host: Annotated[str, AfterValidator(_check_host)] = Field(
        description="Host name or address, in lower case, as recipes write it; without pattern or port."
    )
    keys: Annotated[
        tuple[Annotated[str, Field(pattern=rf"^{KEY_PREFIX}[A-Z0-9_]+$")], ...], Strict(False), AfterValidator(unique)
    ] = Field(default=(), description="Names of the API keys that may be sent to this host; no other key is sent.")
    private: bool = Field(
        default=False,
        description="Whether the host is in a private network: allows http and non-public addresses.",
    )


def _once(hosts: tuple[JudgeHost, ...]) -> tuple[JudgeHost, ...]:
    unique(tuple(each.host for each in hosts))
    return hosts


JudgeHosts = Annotated[tuple[JudgeHost, ...], Strict(False), AfterValidator(_once)]


def allowed_host(model: JudgeModel, hosts: Sequence[JudgeHost]) -> JudgeHost:
    """The platform's entry for the host of ``model``, which has an endpoint.

    Raises UserError if the host, this key or plain http is not allowed.
    """
    where = "evaluation.judge"
    found = next((host for host in hosts if host.host == model.host), None)
    if found is None:
        raise UserError(
            f"the judge's host {model.host} may not receive this tenant's rows",
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
            f"the judge at {model.host} uses http, which exposes rows and key on the network",
            where=where,
            remedy="Use https. For a host in this network, the platform can set private: true in judge_hosts.",
        )
    return found
