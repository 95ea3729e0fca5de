"""Settings that several data forms refuse."""

from ft_assets.settings.catalogue.refusal import Refusal

WHOLE_EXAMPLES = Refusal(
    where="packing.overlong",
    refused=lambda policy: policy == "split",
    problem="{method} learns from whole examples, and a piece of one has lost its question or its answer",
    instead="Use overlong truncate or drop, or method cpt.",
)
WHOLE_ANSWERS = Refusal(
    where="packing.learn",
    refused=lambda learn: learn != "all_assistant",
    problem="{method} compares whole answers, so all of each answer counts",
    instead="Leave packing.learn out.",
)
NO_PAIRS = Refusal(
    where="gates.task_gain.metric",
    refused=lambda metric: metric == "preference_accuracy",
    problem="{method} does not learn from pairs, so its holdout has none whose preferred answer could be measured",
    instead="Use metric perplexity, exact_match if the data has answers, or a method that learns from pairs, such as "
    "dpo or orpo.",
)
