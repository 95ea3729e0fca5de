"""The definition of a training method."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from ft_assets.settings.catalogue.form import Form
from ft_assets.settings.catalogue.refusal import Refusal
from ft_resources.settings import Settings

OwnLoss = Callable[[Mapping[str, Any]], float]


def nothing_more(settings: Mapping[str, Any]) -> float:
    """For a loss without a part beyond the likelihood."""
    return 0.0


@dataclass(frozen=True, kw_only=True, slots=True)
class Method:
    """A training method.

    Args:
        name: its name in recipes.
        what: its definition, as a clause for the recipe's documentation.
        form: data form that it learns from. The form's ``documents`` determine what a window holds, and so the memory.
        objective: ``module:function`` that builds its ``Objective`` (the loss and its logged figures) from the
            training's settings. Named, not imported, because it needs torch.
        section: the recipe's section with the settings of its loss; "" if it has none.
        settings: the type of that section.
        full_rate: learning rate of full training for ``auto``; adapters use ten times that.
        rate_why: reason for this rate, as the end of a sentence; "" if it is the usual one.
        epochs: passes over the data for ``auto``, and why; None: by the number of examples.
        compares: whether it needs a reference's log-probabilities (``reference_logps``).
        token_mean: whether its loss is a mean over tokens, so that its exponential is a perplexity.
        beyond_likelihood: maps the section's settings (as JSON) to nats: the loss of an untrained model beyond
            ln(vocabulary); None if the loss has no likelihood part, as it only compares.
        teaches_tokens: whether it sees enough text to learn embeddings of new tokens.
        refusals: settings that are invalid with it, beyond those of its form.
    """

    name: str
    what: str
    form: Form
    objective: str
    full_rate: float
    section: str = ""
    settings: type[Settings] | None = None
    rate_why: str = ""
    epochs: tuple[int, str] | None = None
    compares: bool = False
    token_mean: bool = False
    beyond_likelihood: OwnLoss | None = nothing_more
    teaches_tokens: bool = False
    refusals: tuple[Refusal, ...] = ()

    @property
    def all_refusals(self) -> tuple[Refusal, ...]:
        return (*self.form.refusals, *self.refusals)

    def own_settings(self, params: Mapping[str, Any]) -> Mapping[str, Any]:
        """Its section in a training's settings (``Recipe.training_settings``); empty if it has none."""
        return params[self.section] if self.section else {}
