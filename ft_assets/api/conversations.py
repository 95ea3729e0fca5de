"""Conversations that a line's users let the platform keep."""

from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any

from ft_assets.api.defaults import tenants_or_default
from ft_assets.api.served_models import Division
from ft_assets.records.conversations import Conversation, OtherAnswer
from ft_assets.records.conversations import ConversationLog as ConversationLog
from ft_assets.settings.tenants import TenantsFile
from ft_resources.serving.errors import BadRequest
from ft_resources.serving.fleet import ServedModel


def require_kept(name: str, division: Division, *, tenants: TenantsFile | None = None) -> None:
    """Raise BadRequest unless ``name`` is a line whose settings let conversations be kept: a request with ``store:
    true`` must not be ignored silently."""
    if division.is_traffic and tenants_or_default(tenants).settings_of(name).traffic.keep:
        return
    raise BadRequest(
        f"conversations of {name} are not kept",
        where="store",
        remedy="Remove store. The operator can enable it per line: lines, in tenants.yaml.",
    )


def keep_conversation(
    log: ConversationLog,
    model: ServedModel,
    *,
    request: str,
    messages: Sequence[dict[str, Any]],
    answer: str,
    production: tuple[ServedModel, str] | None = None,
) -> None:
    """Keep a request and its answer for as long as the line's settings say; for a copied request also the answer of
    ``production``."""
    log.add(
        Conversation(
            model=model.name,
            request=request,
            messages=list(messages),
            answer=answer,
            production=OtherAnswer(model=production[0].name, answer=production[1]) if production else None,
            at=datetime.now(UTC).isoformat(timespec="milliseconds"),
        )
    )
