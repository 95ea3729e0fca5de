"""Judges favour what their own family writes, so one of the base's family, or of that of the model which wrote the
answers a candidate learned from, does not judge unless the recipe allows it.

See Panickssery et al. 2024, "LLM Evaluators Recognize and Favor Their Own Generations"
(https://arxiv.org/abs/2404.13076).
"""

from collections.abc import Iterable, Iterator

from ft_assets.datasets.policy import policy_of
from ft_assets.datasets.reporting.families import families_of
from ft_assets.recipes.judges import JudgeModel
from ft_resources.artifacts import Address, Artifact, Artifacts
from ft_resources.errors import BadRecipe

_WHERE = "evaluation.judge"
# What says nothing about a family: digests and addresses.
_NAMELESS = ("folder:", "artifact:", "recipe:")


def require_neutral(
    judge: JudgeModel, names: Iterable[str], *, base: Iterable[str], written_by: Iterable[str], certain: bool = True
) -> None:
    """Raise BadRecipe where ``judge`` may be partial, and the recipe does not allow it.

    Args:
        names: what the judge is called beside its settings, such as its architecture.
        base: what the base is called, such as its source and its architecture.
        written_by: models that wrote the answers of the dataset, as it says.
        certain: whether all names are known that there are; if not, an unknown family is let through for now.
    """
    if judge.allow_same_family:
        return
    families = {judge.family.lower(): judge.family} if judge.family else {}
    families |= _families([judge.model, judge.host, *names])
    if certain and not families:
        raise _partial(f"nobody here knows the family of the judge {judge.name}", "say it (family: …)")
    of_base = _families(base)
    if shared := families.keys() & of_base.keys():
        raise _partial(f"the judge {judge.name} is of the base's family ({of_base[min(shared)]})")
    if certain and not of_base:
        raise _partial(f"nobody here knows the family of the base, which the judge {judge.name} may be of")
    for writer in written_by:
        theirs = _families([writer])
        if writer.lower() == judge.model.lower() or families.keys() & theirs.keys():
            raise _partial(f"the judge {judge.name} is of the family of {writer}, which wrote the dataset's answers")
        if certain and not theirs:
            raise _partial(f"nobody here knows the family of {writer}, which wrote the dataset's answers")


def names_of_base(base: Artifact) -> list[str]:
    """What a base in the store is called."""
    facts = base.facts
    return [str(facts[name]) for name in ("source", "architecture") if facts.get(name)]


def writers_of(artifacts: Artifacts, dataset: Artifact) -> list[str]:
    """The models that wrote a dataset's answers, and those of what is mixed into it, as their policies say."""
    return list(dict.fromkeys(_writers(artifacts, dataset)))


def _writers(artifacts: Artifacts, dataset: Artifact) -> Iterator[str]:
    policy = dataset.manifest.identity["params"].get("policy")
    if policy is not None and (writer := policy_of(policy).generated_by):
        yield writer
    for name, ref in dataset.manifest.inputs.items():
        # A mixed dataset that is erased since cannot be asked; its rows are in this one all the same.
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
