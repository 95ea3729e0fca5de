"""``ft delete``, ``ft restore``, ``ft erase`` and ``ft collect``: deletion with a time of grace."""

from typing import Annotated

import typer

from ft_assets.cli.addresses import short
from ft_assets.cli.door import api

Reason = Annotated[str, typer.Option(help="Reason (recorded with your name).")]
_GRACE_DAYS = 30


def delete(
    targets: Annotated[list[str], typer.Argument(help="Dataset versions (tenant.name.vN) or addresses of adapters.")],
    reason: Reason,
) -> None:
    """Delete dataset versions and adapters. They cannot be used from now on; their bytes are erased after 30 days."""
    from ft_assets.cli.output import note

    for deleted in api.delete(targets, reason=reason):
        stone = deleted.tombstone
        print(f"{deleted.subject}: {stone.sentence()}; its bytes may be erased after {stone.due.date()}")
        if not deleted.created:
            note("already deleted")
    for address, why in api.held_beyond_grace().items():
        note(f"{short(address)} would currently be kept: {why}")
    note("ft restore undoes this until then; ft collect erases data whose grace period is over")


def restore(
    target: Annotated[str, typer.Argument(help="A dataset version, an adapter's address, or a tenant.")],
    reason: Reason,
) -> None:
    """Undo a deletion during its grace period."""
    print(f"{api.restore(target, reason=reason)}: restored")


def erase(
    tenant: Annotated[str, typer.Argument(help="Name of the tenant.")],
    reason: Reason,
    grace_days: Annotated[int, typer.Option(min=1, help="Grace period in days.")] = _GRACE_DAYS,
    without_grace: Annotated[
        bool, typer.Option("--without-grace", help="Erase immediately. This cannot be undone.")
    ] = False,
) -> None:
    """Delete all data of a tenant. Its lines are archived now; its bytes are erased after the grace period."""
    from ft_assets.cli.output import note

    tombstone, archived = api.erase_tenant(tenant, reason=reason, grace_days=0 if without_grace else grace_days)
    print(f"tenant {tenant}: {tombstone.sentence()}; its bytes may be erased after {tombstone.due.date()}")
    for where in archived:
        note(f"archived the adapter {where}")
    if tombstone.grace_days == 0:
        collect()


def collect(
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Print what would be erased, without erasing it.")] = False,
) -> None:
    """Erase deleted data after its grace period, unless it is still needed. Hashes and tombstones are kept.

    Also removes leftovers, if retention.leftovers is set in the tenants file.
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
        note(f"skipped: {problem}")
    for path in places.ended:
        print(f"{'would end' if dry_run else 'ended'} {path}: no heartbeat; it is collected later")
    for address in unreferenced.plan.remove if dry_run else unreferenced.addresses:
        print(f"{verb} {address}: unreferenced")
    waiting = len(unreferenced.plan.mark) + len(unreferenced.plan.waiting)
    if waiting:
        note(f"{waiting} more artifacts are unreferenced; they are removed after the period in retention.leftovers")
