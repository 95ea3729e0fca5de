"""Plain texts: the model learns the whole text."""

from ft_assets.settings.catalogue.form import Form, RowForm
from ft_assets.settings.catalogue.forms.refusals import NO_PAIRS
from ft_assets.settings.catalogue.gates.profiles import PROFILES
from ft_assets.settings.catalogue.refusal import Refusal

TEXT = Form(
    name="text",
    columns=("text",),
    plain=True,
    # Last in the order: never guessed if fields of other forms are present.
    rows={"text": RowForm(needs=("text",), reader="ft_assets.workers.datasets.forms.convert:read_text", rank=5)},
    # A text has no answer to match, and many continuations are good, as in a conversation: a small fall is a gain.
    task_gain=PROFILES["chat"]["task_gain"],
    refusals=(
        Refusal(
            where="packing.overlong",
            refused=lambda policy: policy == "truncate",
            problem="every token of a text is learned, so a long text cannot be cut: truncate would drop it",
            instead="Use overlong: split (every token is learned once) or drop.",
        ),
        Refusal(
            where="packing.learn",
            refused=lambda learn: learn != "all_assistant",
            problem="text has no assistant turns; all of it is learned",
            instead="Leave packing.learn out.",
        ),
        Refusal(
            where="packing.end_of_turn",
            refused=lambda ends: ends is not None,
            problem="text has no turns; it ends with the base's end of text",
            instead="Leave packing.end_of_turn out.",
        ),
        Refusal(
            where="gates.task_gain.metric",
            refused=lambda metric: metric not in ("perplexity", "preference_accuracy"),
            problem="text has no answers, so {value} cannot be measured on its holdout",
            instead="Use metric perplexity.",
        ),
        NO_PAIRS,
    ),
)
