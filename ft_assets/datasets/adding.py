"""Adding what users name, a file or a split of a Hub dataset, as the next version of a dataset."""

import tempfile
from pathlib import Path

from ft_assets.datasets.hub import PREFIX, OpenSplit, fetch_split
from ft_assets.datasets.policy import DatasetPolicy, load_policy
from ft_assets.datasets.versions import DatasetVersion, add_dataset_version
from ft_resources.errors import UserError
from ft_resources.store import Store


def add_dataset(
    store: Store,
    source: Path | str,
    name: str,
    policy: Path | None,
    *,
    actor: str,
    open_split: OpenSplit | None = None,
) -> DatasetVersion:
    """Add ``source`` (a JSON-lines file, or ``hub:org/name@revision#split``) as a version of ``tenant.name``.

    The default policy is used where ``policy`` names no file. Raises UserError; nothing is stored then.
    """
    tenant, dot, short = name.partition(".")
    if not dot or not short:
        raise UserError(
            f"{name!r} is not a dataset name", where="name", remedy="Write it as tenant.name, such as acme.support."
        )
    settled = load_policy(_read_text(policy), str(policy)) if policy else DatasetPolicy()
    with tempfile.TemporaryDirectory(prefix="ft-add-") as scratch:
        is_hub = str(source).startswith(PREFIX)
        file = fetch_split(str(source), Path(scratch), open_split=open_split) if is_hub else Path(source)
        return add_dataset_version(store, file, tenant=tenant, name=short, policy=settled, actor=actor)


def _read_text(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        reason = getattr(error, "strerror", None) or "it is not UTF-8 text"
        raise UserError(f"the file cannot be read ({reason})", where=str(path), remedy="Check the path.") from error
