"""Unpaired preference: a prompt, one answer, and whether people liked it."""

from ft_assets.settings.catalogue.form import Form, RowForm
from ft_assets.settings.catalogue.forms.refusals import NO_PAIRS, WHOLE_ANSWERS, WHOLE_EXAMPLES

UNPAIRED = Form(
    name="unpaired_preference",
    # The answer is in ``chosen`` if people liked it, else in ``rejected``.
    columns=("messages", "chosen", "rejected"),
    answers=1,
    documents=2,
    completed_by="ft_assets.workers.packs.documents.mismatched:with_mismatched",
    rows={
        "unpaired_preference": RowForm(
            needs=("prompt", "completion", "label"),
            may_have=("system", "tools"),
            reader="ft_assets.workers.datasets.forms.unpaired:read_labelled",
            # Such rows were read as prompt/completion before there was this form, and still are by ``auto``.
            rank=None,
        )
    },
    refusals=(WHOLE_EXAMPLES, WHOLE_ANSWERS, NO_PAIRS),
)
