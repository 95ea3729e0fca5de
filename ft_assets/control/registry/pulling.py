"""Pull the rows of a watched source, as the next version of its dataset."""

from pathlib import Path
from tempfile import TemporaryDirectory

from ft_assets.control.identity.datasets import raw_dataset
from ft_assets.control.registry.versions import DatasetVersion, add_dataset_version
from ft_assets.records.sources import Pull, Watch, last_pull, now, record_pull, rows_key
from ft_assets.settings.dataset.source import Source
from ft_assets.settings.tenants import TenantsFile
from ft_assets.workers.datasets.sources import opened
from ft_assets.workers.datasets.sources.place import Place
from ft_assets.workers.datasets.sources.traffic import LikedAnswers
from ft_resources.artifacts import Artifacts
from ft_resources.errors import BadData, UserError
from ft_resources.store import Store
from ft_resources.strict import nearest


def place_of(store: Store, tenants: TenantsFile, watch: Watch) -> tuple[Source, Place]:
    """The source of ``watch`` with its place, both allowed by ``tenants``. Raises UserError; nothing is read."""
    source = watch.source()
    if source is None:
        raise UserError(
            f"{watch.dataset} has no source",
            where=watch.dataset,
            remedy="Name one under `source` in its dataset.yaml, and run `ft dataset watch`.",
        )
    settings = tenants.tenants.get(watch.tenant)
    assets = settings.assets if settings else ()
    if source.asset is not None and source.asset not in assets:
        raise UserError(
            f"{watch.tenant} may not watch the asset {source.asset!r}; {nearest(source.asset, sorted(assets))}",
            where="source.asset",
            remedy="Ask the platform's administrator to list it in tenants.yaml, under this tenant's `assets`.",
        )
    if source.traffic is not None:
        line, last = f"{watch.dataset}.{source.traffic.recipe}", last_pull(store, watch)
        minimum = source.traffic.minimum
        return source, LikedAnswers(store, line, minimum=minimum, last=last.seen if last is not None else "")
    return source, opened(source, settings.connections if settings else {}, store.url)


def pull(
    store: Store, tenants: TenantsFile, watch: Watch, *, seen: str, actor: str, place: Place | None = None
) -> tuple[Pull, DatasetVersion]:
    """Fetch the rows and add them as a version; no new version is made if rows and policy are a version already.

    ``seen`` is the noticed materialization if the source waits for an asset; other sources report what they had when
    read. Raises BadData for rows that cannot be used, which is recorded: they are not fetched again until the source
    has others. Raises UserError and StoreUnavailable for temporary or correctable problems; nothing is recorded then.
    """
    source, found = place_of(store, tenants, watch)
    policy = watch.settled().model_copy(update={"source": None})
    most = tenants.tier_of(watch.tenant).max_examples
    with TemporaryDirectory(prefix="ft-pull-") as scratch:
        fetched = (place or found).fetch(Path(scratch), most_rows=most)
        had = seen if source.asset else fetched.seen
        beside = _files_beside(store, watch, source, Path(scratch))
        try:
            added = add_dataset_version(
                store,
                [*beside["upload"], *fetched.files],
                validation=beside["validation"],
                holdout=beside["holdout"],
                tenant=watch.tenant,
                name=watch.name,
                policy=policy,
                actor=actor,
                max_examples=most,
                source=f"{source.described}: {had}",
            )
        except BadData as error:
            refused = Pull(rows=rows_key(watch, had), seen=had, refused=str(error), actor=actor, at=now())
            record_pull(store, watch, refused)
            raise
    done = Pull(rows=rows_key(watch, had), seen=had, version=str(added.key), actor=actor, at=now())
    record_pull(store, watch, done)
    return done, added


def _files_beside(store: Store, watch: Watch, source: Source, scratch: Path) -> dict[str, list[Path]]:
    """By role, the files of the version whose rows are added to each new one; empty if the source names none."""
    files: dict[str, list[Path]] = {"upload": [], "validation": [], "holdout": []}
    if source.traffic is None or source.traffic.beside is None:
        return files
    raw = raw_dataset(Artifacts(store), f"{watch.dataset}.v{source.traffic.beside}")
    for name in raw.manifest.files:
        role, _, stored = name.partition("/")
        if role in files:
            target = scratch / "beside" / role / stored
            target.parent.mkdir(parents=True, exist_ok=True)
            raw.fetch(name, target)
            files[role].append(target)
    return files
