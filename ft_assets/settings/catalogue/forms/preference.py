"""Pairs: a prompt with a chosen and a rejected answer."""

from ft_assets.settings.catalogue.form import Form, RowForm
from ft_assets.settings.catalogue.forms.refusals import WHOLE_ANSWERS, WHOLE_EXAMPLES

_PAIRS = "ft_assets.workers.datasets.forms.pairs"

PREFERENCE = Form(
    name="preference",
    columns=("messages", "chosen", "rejected"),
    answers=2,
    documents=2,
    rows={
        "preference": RowForm(
            needs=("chosen", "rejected"),
            may_have=("prompt", "system", "tools"),
            reader="ft_assets.workers.datasets.forms.convert:read_preference",
            rank=2,
        ),
        # As LLaMA-Factory writes pairs: the conversation, and two objects that continue it.
        "sharegpt/pairs": RowForm(
            needs=("conversations", "chosen", "rejected"),
            may_have=("system", "tools"),
            reader=f"{_PAIRS}:read_continued",
            recognised=f"{_PAIRS}:go_on_from_conversations",
            instead_of="sharegpt",
        ),
        "messages/pairs": RowForm(
            needs=("messages", "chosen", "rejected"),
            may_have=("system", "tools"),
            reader=f"{_PAIRS}:read_continued",
            recognised=f"{_PAIRS}:go_on_from_messages",
            instead_of="messages",
        ),
        "alpaca/pairs": RowForm(
            needs=("instruction", "chosen", "rejected"),
            may_have=("input", "system"),
            reader=f"{_PAIRS}:read_instructed",
            recognised=f"{_PAIRS}:answer_an_instruction",
            instead_of="preference",
        ),
        "openai/pairs": RowForm(
            needs=("input", "preferred_output", "non_preferred_output"),
            reader=f"{_PAIRS}:read_openai",
            recognised=f"{_PAIRS}:answer_a_request",
        ),
    },
    # For pairs only: the addresses of other reports did not change when this comparison was added.
    report_params={"pairs": "mean_logp"},
    refusals=(WHOLE_EXAMPLES, WHOLE_ANSWERS),
)
