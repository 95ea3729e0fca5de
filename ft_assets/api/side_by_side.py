"""A candidate beside its base, on the same questions."""

from pathlib import Path
from tempfile import TemporaryDirectory

from ft_assets.api.defaults import store_or_default
from ft_assets.api.gates import evaluation
from ft_assets.control import identity
from ft_assets.workers.evals.side_by_side import BothAnswers as BothAnswers
from ft_assets.workers.evals.side_by_side import both_answers
from ft_resources.artifacts import Artifacts
from ft_resources.store import Store

_SAMPLES, _HOLDOUT = "samples/holdout.parquet", "holdout.parquet"


def answers_side_by_side(
    dataset: str, recipe: str, *, most: int = 30, store: Store | None = None
) -> tuple[BothAnswers, ...]:
    """What both models answer to at most ``most`` rows of the dataset's holdout, those first on which they differ.

    None where the evaluation asked for no answers. Raises UserError for unknown keys, MissingInput where the pair was
    not evaluated yet.
    """
    store = store_or_default(store)
    report = evaluation(dataset, recipe, store=store).report
    curated = identity.dataset(Artifacts(store), dataset)
    if _SAMPLES not in report.manifest.files or _HOLDOUT not in curated.manifest.files:
        return ()
    with TemporaryDirectory(prefix="ft-answers-") as scratch:
        holdout = curated.path(_HOLDOUT, Path(scratch))
        return tuple(both_answers(report.read(_SAMPLES), holdout, curated.facts["form"], most=most))
