"""Pairs: a prompt with a chosen and a rejected answer."""

from ft_assets.settings.catalogue.form import Form, RowForm
from ft_assets.settings.catalogue.forms.refusals import WHOLE_ANSWERS, WHOLE_EXAMPLES

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
        )
    },
    # For pairs only: the addresses of other reports did not change when this comparison was added.
    report_params={"pairs": "mean_logp"},
    refusals=(WHOLE_EXAMPLES, WHOLE_ANSWERS),
)
