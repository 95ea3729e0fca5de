"""Who is told of an event: the tenant that it belongs to, and the platform."""

from dataclasses import dataclass

from ft_assets.notices.event import Event
from ft_assets.notices.settings import EventKind, Notify
from ft_assets.tenants import TenantsFile
from ft_resources.notifier import EmailTarget, Target, WebhookTarget

# The platform has an event of its own for these, where each tenant has one of its part.
_PLATFORM_HAS_OWN = (EventKind.BASE_MOVED, EventKind.BASE_RELEASED)


@dataclass(frozen=True, kw_only=True, slots=True)
class Channel:
    """One way to somebody. ``name`` says whose and which, and stays the same where the address changes."""

    name: str
    target: Target


def channels_of(tenants: TenantsFile, event: Event) -> list[Channel]:
    """Where ``event`` goes. A tenant's channels get events of that tenant and no others."""
    found: list[Channel] = []
    if not event.is_platforms and event.tenant in tenants.tenants:
        found += _channels("tenant", tenants.tenants[event.tenant].notify, event.kind)
    if event.is_platforms or event.kind not in _PLATFORM_HAS_OWN:
        found += _channels("platform", tenants.notify, event.kind)
    return found


def _channels(owner: str, notify: Notify | None, kind: EventKind) -> list[Channel]:
    if notify is None or not notify.wants(kind):
        return []
    found: list[Channel] = []
    if notify.webhook is not None:
        target = WebhookTarget(url=notify.webhook.url, secret_env=notify.webhook.secret_env)
        found.append(Channel(name=f"{owner}-webhook", target=target))
    if notify.email is not None:
        found.append(Channel(name=f"{owner}-email", target=EmailTarget(to=notify.email.to)))
    return found
