"""Safety by default: a recipe on a base that converses is judged by refusals, unless it says otherwise."""

import tempfile
from collections.abc import Callable
from pathlib import Path

from ft_assets.control.registry.base_files import fetch_base_file
from ft_assets.settings.catalogue.gates.safety import SafetyGate
from ft_assets.settings.recipe.recipe import Recipe
from ft_assets.settings.shipped_suites import MADE_SAFETY
from ft_assets.settings.ungated import NO_GATES
from ft_assets.workers.base_models.base_lock import BaseLock
from ft_assets.workers.base_models.contents import TEMPLATE
from ft_assets.workers.suites.registered import items_of, list_suites, suites_of
from ft_assets.workers.templates.source import TOKENIZER_CONFIG, own_template
from ft_resources.hub import Hub
from ft_resources.store import Store

PUBLIC = "That one is made by ft; for the public ones: ft suite install safety"
# Every threshold is written out: a later change of a default changes no recipe.
_GATE = SafetyGate(**SafetyGate().model_dump())


def with_default_safety(
    store: Store, recipe: Recipe, lock: BaseLock, *, folder: Path | None, hub: Callable[[], Hub]
) -> tuple[Recipe, str]:
    """``recipe`` with the gate ``safety``, and with a safety suite unless it names one, if its base has a chat template
    of its own and the recipe does not say whether it wants the gate; and what there is to say, or "".

    It is that of ``safety_suite``, which the caller registers. ``folder`` holds the base before its upload.
    """
    if _is_said(recipe) or not _converses(store, lock, folder, hub):
        return recipe, ""
    if own := suites_of(store, recipe.evaluation.suites, "safety"):
        return _with(recipe, ()), _told(own[0])
    suite = safety_suite(store)
    return _with(recipe, (suite,)), _told(suite) if suite != MADE_SAFETY else f"{_told(suite)} {PUBLIC}"


def safety_suite(store: Store) -> str:
    """Of several registered safety suites the one with the most prompts; where there is none, the one that the package
    makes, which is registered with the first recipe that names it."""
    known = [key for key in suites_of(store, list_suites(store), "safety") if key != MADE_SAFETY]
    return max(known, key=lambda key: items_of(store, key), default=MADE_SAFETY)


def with_safety_of(stored: Recipe, recipe: Recipe) -> Recipe:
    """``recipe``, read again, with the safety settings that its registration as ``stored`` added."""
    if stored.gates == NO_GATES or stored.gates.safety != _GATE or _is_said(recipe):
        return recipe
    return _with(recipe, tuple(key for key in stored.evaluation.suites if key not in recipe.evaluation.suites)[-1:])


def _is_said(recipe: Recipe) -> bool:
    return recipe.gates == NO_GATES or "safety" in recipe.gates.model_fields_set


def _with(recipe: Recipe, suites: tuple[str, ...]) -> Recipe:
    assert recipe.gates != NO_GATES
    gates = recipe.gates.model_copy(update={"safety": _GATE})
    evaluation = recipe.evaluation.model_copy(update={"suites": (*recipe.evaluation.suites, *suites)})
    return recipe.model_copy(update={"gates": gates, "evaluation": evaluation})


def _told(suite: str) -> str:
    return (
        f"The base has a chat template, so the gate safety is enabled, measured on {suite}. To disable it, set "
        "gates: {safety: null} in the recipe."
    )


def _converses(store: Store, lock: BaseLock, folder: Path | None, hub: Callable[[], Hub]) -> bool:
    if folder is not None:
        return own_template(folder) is not None
    with tempfile.TemporaryDirectory(prefix="ft-base-") as scratch:
        for name in (TEMPLATE, TOKENIZER_CONFIG):
            fetch_base_file(store, lock, name, Path(scratch) / name, hub=hub)
        return own_template(Path(scratch)) is not None
