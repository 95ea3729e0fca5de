"""What the doctor says of a pair's token pack with today's inputs, and the refusal of a sick one."""

from ft_assets.control.identity.bases import base_model
from ft_assets.control.identity.packs import token_pack
from ft_assets.workers.packs.evidence import DOCTOR_CHECKS, Finding, in_words, verdicts
from ft_resources.artifacts import Artifacts
from ft_resources.errors import DoctorRefused, MissingInput


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
    findings = pack_findings(artifacts, dataset_key, recipe_key)
    failed = [finding for finding in findings if not finding.passed and finding.blocks]
    if failed:
        raise DoctorRefused(
            "; ".join(f"{in_words(finding.name)}: {finding.detail}" for finding in failed),
            where=f"token_pack of {dataset_key}|{recipe_key}",
            remedy="Correct the dataset, the template or the packing settings; nothing was trained.",
        )
