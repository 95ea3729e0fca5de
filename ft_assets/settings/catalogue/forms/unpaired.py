"""Unpaired preference: a prompt, one answer, and whether people liked it."""

from ft_assets.settings.catalogue.form import Form, RowForm
from ft_assets.settings.catalogue.forms.refusals import NO_PAIRS, WHOLE_ANSWERS, WHOLE_EXAMPLES

_READERS = "ft_assets.workers.datasets.forms.unpaired"

UNPAIRED = Form(
    name="unpaired_preference",
    # The answer is in ``chosen`` if people liked it, else in ``rejected``.
    columns=("messages", "chosen", "rejected"),
    answers=1,
    documents=2,
    # KTO weighs the two kinds of answers (``kto.desirable_weight``), and its KL estimate all of them alike.
    weighed=False,
    completed_by="ft_assets.workers.packs.documents.mismatched:with_mismatched",
    # Before these forms existed such rows were read without their label, and ``auto`` still does that: a policy names
    # the form, and ``ft dataset add`` refuses answers that people did not like otherwise.
    rows={
        "unpaired_preference": RowForm(
            needs=("prompt", "completion", "label"),
            may_have=("system", "tools"),
            reader=f"{_READERS}:read_labelled",
        ),
        "messages/label": RowForm(
            needs=("messages", "label"), may_have=("system", "tools"), reader=f"{_READERS}:read_labelled_messages"
        ),
        "alpaca/label": RowForm(
            needs=("instruction", "output", "label"),
            may_have=("input", "system"),
            reader=f"{_READERS}:read_labelled_alpaca",
        ),
    },
    refusals=(WHOLE_EXAMPLES, WHOLE_ANSWERS, NO_PAIRS),
)
