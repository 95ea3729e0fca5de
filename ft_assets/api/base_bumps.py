"""Base bumps: find bases that moved, carry the adapters of the old base, retrain those that fail, release the new
base."""

from dataclasses import dataclass
from datetime import UTC, datetime

from ft_assets.api.defaults import actor_or_user, store_or_default, tenants_or_default
from ft_assets.api.own_keys import own_recipe
from ft_assets.api.steps import Step
from ft_assets.control.base_bumps.bump import BaseBump, Dependent, find_bump, record_bump
from ft_assets.control.base_bumps.plan import Step as Stage
from ft_assets.control.base_bumps.plan import plan_bump
from ft_assets.control.base_bumps.progress import budget_left, open_bumps, standings, start_carry, start_training
from ft_assets.control.base_bumps.report import Row, rows, summary
from ft_assets.control.lines import releases
from ft_assets.control.lines.lines import Pointer, list_lines, read_line
from ft_assets.control.lines.releases import BaseRelease, find_release
from ft_assets.control.registry.successors import current_recipe, register_successor
from ft_assets.control.submissions.retraining import Wish, take_budget
from ft_assets.control.submissions.submit import check_admission, check_wish
from ft_assets.records.retired_recipes import retired_recipes
from ft_assets.records.submissions import Submission
from ft_assets.records.successors import is_successor
from ft_assets.settings.tenants import TenantsFile
from ft_resources.artifacts import Artifacts
from ft_resources.errors import UserError
from ft_resources.hub import Hub, HuggingFaceHub
from ft_resources.store import Store

_SERVED: tuple[Pointer, ...] = ("staging", "production")


@dataclass(frozen=True, kw_only=True)
class BaseBumpReport:
    """The state of a base bump and of every adapter on the old base; ``release`` is None while the new base is held."""

    recipe: str
    rows: tuple[Row, ...]
    summary: str
    release: BaseRelease | None


def base_bump(recipe: str, *, store: Store | None = None) -> BaseBumpReport:
    """Who depends on the base that ``recipe`` moved to, what passed, and what is trained again.

    Raises UserError for a recipe that no base bump leads to.
    """
    store = store_or_default(store)
    recipe = own_recipe(store, recipe)
    found = list(standings(store, _bump(store, recipe)))
    release = find_release(store, recipe)
    return BaseBumpReport(recipe=recipe, rows=tuple(rows(found)), summary=summary(found), release=release)


def release_base(recipe: str, *, reason: str, store: Store | None = None, actor: str = "") -> BaseRelease:
    """Release the held base of a recipe's successor, so that its adapters may go to production.

    Raises UserError for a recipe that is not a successor, and without a reason.
    """
    store = store_or_default(store)
    return releases.release_base(store, own_recipe(store, recipe), actor=actor_or_user(actor), reason=reason)


def start_base_bump(
    recipe: str, *, hub: Hub | None = None, store: Store | None = None, actor: str = ""
) -> tuple[str, list[str]]:
    """Look whether the base of a recipe moved on the Hub; if so, register the recipe's successor and record who depends
    on the old base.

    Returns the successor, "" where the base has not moved, and what could not be read of the dependents. Raises
    UserError for an unknown recipe, HubUnavailable, and BadBase for a new commit that cannot be used.
    """
    store, actor = store_or_default(store), actor_or_user(actor)
    problems: list[str] = []
    successor = register_successor(store, recipe, hub or HuggingFaceHub(), actor=actor)
    # Also where the process died after registering: until the bump is recorded, nobody submits the lines.
    if is_successor(store, successor or recipe):
        record_bump(Artifacts(store), successor or recipe, actor=actor, problems=problems)
    return successor or "", problems


def start_base_bumps(
    *,
    after: str = "",
    most: int = 500,
    hub: Hub | None = None,
    store: Store | None = None,
    tenants: TenantsFile | None = None,
    actor: str = "",
) -> Step:
    """``start_base_bump`` of every recipe in use: those that somebody subscribes to, and those of adapters in staging
    or production, of which the lines beyond ``after`` are read, ``most`` at once. Raises UserError for a tenants file
    that cannot be read."""
    store, tenants = store_or_default(store), tenants_or_default(tenants)
    problems: list[str] = []
    batch = [line for line in list_lines(store) if line > after][:most]
    in_use = {item.recipe for tenant in tenants.tenants.values() for item in tenant.subscriptions}
    in_use |= _served(store, batch, problems)
    looked: dict[str, str] = {}
    retired = retired_recipes(store)
    for key in sorted(in_use):
        try:
            current = current_recipe(store, key)
            if current in looked or current in retired:
                continue
            looked[current] = ""
            looked[current], missing = start_base_bump(current, hub=hub, store=store, actor=actor)
            problems += missing
        except UserError as error:
            # One base that is gone must not keep the others from being checked.
            problems.append(f"{key}: {error.what}")
        except Exception as error:
            # Nor may one with unexpected files: anybody can commit them.
            problems.append(f"{key}: its base cannot be read ({type(error).__name__})")
    moved = [successor for successor in looked.values() if successor]
    text = f"checked {len(looked)} recipes in use: {len(moved)} bases moved"
    if moved:
        text += f" ({', '.join(moved)})"
    return Step(
        said="; ".join([text, *problems]),
        worked=len(moved),
        log=tuple(f"the base of {key} moved; registered {successor}" for key, successor in looked.items() if successor),
        after=batch[-1] if len(batch) == most else "",
    )


def carry(
    dataset: str, recipe: str, *, store: Store | None = None, tenants: TenantsFile | None = None, actor: str = ""
) -> bool:
    """Submit the pair of a dataset version and a successor to be carried: the weights that were accepted on the old
    base are judged on the new one. False where it was submitted before.

    Raises UserError for a recipe that no base bump leads to, and for a dataset that does not depend on the old base.
    """
    store, tenants = store_or_default(store), tenants_or_default(tenants)
    found = next((each for each in _bump(store, recipe).dependents if each.dataset == dataset), None)
    if found is None:
        raise UserError(
            f"nothing in {dataset} depends on the previous base of {recipe}",
            where=f"dataset key {dataset!r}",
            remedy=f"Name one of those that `ft base-bump {recipe}` lists, or ask for a training.",
        )
    return start_carry(store, tenants, recipe, found, actor=actor_or_user(actor)) is not None


def advance_base_bumps(
    *, most_open: int = 25, store: Store | None = None, tenants: TenantsFile | None = None, actor: str = ""
) -> Step:
    """Submit what open base bumps need next, and release a base once none of its dependents is open.

    At most ``most_open`` carries are under way, as each is an evaluation; trainings stay within the day's budget.
    Raises UserError for a tenants file, or records, that cannot be read.
    """
    store, tenants, actor = store_or_default(store), tenants_or_default(tenants), actor_or_user(actor)
    retired = retired_recipes(store)
    recipes, said, worked = [each for each in open_bumps(store) if each not in retired], list[str](), 0
    made: list[Submission] = []
    for recipe in recipes:
        try:
            open_now, steps = _advance(store, tenants, recipe, most_open, said, made, actor)
            most_open, worked = most_open - open_now, worked + steps
        except UserError as error:
            # One bump that cannot be read must not keep the others waiting.
            said.append(f"{recipe}: {error.what}")
    text = "; ".join([f"checked {len(recipes)} open base bumps", *said])
    return Step(said=text, worked=worked, log=tuple(said), submitted=tuple(made))


def _advance(
    store: Store, tenants: TenantsFile, recipe: str, free: int, said: list[str], made: list[Submission], actor: str
) -> tuple[int, int]:
    """Take the next steps of one bump, adding to ``said`` and ``made``; the numbers of its open carries and steps."""
    following, found = current_recipe(store, recipe), list(standings(store, _bump(store, recipe)))
    carrying = sum(each.step is Stage.CARRYING for each in found)
    if following != recipe:
        said.append(f"{recipe}: its base moved again; {following} replaces this bump")
        return carrying, 0
    today, per_day = datetime.now(UTC).date(), tenants.retrainings_per_day
    plan = plan_bump(found, most_open=carrying + max(0, free - carrying), budget=budget_left(store, today, per_day))

    def possible(dependent: Dependent, *, trains: bool = False) -> bool:
        """Whether the pair can be submitted; if not, it is reported and uses none of the day's budget."""
        try:
            check_wish(store, dependent.dataset, recipe)
            if trains:
                check_admission(store, tenants, dependent.dataset, recipe)
        except UserError as error:
            said.append(f"{dependent.dataset} with {recipe}: {error.what}")
            return False
        return True

    carried = [
        submission
        for each in plan.carry
        if possible(each) and (submission := start_carry(store, tenants, recipe, each, actor=actor))
    ]
    retrained = [
        submission
        for each in plan.retrain
        if possible(each, trains=True)
        and take_budget(store, today, per_day, Wish(dataset=each.dataset, recipe=recipe))
        and (submission := start_training(store, tenants, recipe, each, actor=actor))
    ]
    made += (*carried, *retrained)
    if plan.over:
        reason = f"no dependent is open: {summary(found)}"
        releases.release_base(store, recipe, actor=actor, reason=reason)
    held = f", {plan.held} are queued for tomorrow's budget of {per_day}" if plan.held else ""
    words = f"{len(carried)} carries and {len(retrained)} retrainings submitted{held}"
    said.append(f"{recipe}: {'released' if plan.over else words}; {summary(found)}")
    return carrying + len(carried), len(carried) + len(retrained) + plan.over


def _bump(store: Store, recipe: str) -> BaseBump:
    bump = find_bump(store, recipe)
    if bump is None:
        raise UserError(
            f"{recipe} is not the successor in any base bump",
            where=f"recipe key {recipe!r}",
            remedy="Name the recipe that the base sensor registered when the base moved: ft recipe list",
        )
    return bump


def _served(store: Store, lines: list[str], problems: list[str]) -> set[str]:
    """Recipes of adapters in staging or production."""
    found: set[str] = set()
    for line in lines:
        try:
            state = read_line(store, line)
        except UserError as error:
            problems.append(f"{line}: {error.what}")
            continue
        found |= {record.recipe for stage in _SERVED if (record := state.at(stage)) is not None}
    return found
