"""``ft delete``, ``ft restore``, ``ft erase`` and ``ft collect``: deletion with a time of grace."""

from typing import TYPE_CHECKING, Annotated

import typer

from ft_assets.cli.addresses import find_address, short
from ft_assets.cli.environment import actor, open_store

if TYPE_CHECKING:
    from ft_assets.erasure.tombstones import Subject
    from ft_resources.artifacts import Artifacts
    from ft_resources.store import Store

Reason = Annotated[str, typer.Option(help="Why; it is recorded with your name.")]
_GRACE_DAYS = 30


def delete(
    targets: Annotated[list[str], typer.Argument(help="Dataset versions (tenant.name.vN) and adapters' addresses.")],
    reason: Reason,
) -> None:
    """Delete dataset versions and adapters: nothing new is made of them, and after 30 days their bytes go."""
    from ft_assets.cli.output import note
    from ft_assets.erasure.tombstones import delete as put_up
    from ft_resources.errors import UserError

    store = open_store()
    subjects = [_subject(store, target) for target in targets]
    for subject in subjects:
        if subject.kind == "tenant":
            raise UserError("this is a tenant", where=subject.name, remedy=f"Say so: ft erase {subject.name}")
    for subject in subjects:
        tombstone, created = put_up(store, subject, actor=actor(), reason=reason)
        print(f"{subject}: {tombstone.sentence()}; its bytes may go after {tombstone.due.date()}")
        if not created:
            note("it was deleted already")
    _tell_what_holds(store)
    note("take it back until then with ft restore; ft collect erases what is due")


def restore(
    target: Annotated[str, typer.Argument(help="A dataset version, an adapter's address, or a tenant.")],
    reason: Reason,
) -> None:
    """Take a deletion back, as long as its grace lasts."""
    from ft_assets.erasure.tombstones import restore as take_back

    store = open_store()
    subject = _subject(store, target)
    take_back(store, subject, actor=actor(), reason=reason)
    print(f"{subject}: restored")


def erase(
    tenant: Annotated[str, typer.Argument(help="Name of the tenant.")],
    reason: Reason,
    grace_days: Annotated[int, typer.Option(min=1, help="Days until the bytes go.")] = _GRACE_DAYS,
    without_grace: Annotated[
        bool, typer.Option("--without-grace", help="Erase at once; this cannot be taken back.")
    ] = False,
) -> None:
    """Delete everything of a tenant: its lines are archived now, and its bytes go when the grace is over."""
    from ft_assets.adapters.promotion import Decision
    from ft_assets.cli.output import note
    from ft_assets.erasure.collect import erase_tenant
    from ft_resources.artifacts import Artifacts

    artifacts = Artifacts(open_store())
    decision = Decision(actor=actor(), reason=reason)
    days = 0 if without_grace else grace_days
    tombstone, archived = erase_tenant(artifacts, tenant, decision, grace_days=days)
    print(f"tenant {tenant}: {tombstone.sentence()}; its bytes may go after {tombstone.due.date()}")
    for where in archived:
        note(f"archived what was {where}")
    if tombstone.grace_days == 0:
        collect()


def collect(
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only say what would go.")] = False,
) -> None:
    """Erase what was deleted, whose grace is over and which nothing needs. Hashes and tombstones stay.

    Leftovers go too, where the tenants file says after how many days (retention.leftovers).
    """
    from ft_assets.cli.output import note
    from ft_assets.erasure.collect import collect as carry_out
    from ft_assets.erasure.collect import look
    from ft_assets.erasure.plan import plan_erasure
    from ft_resources.artifacts import Artifacts

    artifacts = Artifacts(open_store())
    done = None if dry_run else carry_out(artifacts)
    plan = done.plan if done else plan_erasure(look(artifacts))
    for address in done.addresses if done else plan.remove:
        print(f"{'erased' if done else 'would erase'} {address}: {plan.remove[address].sentence()}")
    for address, reason in plan.kept.items():
        note(f"kept {short(address)}: {reason}")
    if plan.waiting:
        note(f"{len(plan.waiting)} artifacts wait for the end of their grace")
    if done:
        note(f"{len(done.addresses)} artifacts erased, {done.objects} objects")
    _collect_leftovers(artifacts, dry_run=dry_run)


def _collect_leftovers(artifacts: "Artifacts", *, dry_run: bool) -> None:
    from ft_assets.cli.output import note
    from ft_assets.retention.collect import collect_unreferenced
    from ft_assets.retention.places import collect_places
    from ft_assets.tenants import load_tenants

    tenants = load_tenants()
    places = collect_places(artifacts, tenants, dry_run=dry_run)
    verb = "would remove" if dry_run else "removed"
    for leftover in places.dropped:
        print(f"{verb} {leftover.address}: {leftover.what} ({leftover.why}; {leftover.size / 1e6:.1f} MB)")
    for problem in places.problems:
        note(f"left alone: {problem}")
    for path in places.ended:
        print(f"{'would end' if dry_run else 'ended'} {path}: no sign of life, it is collected later")
    unreferenced = collect_unreferenced(artifacts, tenants, dry_run=dry_run)
    for address in unreferenced.plan.remove if dry_run else unreferenced.addresses:
        print(f"{verb} {address}: nothing leads to it any more")
    waiting = len(unreferenced.plan.mark) + len(unreferenced.plan.waiting)
    if waiting:
        note(f"nothing leads to {waiting} more artifacts; they go when that has lasted as long as the rule says")


def _subject(store: "Store", text: str) -> "Subject":
    from ft_assets.erasure.tombstones import Subject
    from ft_assets.keys import DatasetKey

    if "/" in text:
        return Subject.adapter(find_address(store, text))
    return Subject.dataset(DatasetKey.parse(text)) if "." in text else Subject.of_tenant(text)


def _tell_what_holds(store: "Store") -> None:
    """What stands in staging or production and would keep the bytes beyond their grace."""
    from ft_assets.cli.output import note
    from ft_assets.erasure.collect import look
    from ft_assets.erasure.plan import plan_erasure
    from ft_resources.artifacts import Artifacts

    situation = look(Artifacts(store))
    last = max(tombstone.due for tombstone in situation.tombstones)
    for address, reason in plan_erasure(situation.at(last)).kept.items():
        note(f"as things stand, {short(address)} would be kept: {reason}")
