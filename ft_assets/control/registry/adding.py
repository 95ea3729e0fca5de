"""Add files or Hub dataset splits as the next version of a dataset."""

import tempfile
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from ft_assets.control.registry.folders import files_of
from ft_assets.control.registry.versions import DatasetVersion, add_dataset_version
from ft_assets.settings.dataset.policy import DatasetPolicy, load_policy
from ft_assets.settings.keys import DatasetKey, check_part, check_tenant
from ft_assets.settings.tenants import TenantsFile
from ft_assets.workers.datasets.intake.hub import PREFIX, OpenSplit, fetch_split
from ft_assets.workers.datasets.intake.limits import ReadLimits
from ft_assets.workers.datasets.intake.snapshot import take_snapshots
from ft_assets.workers.datasets.intake.spool import spool
from ft_resources.errors import UserError
from ft_resources.store import Store
from ft_resources.strict import read_text

# Of rows, as much as the first look at a file reads at most.
_HEAD = 8 << 20


def parse_name(name: str) -> DatasetKey:
    """The key of the first version of ``name``, which is ``tenant.name``. Raises UserError for an invalid name."""
    tenant, dot, short = name.partition(".")
    if not dot or not short:
        raise UserError(
            f"{name!r} is not a dataset name", where="name", remedy="Write it as tenant.name, such as acme.support."
        )
    return DatasetKey.parse(f"{check_tenant(tenant)}.{check_part(short, 'dataset name')}.v1")


def look_at_rows(source: Path | str, policy: Path | DatasetPolicy | None) -> tuple[str, DatasetPolicy, str]:
    """Name of the data form of the rows in a file (of a folder the first) or Hub split, by the first of them, and the
    policy that reads them so: ``policy`` if it names a file. Last, what was guessed, for people; "" if nothing was.
    Raises UserError."""
    # Its kernels take a second to import, which other callers of this file should not wait for.
    from ft_assets.control.registry.rows_apart import look_at_rows as look

    settled = _policy(policy)
    with tempfile.TemporaryDirectory(prefix="ft-look-") as scratch:
        hub = str(source).startswith(PREFIX)
        file = fetch_split(str(source), Path(scratch)) if hub else files_of(Path(source))[0][0]
        (taken,) = take_snapshots({"upload": [file]}, Path(scratch))
        return look(spool(taken.path, taken.given, Path(scratch), role="upload", text=settled.text), settled)


def look_at_file(path: Path) -> tuple[str, DatasetPolicy, str]:
    """``look_at_rows`` at the beginning of a file that nobody else writes to."""
    from ft_assets.control.registry.rows_apart import look_at_rows as look

    policy, limits = DatasetPolicy(), ReadLimits(head_bytes=_HEAD)
    with tempfile.TemporaryDirectory(prefix="ft-look-") as scratch:
        return look(
            spool(path, path.name, Path(scratch), role="upload", text=policy.text, limits=limits, sha256="-"), policy
        )


def add_dataset(
    store: Store,
    tenants: TenantsFile,
    source: Path | str | Sequence[Path | str],
    name: str,
    policy: Path | DatasetPolicy | None,
    *,
    actor: str,
    validation: Sequence[Path | str] = (),
    holdout: Sequence[Path | str] = (),
    open_split: OpenSplit | None = None,
) -> DatasetVersion:
    """Add ``source`` (files, folders of them, or splits as ``hub:org/name@revision#split``) as a version of ``name``.

    ``validation`` and ``holdout`` are sources of rows that the tenant sets aside. ``name`` is ``tenant.name``. The
    default policy is used unless ``policy`` is another or names a file. The tenant's tier limits the number of
    examples. Raises UserError; nothing is stored then.
    """
    first = parse_name(name)
    tenant, short = first.tenant, first.name
    tenants.require_tenant(tenant)
    max_examples = tenants.tier_of(tenant).max_examples
    settled = _policy(policy)
    with tempfile.TemporaryDirectory(prefix="ft-add-") as scratch:
        left_out: list[str] = []

        def local(sources: Sequence[Path | str]) -> list[Path]:
            files: list[Path] = []
            for item in sources:
                if str(item).startswith(PREFIX):
                    files.append(fetch_split(str(item), Path(scratch), open_split=open_split))
                    continue
                found, warning = files_of(Path(item))
                files += found
                left_out.extend([warning] if warning else [])
            return files

        added = add_dataset_version(
            store,
            local([source] if isinstance(source, (str, Path)) else source),
            tenant=tenant,
            name=short,
            policy=settled,
            actor=actor,
            validation=local(validation),
            holdout=local(holdout),
            max_examples=max_examples,
        )
    return replace(added, warnings=(*left_out, *added.warnings))


def _policy(given: Path | DatasetPolicy | None) -> DatasetPolicy:
    if isinstance(given, Path):
        return load_policy(read_text(given, str(given)), str(given))
    return given or DatasetPolicy()
