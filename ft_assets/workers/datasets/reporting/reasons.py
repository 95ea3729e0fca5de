"""Each finding's reason in the tenant's words."""

from ft_assets.workers.datasets.forms.reasons import REASONS as _ROWS

REASONS: dict[str, str] = {
    **{reason.value: words for reason, words in _ROWS.items()},
    "personal_data": "personal data or secrets",
    # The filters of the policy.
    "empty_answer": "an empty answer",
    "short": "a very short answer",
    "long": "a very long example",
    "repetitive": "an answer that repeats itself",
    "truncated": "a truncated answer",
    # Not left out, but shown.
    "stays_held_out": "what an earlier version held out stays in the holdout",
    "no_category": "no category to balance by",
    "kept": "an example used in training",
}


def reason_words(reason: str) -> str:
    """``reason`` for people; a reason without its own wording is spelled out."""
    return REASONS.get(reason, reason.replace("_", " "))
