"""Deletion with a grace period: a tombstone at once, and the bytes are erased when nothing needs them any more."""

from collections.abc import Sequence
from dataclasses import dataclass

from ft_assets.api.addresses import find_address
from ft_assets.api.defaults import actor_or_user, store_or_default
from ft_assets.api.own_keys import own_dataset
from ft_assets.control.erasure import collect as erasure
from ft_assets.control.erasure.plan import ErasurePlan, plan_erasure
from ft_assets.control.lines.promotion import Decision
from ft_assets.records import tombstones
from ft_assets.records.tombstones import GRACE_DAYS, Subject, Tombstone
from ft_assets.settings.keys import DatasetKey
from ft_resources.artifacts import Address, Artifacts
from ft_resources.errors import UserError
from ft_resources.store import Store


@dataclass(frozen=True, kw_only=True)
class Deleted:
    """A tombstone; ``created`` is False if it existed already."""

    subject: Subject
    tombstone: Tombstone
    created: bool


@dataclass(frozen=True, kw_only=True)
class Erased:
    """What is or would be erased: ``plan`` says why, ``objects`` counts the deleted objects (0 for a dry run)."""

    plan: ErasurePlan
    addresses: tuple[str, ...]
    objects: int


def delete(targets: Sequence[str], *, reason: str, store: Store | None = None, actor: str = "") -> list[Deleted]:
    """Delete dataset versions (keys) and adapters (addresses): nothing new is made of them, and their bytes are erased
    after the grace period. Raises UserError for an unknown subject, for a tenant, and without a reason.
    """
    store, actor = store_or_default(store), actor_or_user(actor)
    subjects = [_subject(store, target) for target in targets]
    for subject in subjects:
        if subject.kind == "tenant":
            raise UserError("this is a tenant", where=subject.name, remedy=f"Use: ft erase {subject.name}")
    made = [(each, *tombstones.delete(store, each, actor=actor, reason=reason)) for each in subjects]
    return [Deleted(subject=each, tombstone=stone, created=created) for each, stone, created in made]


def is_deleted(address: str, *, store: Store | None = None) -> bool:
    """Whether the adapter at ``address`` has a tombstone."""
    return tombstones.find_tombstone(store_or_default(store), Subject.adapter(Address.parse(address))) is not None


def held_beyond_grace(*, tenant: str = "", store: Store | None = None) -> dict[str, str]:
    """By address, what would at present keep the deleted bytes of one tenant, or of all, beyond their grace period,
    such as a stage of a line."""
    situation = erasure.look(Artifacts(store_or_default(store)))
    if not situation.tombstones:
        return {}
    last = max(tombstone.due for tombstone in situation.tombstones)
    kept = plan_erasure(situation.at(last)).kept
    return {address: why for address, why in kept.items() if tenant in ("", Address.parse(address).tenant)}


def restore(target: str, *, reason: str, store: Store | None = None, actor: str = "") -> Subject:
    """Undo the deletion of a dataset version, an adapter or a tenant. Raises UserError if it is not deleted, if its
    grace period is over, and without a reason."""
    store = store_or_default(store)
    subject = _subject(store, target)
    tombstones.restore(store, subject, actor=actor_or_user(actor), reason=reason)
    return subject


def erase_tenant(
    tenant: str, *, reason: str, grace_days: int = GRACE_DAYS, store: Store | None = None, actor: str = ""
) -> tuple[Tombstone, list[str]]:
    """Delete everything of a tenant: its lines are archived now, its bytes are erased after ``grace_days``.

    Returns the tombstone and what was archived. Calling it again completes an interrupted call. Raises UserError for an
    unknown tenant and without a reason.
    """
    decision = Decision(actor=actor_or_user(actor), reason=reason)
    return erasure.erase_tenant(Artifacts(store_or_default(store)), tenant, decision, grace_days=grace_days)


def collect_deleted(*, dry_run: bool = False, store: Store | None = None) -> Erased:
    """Erase deleted artifacts whose grace period is over and which nothing needs. Hashes and tombstones stay."""
    artifacts = Artifacts(store_or_default(store))
    if dry_run:
        plan = plan_erasure(erasure.look(artifacts))
        return Erased(plan=plan, addresses=tuple(plan.remove), objects=0)
    done = erasure.collect(artifacts)
    return Erased(plan=done.plan, addresses=done.addresses, objects=done.objects)


def _subject(store: Store, text: str) -> Subject:
    if "/" in text:
        return Subject.adapter(find_address(text, store=store))
    return Subject.dataset(DatasetKey.parse(own_dataset(text))) if "." in text else Subject.of_tenant(text)
