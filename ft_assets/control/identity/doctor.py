"""The doctor's verdicts on a pair's token pack, and the refusal of a failed pack, or of a holdout that an earlier
training has read."""

from collections.abc import Sequence
from pathlib import Path
from tempfile import TemporaryDirectory

from ft_assets.control.identity.accepted import WARM_START, warm_start
from ft_assets.control.identity.bases import base_model
from ft_assets.control.identity.datasets import approved_dataset
from ft_assets.control.identity.packs import token_pack
from ft_assets.workers.packs.evidence import DOCTOR_CHECKS, Finding, in_words, verdicts
from ft_resources.artifacts import Artifacts
from ft_resources.errors import BadData, DoctorRefused, MissingInput

_CORRECT = "Correct the dataset, the template or the packing settings"
_OPEN = (
    "Where the template leaves the last answer open, as GLM's, name the control tokens that end an answer in "
    "packing.end_of_turn, such as [<|user|>]; otherwise correct the template"
)


def pack_findings(artifacts: Artifacts, dataset_key: str, recipe_key: str) -> list[Finding]:
    """The verdicts on a pair's pack with its current inputs; without a pack, every check fails."""
    try:
        pack = token_pack(artifacts, dataset_key, recipe_key)
        base = base_model(artifacts, recipe_key)
    except MissingInput as error:
        return [Finding(name=name, passed=False, detail=error.what) for name in DOCTOR_CHECKS]
    return verdicts(pack, config=base.read("config.json"))


def refuse_sick_pack(artifacts: Artifacts, dataset_key: str, recipe_key: str) -> None:
    """Raise DoctorRefused for a pack that must not be trained on."""
    refuse_sick(pack_findings(artifacts, dataset_key, recipe_key), f"{dataset_key}|{recipe_key}")


def refuse_sick(findings: Sequence[Finding], pair: str) -> None:
    """Raise DoctorRefused if one of the findings on a pair's pack blocks."""
    failed = [finding for finding in findings if not finding.passed and finding.blocks]
    if failed:
        raise DoctorRefused(
            "; ".join(f"{in_words(finding.name)}: {finding.detail}" for finding in failed),
            where=f"token_pack of {pair}",
            remedy=f"{_OPEN if failed[0].name == 'end_of_turn_is_learned' else _CORRECT}; nothing was trained.",
        )


def refuse_read_holdout(artifacts: Artifacts, dataset_key: str, recipe_key: str) -> None:
    """Raise BadData for a pair whose training continues an adapter that has learned rows of the pair's holdout: it
    would know their answers, and the base that it is compared with would not."""
    start = warm_start(artifacts, recipe_key)
    if start is None:
        return
    from ft_assets.workers.training.read_before import holdout_read_before

    with TemporaryDirectory(prefix="ft-holdout-") as scratch:
        read = holdout_read_before(artifacts, start, approved_dataset(artifacts, dataset_key), Path(scratch))
    if read:
        raise BadData(
            f"{read:,} holdout row(s) were training rows of the adapter that {WARM_START} names, {start.address}",
            where=f"pair {dataset_key}|{recipe_key}",
            remedy="Use the split settings of that adapter's dataset, which leave each prompt on its side; or take "
            "these rows out of the holdout, or warm_start out of the recipe.",
        )
