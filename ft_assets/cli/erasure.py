"""``ft delete``, ``ft restore``, ``ft erase`` and ``ft collect``: deletion with a time of grace."""

from typing import Annotated

import typer

from ft_assets.cli.addresses import short
from ft_assets.cli.door import api

Reason = Annotated[str, typer.Option(help="Why; it is recorded with your name.")]
_GRACE_DAYS = 30


def delete(
    targets: Annotated[list[str], typer.Argument(help="Dataset versions (tenant.name.vN) and adapters' addresses.")],
    reason: Reason,
) -> None:
    """Delete dataset versions and adapters: nothing new is made from them, and their bytes are erased after 30 days."""
    from ft_assets.cli.output import note

    for deleted in api.delete(targets, reason=reason):
        stone = deleted.tombstone
        print(f"{deleted.subject}: {stone.sentence()}; its bytes may be erased after {stone.due.date()}")
        if not deleted.created:
            note("it was deleted already")
    for address, why in api.held_beyond_grace().items():
        note(f"at present {short(address)} would be kept: {why}")
    note("ft restore undoes this until then; ft collect erases what is due")


def restore(
    target: Annotated[str, typer.Argument(help="A dataset version, an adapter's address, or a tenant.")],
    reason: Reason,
) -> None:
    """Undo a deletion during its grace period."""
    print(f"{api.restore(target, reason=reason)}: restored")


def erase(
    tenant: Annotated[str, typer.Argument(help="Name of the tenant.")],
    reason: Reason,
    grace_days: Annotated[int, typer.Option(min=1, help="Days until the bytes are erased.")] = _GRACE_DAYS,
    without_grace: Annotated[
        bool, typer.Option("--without-grace", help="Erase at once; this cannot be undone.")
    ] = False,
) -> None:
    """Delete all of a tenant's data: its lines are archived now, its bytes are erased after the grace period."""
    from ft_assets.cli.output import note

    tombstone, archived = api.erase_tenant(tenant, reason=reason, grace_days=0 if without_grace else grace_days)
    print(f"tenant {tenant}: {tombstone.sentence()}; its bytes may be erased after {tombstone.due.date()}")
    for where in archived:
        note(f"archived the adapter {where}")
    if tombstone.grace_days == 0:
        collect()


def collect(
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only print what would be erased.")] = False,
) -> None:
    """Erase deleted data whose grace period is over and that nothing needs. Hashes and tombstones stay.

    Leftovers are removed too, if the tenants file says after how many days (retention.leftovers).
    """
    from ft_assets.cli.output import note

    found = api.collect_deleted(dry_run=dry_run)
    for address in found.addresses:
        print(f"{'would erase' if dry_run else 'erased'} {address}: {found.plan.remove[address].sentence()}")
    for address, reason in found.plan.kept.items():
        note(f"kept {short(address)}: {reason}")
    if found.plan.waiting:
        note(f"{len(found.plan.waiting)} artifacts are in their grace period")
    if not dry_run:
        note(f"{len(found.addresses)} artifacts erased, {found.objects} objects")
    _collect_leftovers(dry_run)


def _collect_leftovers(dry_run: bool) -> None:
    from ft_assets.cli.output import note

    places, unreferenced = api.collect_leftovers(dry_run=dry_run), api.collect_unreferenced(dry_run=dry_run)
    verb = "would remove" if dry_run else "removed"
    for leftover in places.dropped:
        print(f"{verb} {leftover.address}: {leftover.what} ({leftover.why}; {leftover.size / 1e6:.1f} MB)")
    for problem in places.problems:
        note(f"left alone: {problem}")
    for path in places.ended:
        print(f"{'would end' if dry_run else 'ended'} {path}: no sign of life; it is collected later")
    for address in unreferenced.plan.remove if dry_run else unreferenced.addresses:
        print(f"{verb} {address}: nothing references it any more")
    waiting = len(unreferenced.plan.mark) + len(unreferenced.plan.waiting)
    if waiting:
        note(f"{waiting} more artifacts are unreferenced; they are removed after the time in retention.leftovers")
