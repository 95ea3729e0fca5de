"""The comparison table of a decided sweep's trials."""

import dagster as dg

from ft_assets.records.sweep_decision import Decision, TrialResult
from ft_assets.settings.recipe.shown import shown_values

COLUMNS = ("trial", "values", "validation loss", "steps", "tokens/s", "")


def trial_rows(decision: Decision) -> list[tuple[str, ...]]:
    """The cells of ``COLUMNS`` for each trial in order; the last cell marks the winner or says how the trial ended."""
    return [
        (
            trial.key,
            shown_values(trial.values),
            "–" if trial.loss is None else f"{trial.loss:.4f}",
            "–" if trial.steps is None else f"{trial.steps:,}",
            "–" if trial.tokens_per_s is None else f"{trial.tokens_per_s:,.0f}",
            _remark(trial, decision.winner),
        )
        for trial in decision.trials
    ]


def trial_table(decision: Decision) -> dg.MetadataValue:
    """The same as Markdown, for asset metadata."""
    lines = [COLUMNS, ("---",) * len(COLUMNS), *trial_rows(decision)]
    return dg.MetadataValue.md("\n".join(f"| {' | '.join(_cell(cell) for cell in line)} |" for line in lines))


def _remark(trial: TrialResult, winner: int | None) -> str:
    if trial.number == winner:
        return "winner"
    return trial.ending.replace("_", " ") or ("" if trial.loss is not None else "no validation loss")


def _cell(text: str) -> str:
    return text.replace("|", "\\|").replace("\n", " ")
