"""Conversations: the model learns the assistant's turns."""

from ft_assets.settings.catalogue.form import Form, RowForm
from ft_assets.settings.catalogue.forms.refusals import NO_PAIRS, WHOLE_EXAMPLES

_READERS = "ft_assets.workers.datasets.forms.convert"

CHAT = Form(
    name="chat",
    columns=("messages",),
    rows={
        "messages": RowForm(
            needs=("messages",), may_have=("tools", "functions"), reader=f"{_READERS}:read_messages", rank=0
        ),
        "sharegpt": RowForm(
            needs=("conversations",), may_have=("system", "tools"), reader=f"{_READERS}:read_sharegpt", rank=1
        ),
        # Before this form existed such rows were read without their system field, and ``auto`` still does that.
        "system/messages": RowForm(
            needs=("messages",), may_have=("system", "tools"), reader=f"{_READERS}:read_anthropic"
        ),
        "prompt/completion": RowForm(
            needs=("prompt", "completion"), may_have=("system", "tools"), reader=f"{_READERS}:read_completion", rank=3
        ),
        "alpaca": RowForm(
            needs=("instruction", "output"), may_have=("input", "system"), reader=f"{_READERS}:read_alpaca", rank=4
        ),
        "request/response": RowForm(
            needs=("request", "response"),
            reader="ft_assets.workers.datasets.forms.logs:read_log",
            recognised="ft_assets.workers.datasets.forms.logs:answers_a_request",
        ),
    },
    refusals=(WHOLE_EXAMPLES, NO_PAIRS),
)
