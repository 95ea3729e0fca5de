"""Settings that several data forms refuse."""

from ft_assets.settings.catalogue.refusal import Refusal

WHOLE_EXAMPLES = Refusal(
    where="packing.overlong",
    refused=lambda policy: policy == "split",
    problem="{method} needs whole examples, and a piece of one lacks its question or its answer",
    instead="Use overlong truncate or drop, or method cpt.",
)
WHOLE_ANSWERS = Refusal(
    where="packing.learn",
    refused=lambda learn: learn != "all_assistant",
    problem="{method} compares whole answers, so every token of an answer is used",
    instead="Leave packing.learn out.",
)
NO_PAIRS = Refusal(
    where="gates.task_gain.metric",
    refused=lambda metric: metric == "preference_accuracy",
    problem="{method} does not use pairs, so its holdout has no preferred answers to measure",
    instead="Use metric perplexity, exact_match if the data has answers, or a method that learns from pairs, such as "
    "dpo or orpo.",
)
