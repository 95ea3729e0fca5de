"""Whether the rows' kinds are just their answers: scores by kind mean nothing if each kind has one answer."""

from collections.abc import Iterable

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from ft_assets.settings.catalogue.forms import ROW_FORMS
from ft_assets.settings.dataset.forms import KIND, FormSettings
from ft_resources.errors import BadRecipe

_ANSWERS = ("completion", "output", "response", "chosen")


def require_other_kind(form: FormSettings, forms: Iterable[str]) -> None:
    """Raise BadRecipe if ``form`` maps kind to the field that holds the answer in one of the row forms ``forms``."""
    source = form.sources.get(KIND)
    answers = {form.source(field) for name in forms for field in ROW_FORMS[name].row.needs if field in _ANSWERS}
    if source in answers:
        raise BadRecipe(
            f"kind is the upload's field {source!r}, which is the answer itself: each kind would have one answer, and "
            "giving the most frequent answer of each kind would always be right",
            where="dataset.yaml: fields",
            remedy="Take kind out, or map it to a field that is known before the answer, such as a topic.",
        )


class Kinds:
    """The kinds of an upload's conversations, counted chunk by chunk."""

    def __init__(self) -> None:
        self._rows = self._same = 0
        self._different: set[str] = set()

    def add(self, examples: pa.RecordBatch) -> None:
        """Count those of ``examples``, a chunk."""
        messages, kinds = examples.column("messages"), examples.column(KIND)
        turns, chosen, rejected = (
            np.asarray(pc.list_value_length(examples.column(name))) for name in ("messages", "chosen", "rejected")
        )
        # With chosen or rejected answers, the last turn of the messages is the question.
        places = np.flatnonzero((turns > 0) & (chosen + rejected == 0) & np.asarray(pc.not_equal(kinds, "")))
        if not len(places):
            return
        offsets = np.asarray(messages.offsets)
        last = (offsets[1:] - offsets[0] - 1)[places]
        answers = messages.flatten().field("content").take(pa.array(last))
        kinds = _folded(kinds.take(pa.array(places)))
        self._rows += len(places)
        self._same += pc.sum(pc.equal(kinds, _folded(answers))).as_py()
        if len(self._different) < 2:
            self._different.update(kinds.unique()[:2].to_pylist())

    def warnings(self, form: FormSettings) -> tuple[str, ...]:
        """A warning if each kind equals its rows' answer."""
        if self._same < self._rows or len(self._different) < 2:
            return ()
        source = form.source(KIND)
        return (
            f"The field {source!r}, which is read as kind, is the answer itself in every row: each kind has one "
            "answer, and giving the most frequent answer of each kind is always right, so scores by kind say nothing. "
            "Map kind to a field that is known before the answer, such as a topic.",
        )


def _folded(texts: pa.StringArray) -> pa.StringArray:
    return pc.utf8_lower(pc.utf8_trim_whitespace(texts))
