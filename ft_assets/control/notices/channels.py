"""Who is notified of an event: the tenant that it belongs to, and the platform."""

from dataclasses import dataclass

from ft_assets.control.notices.event import Event
from ft_assets.settings.notices import EventKind, Notify
from ft_assets.settings.tenants import TenantsFile
from ft_resources.messages import EmailTarget, Target, WebhookTarget

# For these the platform has its own event, and each tenant has one for its part.
_PLATFORM_HAS_OWN = (EventKind.BASE_MOVED, EventKind.BASE_RELEASED)


@dataclass(frozen=True, kw_only=True, slots=True)
class Channel:
    """One delivery channel. ``name`` identifies owner and channel, and stays the same if the address changes."""

    name: str
    target: Target


def channels_of(tenants: TenantsFile, event: Event) -> list[Channel]:
    """The channels of ``event``. A tenant's channels only get that tenant's events."""
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
