"""Whether a recipe needs a chat template."""

from ft_assets.settings.catalogue.methods import METHODS
from ft_assets.settings.recipe.recipe import Recipe
from ft_assets.workers.suites.kinds.registry import uses_chat
from ft_assets.workers.suites.registered import get_suite, list_suites
from ft_assets.workers.suites.safety_suite import SAFETY
from ft_resources.artifacts import Address, Artifacts
from ft_resources.store import Store


def needs_base_template(store: Store, recipe: Recipe) -> bool:
    """Whether the base must have a chat template: the recipe names none, and trains on or evaluates conversations.

    Plain texts need none, and neither do suites that compare likelihoods. Suites that are not registered do not count.
    """
    if recipe.chat_template is not None:
        return False
    if not METHODS[recipe.method].form.plain:
        return True
    validation = recipe.evaluation.validation_suite
    named = {*recipe.evaluation.suites, *([validation.suite] if validation else ())}
    return any(_asks_chats(store, key) for key in named.intersection(list_suites(store)))


def _asks_chats(store: Store, key: str) -> bool:
    kind = str(Artifacts(store).get(Address.parse(get_suite(store, key).address)).facts.get("kind", ""))
    return kind == SAFETY or uses_chat(kind)
