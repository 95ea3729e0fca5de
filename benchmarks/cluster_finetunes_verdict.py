"""Whether fine-tunes that ran beside each other left what they should: read from the store, nothing taken on trust."""

from benchmarks.cluster_finetunes_asked import TENANT, Asked
from ft_assets.control import identity
from ft_assets.records.submissions import SubmissionStatus, all_submissions, find_outcome
from ft_assets.workers.adapters.lineage import verify_lineage
from ft_resources.artifacts import Artifact, Artifacts
from ft_resources.attempts import attempts_at
from ft_resources.errors import UserError
from ft_resources.outcomes import Outcome
from ft_resources.store import Store

_MADE_OF_EACH = ("checkpoint", "eval_report", "adapter")
_SHARED = ("dataset", "base_model", "baseline_report", "token_pack")


def problems_of(store: Store, dataset: str, recipe: str) -> list[str]:
    """What is wrong with one fine-tune; empty where checkpoint and adapter are there, once, whole and accepted."""
    artifacts = Artifacts(store)
    try:
        made = {asset: getattr(identity, asset)(artifacts, dataset, recipe) for asset in _MADE_OF_EACH}
    except UserError as missing:
        return [f"{recipe}: {missing}"]
    wrong = verify_lineage(artifacts, made["adapter"].address)
    for artifact in made.values():
        wrong += _written_once(store, artifact)
    asked = [each for each in all_submissions(store, TENANT) if each.recipe == recipe]
    ends = [outcome and (outcome.status, outcome.adapter) for outcome in (find_outcome(store, each) for each in asked)]
    if ends != [(SubmissionStatus.ACCEPTED, str(made["adapter"].address))]:
        wrong.append(f"its submissions ended as {ends}")
    return [f"{recipe}: {each}" for each in wrong]


def problems_of_all(store: Store, asked: Asked) -> list[str]:
    """What there is too much of: artifacts that nobody asked for, and work that was done again."""
    expected = dict.fromkeys(_SHARED, 1) | {asset: len(asked.recipes) for asset in _MADE_OF_EACH}
    found = {asset: len(store.folders(f"{TENANT}/{asset}")) for asset in expected}
    return [f"{found[asset]} of {asset}, not {count}" for asset, count in expected.items() if found[asset] != count]


def _written_once(store: Store, artifact: Artifact) -> list[str]:
    """One attempt, in a pod, and the files of one writer."""
    went = []
    for attempt in attempts_at(store, artifact.address):
        launch, ending = attempt.launch(), attempt.ending()
        went.append((launch and launch["launcher"], ending and ending.outcome))
    wrong = [] if went == [("kubernetes", Outcome.DONE)] else [f"attempts at {artifact.address} went as {went}"]
    writers = [name for name in store.folders(str(artifact.address)) if name != "attempts"]
    return wrong if writers == [artifact.manifest.writer] else [*wrong, f"{artifact.address} has files of {writers}"]
