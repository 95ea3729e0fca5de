"""The check: compare the server with the reference on the same prompts, and judge the differences."""

# ruff: noqa: TID253 -- it needs torch anyway.

from collections.abc import Sequence
from typing import Any

import torch

from ft_assets.workers.evals.model import load_model
from ft_assets.workers.serving.parity.asked_prompts import PROMPTS, AskedPrompts, Evaluated, Render
from ft_assets.workers.serving.parity.asking import Forced, OtherPrompt, ask
from ft_assets.workers.serving.parity.limits import limits_of, precision_of
from ft_assets.workers.serving.parity.measure import Answer, measure
from ft_assets.workers.serving.parity.reference import Reference
from ft_assets.workers.serving.parity.report import ParityReport, judge
from ft_assets.workers.serving.parity.settings import ServerSettings
from ft_assets.workers.serving.parity.suite_scores import compare_suites, worse_suites
from ft_resources.errors import UserError
from ft_resources.serving.server import Server, Token

# Longer answers add little, as each token is compared after the reference's own tokens.
_MAX_NEW_TOKENS = 32


def check_parity(
    server: Server,
    name: str,
    *,
    base: str,
    evaluated: Evaluated,
    render: Render,
    settings: ServerSettings,
    prompts: int = PROMPTS,
) -> ParityReport:
    """Whether the model ``name`` of ``server`` gives the results of the evaluation.

    Args:
        base: the server's name for the base without an adapter.
        render: the router's rendering.
        settings: the server's settings.
        prompts: most prompts.

    If the server does not answer, or the router refuses a prompt, the report says "not proved". Raises UserError if the
    evaluated model or its data cannot be read.
    """
    asked = AskedPrompts(evaluated)
    loaded = load_model(evaluated.base, evaluated.adapter)
    # One more than the reference generates: the end token, or the token after a cut answer.
    most = max(2, min(_MAX_NEW_TOKENS, evaluated.max_new_tokens))
    chosen = asked.read(prompts, loaded.context_length - most)
    # Merged, as a candidate is evaluated.
    reference = Reference(loaded.merged(), asked.ends)
    precision = precision_of(settings, reference.dtype)

    def report(**found: Any) -> ParityReport:
        return ParityReport(settings=settings, evaluated_in=reference.dtype, precision=precision, **found)

    def served(model: str) -> Answer:
        return lambda each: ask(server, model, each, reference.ends)

    if not chosen:
        return report(outcome="not proved", reasons=("no prompt is asked through a chat template",))
    twin = _twin(evaluated, settings, asked.ends) if precision == "half" else None
    try:
        measured = measure(reference, chosen, render, most, adapter=served(name), base=served(base), twin=twin)
    except UserError as error:
        outcome = "failed" if isinstance(error, OtherPrompt) else "not proved"
        return report(outcome=outcome, reasons=(_sentence(error),))
    limits = limits_of(precision, measured.noise)
    outcome, reasons = judge(measured.figures, measured.control, limits)
    found = {"limits": limits, "figures": measured.figures, "control": measured.control, "noise": measured.noise}
    if outcome != "proved":
        return report(outcome=outcome, reasons=reasons, **found)
    try:
        suites = compare_suites(
            server,
            name,
            evaluated,
            render,
            ends=reference.ends,
            context_length=loaded.context_length,
            most=prompts,
        )
    except UserError as error:
        return report(outcome="not proved", reasons=(_sentence(error),), **found)
    worse = worse_suites(suites)
    return report(outcome="failed" if worse else "proved", reasons=tuple(worse), suites=suites, **found)


def _sentence(error: UserError) -> str:
    return f"{error.where}: {error.what}" if error.where else error.what


def _twin(evaluated: Evaluated, settings: ServerSettings, ends: Sequence[int]) -> Answer:
    """The evaluated model in the server's dtype and with the adapter not merged, as in servers."""
    loaded = load_model(evaluated.base, evaluated.adapter)
    loaded.model.to(getattr(torch, settings.dtype))
    again = Reference(loaded, ends)

    def answer(asked: Sequence[Forced]) -> list[list[Token]]:
        return [again.token_by_token(*each) for each in asked]

    return answer
