"""What the doctor examines: a written pack and its sources."""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from ft_assets.settings.catalogue.form import Form
from ft_assets.settings.catalogue.forms import FORMS
from ft_assets.workers.packs.doctor.endings import turn_ends, unlearned_ends
from ft_assets.workers.packs.format import TRAIN, Pack, Spool
from ft_assets.workers.templates.template import ChatTemplate
from ft_assets.workers.templates.tracing import Learn
from ft_assets.workers.tokenizers.tokenizer import ChatTokenizer


@dataclass(frozen=True, kw_only=True)
class Patient:
    """A written pack and its sources.

    Args:
        folder: the pack's files.
        spools: the packed documents by split.
        train_rows: the dataset's training split, for a second rendering.
        reference: the template that the tokens must agree with; None for data without a template.
        config: the base's config.json.
        vocabulary: rows of the model's embedding.
        max_length: most tokens of a window.
        holdout_ids: uint8 [rows, 32], dataset ids that must not be packed.
        truncates: whether the recipe lets texts be shortened.
        learn: which turns of the assistant are learned.
        by_turn: whether each turn of the assistant has a document of its own.
    """

    folder: Path
    spools: Mapping[str, Spool]
    train_rows: Path
    tokenizer: ChatTokenizer
    reference: ChatTemplate | None
    config: Path
    vocabulary: int
    max_length: int
    truncates: bool
    learn: Learn
    holdout_ids: NDArray[np.uint8]
    by_turn: bool = False

    @cached_property
    def packs(self) -> dict[str, Pack]:
        return {split: Pack.open(self.folder, split) for split in self.spools}

    @property
    def last_only(self) -> bool:
        """Whether a document learns only the last turn of the assistant."""
        return self.by_turn or self.learn == "last_assistant"

    @property
    def leaves_bare(self) -> bool:
        """Whether turns whose thoughts the template drops are not learned."""
        return self.reference is not None and self.reference.probes.drops_thoughts and not self.learn.endswith("bare")

    @property
    def form(self) -> Form:
        return FORMS[self.packs[TRAIN].index.form]

    @cached_property
    def ends(self) -> NDArray[np.int64]:
        """Ids, one of which must end a learned turn or a text, sorted."""
        end = self.tokenizer.token_id("eos_token")
        if self.reference is not None:
            return np.array(sorted(turn_ends(self.reference, self.tokenizer)), np.int64)
        return np.array([] if end is None else [end], np.int64)

    @cached_property
    def unlearned_ends(self) -> NDArray[np.int64]:
        """Ids that follow an earlier turn whose own end is not learned, sorted."""
        found = unlearned_ends(self.reference, self.tokenizer) if self.reference else ()
        return np.array(sorted(found), np.int64)

    def control(self, ids: NDArray[np.int64]) -> NDArray[np.bool_]:
        """Which of the ids are control tokens."""
        return np.isin(ids, list(self.tokenizer.control_ids))
