"""Judges favour text of their own family. So a judge may not belong to the family of the base, or of the model that
wrote the answers a candidate learned from, unless the recipe allows it.

See Panickssery et al. 2024, "LLM Evaluators Recognize and Favor Their Own Generations"
(https://arxiv.org/abs/2404.13076).
"""

from collections.abc import Iterable, Iterator

from ft_assets.records.model_families import families_of
from ft_assets.settings.dataset.policy import policy_of
from ft_assets.settings.recipe.judges import JudgeModel
from ft_resources.artifacts import Address, Artifact, Artifacts
from ft_resources.errors import BadRecipe

_WHERE = "evaluation.judge"
# Names without information about a family: digests and addresses.
_NAMELESS = ("folder:", "artifact:", "recipe:")


def require_neutral(
    judge: JudgeModel, names: Iterable[str], *, base: Iterable[str], written_by: Iterable[str], certain: bool = True
) -> None:
    """Raise BadRecipe if ``judge`` may be partial and the recipe does not allow it.

    Args:
        names: the judge's names apart from its settings, such as its architecture.
        base: the base's names, such as its source and its architecture.
        written_by: models that wrote the dataset's answers, as its policy declares.
        certain: whether all names are known; if not, an unknown family passes for now.
    """
    if judge.allow_same_family:
        return
    families = {judge.family.lower(): judge.family} if judge.family else {}
    families |= _families([judge.model, judge.host, *names])
    if certain and not families:
        raise _partial(f"the family of the judge {judge.name} is unknown", "set it (family: …)")
    of_base = _families(base)
    if shared := families.keys() & of_base.keys():
        raise _partial(f"the judge {judge.name} is from the base's family ({of_base[min(shared)]})")
    if certain and not of_base:
        raise _partial(f"the family of the base is unknown, and the judge {judge.name} may belong to it")
    for writer in written_by:
        theirs = _families([writer])
        if writer.lower() == judge.model.lower() or families.keys() & theirs.keys():
            raise _partial(
                f"the judge {judge.name} is from the family of {writer}, which generated the dataset's answers"
            )
        if certain and not theirs:
            raise _partial(f"the family of {writer}, which generated the dataset's answers, is unknown")


def names_of_base(base: Artifact) -> list[str]:
    """Names of a base in the store."""
    facts = base.facts
    return [str(facts[name]) for name in ("source", "architecture") if facts.get(name)]


def writers_of(artifacts: Artifacts, dataset: Artifact) -> list[str]:
    """Models that wrote the answers of a dataset and of the datasets mixed into it, as their policies declare."""
    return list(dict.fromkeys(_writers(artifacts, dataset)))


def _writers(artifacts: Artifacts, dataset: Artifact) -> Iterator[str]:
    policy = dataset.manifest.identity["params"].get("policy")
    if policy is not None and (writer := policy_of(policy).generated_by):
        yield writer
    for name, ref in dataset.manifest.inputs.items():
        # The policy of an erased mixed dataset is gone, although its rows are in this one.
        if name.startswith("mix:") and (mixed := artifacts.find(Address.parse(ref.address))) is not None:
            yield from _writers(artifacts, mixed)


def _families(names: Iterable[str]) -> dict[str, str]:
    """Families by lower-case name."""
    told = (name for name in names if not name.startswith(_NAMELESS))
    return {family.lower(): family for name in told for family in families_of(name)}


def _partial(what: str, also: str = "") -> BadRecipe:
    choices = f"Choose a judge of another family{f', {also}' if also else ''}"
    return BadRecipe(
        f"{what}, and judges favour their own family",
        where=_WHERE,
        remedy=f"{choices}, or allow it (allow_same_family: true).",
    )
