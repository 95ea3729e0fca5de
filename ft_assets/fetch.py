"""``python -m ft_assets.fetch SPEC``: download the models that a worker will load to this machine's cache, so that its
GPUs do not idle meanwhile. The worker fetches what is missing, so a transient failure here costs only time.
"""

import os
import sys
import tempfile
from pathlib import Path

from ft_assets.settings.layout import node_rank
from ft_assets.worker import read_spec
from ft_resources.artifacts import Address, Artifact, Artifacts
from ft_resources.attempts import FETCHED
from ft_resources.errors import UserError
from ft_resources.file_cache import FileCache
from ft_resources.work import WorkSpec

LARGE = ("base_model", "checkpoint")
"""Assets whose files are models."""


def models_of(spec: WorkSpec) -> list[Artifact]:
    """The inputs of ``spec`` that are models."""
    artifacts = Artifacts(spec.open_store())
    addresses = sorted({ref.address for ref in spec.inputs.values()})
    return [artifacts.get(Address.parse(address)) for address in addresses if Address.parse(address).asset in LARGE]


def fetch(spec: WorkSpec, scratch: Path) -> str:
    """Fetch the models, and record how many bytes were not there yet; what was done, in words. Raises UserError if one
    is not available."""
    cache = FileCache.of_machine(scratch)
    models = models_of(spec)
    for number, model in enumerate(models):
        cache.folder(model, scratch / f"view-{number}")
    if node_rank() == 0:
        spec.open_store().put_json(f"{spec.attempt_path}/{FETCHED}", {"bytes": cache.fetched})
    return f"models in the cache: {len(models)}; {cache.fetched:,} bytes of them were fetched"


def main() -> None:
    """Print what was fetched. Exits with 0 also if a model cannot be fetched: the worker reports that."""
    for folder in ("HOME", "TMPDIR"):
        if folder in os.environ:
            Path(os.environ[folder]).mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="ft-fetch-", dir=os.environ.get("FT_SCRATCH")) as scratch:
        try:
            print(fetch(read_spec(sys.argv[1]), Path(scratch)))
        except (UserError, OSError) as error:
            print(f"not fetched, the worker will try: {error}")


if __name__ == "__main__":
    main()
