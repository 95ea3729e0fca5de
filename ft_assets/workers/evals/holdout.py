"""The tenant's holdout: how well base and candidate predict what training learns, and their own answers.

The requested answer is a row's last assistant turn, given everything before it; the likelihood covers everything that
training learns (see ``holdout_rows.py``). Pairs also have the rejected answer's likelihood.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from ft_assets.settings.catalogue.forms import FORMS, FormName
from ft_assets.workers.evals.asking import Report
from ft_assets.workers.evals.generation import batches, write_answers
from ft_assets.workers.evals.holdout_rows import ChatRows, Encoded, HoldoutRow, TextRows, choose, read_records
from ft_assets.workers.evals.model import LoadedModel
from ft_assets.workers.tokenizers.tokenizer import ChatTokenizer
from ft_resources.errors import BadData


@dataclass(frozen=True, kw_only=True, slots=True)
class HoldoutScore:
    """One model's result for one row: summed negative log-likelihoods (nats) and its own answer, ``cut`` if it reached
    the token limit before its end.

    ``tokens`` are those of the row's answers; ``all_tokens`` all that training learns, thoughts and what the template
    puts around answers included.

    Pairs have the likelihood of the rejected answer in ``rejected_nll_sum`` and ``rejected_tokens``; 0 for other rows.
    """

    nll_sum: float
    tokens: int
    all_nll_sum: float
    all_tokens: int
    answer: str
    cut: bool = False
    rejected_nll_sum: float = 0.0
    rejected_tokens: int = 0

    @property
    def prefers_chosen(self) -> bool:
        """Whether the chosen answer's tokens are likelier on average than the rejected one's; a tie is no preference.

        The mean, because a sum favours shorter answers whatever they say: preferring brevity would count as preferring
        what people chose. SimPO ranks answers by it (Meng et al. 2024, https://arxiv.org/abs/2405.14734, section 2),
        since generation is guided by it.
        """
        return self.nll_sum / self.tokens < self.rejected_nll_sum / self.rejected_tokens


class HoldoutScorer:
    """Scores models on rows; one template, tokenizer and end condition for all of them.

    Args:
        folder: the base's folder.
        chat_template: Jinja text of the recipe; None for the base's own template.
        context_length: most tokens of a sequence.
        form: the form of the dataset's rows.
    """

    def __init__(
        self, folder: Path, *, chat_template: str | None, context_length: int, form: FormName = "chat"
    ) -> None:
        self._tokenizer = ChatTokenizer.load(folder)
        self._form, self._context_length = form, context_length
        self._rows: ChatRows | TextRows = (
            TextRows(self._tokenizer, context_length)
            if FORMS[form].plain
            else ChatRows(folder, self._tokenizer, chat_template)
        )

    def read(self, path: Path, *, max_samples: int, seed: int) -> tuple[list[HoldoutRow], int]:
        """At most ``max_samples`` rows of a split, and how many chosen rows were left out as too long.

        Rows are chosen by a hash of their ids, so file order and the presence of other rows do not matter. Raises
        BadData if no row is left.
        """
        rows: list[HoldoutRow] = []
        too_long = 0
        for record in choose(read_records(path, self._form), max_samples, seed):
            row = self._rows.encode(record)
            if row.longest > self._context_length or len(row.prompt) >= self._context_length:
                too_long += 1
            else:
                rows.append(row)
        if not rows:
            raise BadData(
                "there is no holdout row to score" if not too_long else f"all {too_long} holdout rows are too long",
                where="holdout",
                remedy=f"Give the dataset holdout rows of at most {self._context_length} tokens.",
            )
        return rows, too_long

    def score(
        self, model: LoadedModel, rows: Sequence[HoldoutRow], *, max_new_tokens: int, report: Report
    ) -> list[HoldoutScore]:
        """The model's likelihood and greedy answer for each row, in the rows' order; "" if the row asks for no answer.

        An answer ends at an end token of the model's generation settings or at the template's end of turn.
        """
        likelihoods: dict[int, _Likelihood] = {}
        answers: dict[int, tuple[str, bool]] = {}
        chat = self._rows.chat
        asked = [place for place, row in enumerate(rows) if row.prompt] if chat else []
        # The rows, then the rejected answers of the pairs.
        scored: list[Encoded] = [*rows, *(row.rejected for row in rows if row.rejected)]
        steps = len(scored) + len(asked)
        for places in batches([len(each.ids) for each in scored], model.model.config.get_text_config().vocab_size):
            likelihoods.update(zip(places, _likelihoods(model, [scored[place] for place in places]), strict=True))
            report(len(likelihoods), steps)
        prompts = [rows[place].prompt for place in asked]
        for number, output, cut in write_answers(model, chat, prompts, max_new_tokens) if chat else ():
            row = rows[asked[number]]
            # Cut thoughts are an answer of nothing, except to a row that teaches just these.
            taught = row.taught
            as_taught = output.answer == taught.answer if taught and taught.answer else output == taught
            answers[asked[number]] = row.target if as_taught else output.answer, cut
            report(len(likelihoods) + len(answers), steps)
        pairs = [place for place, row in enumerate(rows) if row.rejected]
        rejected = {place: likelihoods[number] for number, place in enumerate(pairs, start=len(rows))}
        return [
            HoldoutScore(
                nll_sum=likelihoods[place].answers,
                tokens=likelihoods[place].answer_tokens,
                all_nll_sum=likelihoods[place].all,
                all_tokens=likelihoods[place].all_tokens,
                answer=answers[place][0] if place in answers else "",
                cut=place in answers and answers[place][1],
                rejected_nll_sum=rejected[place].answers if place in rejected else 0.0,
                rejected_tokens=rejected[place].answer_tokens if place in rejected else 0,
            )
            for place in range(len(rows))
        ]


class _Likelihood(NamedTuple):
    """Summed negative log-likelihoods (nats) of a row's answers and of all that it teaches, and numbers of tokens."""

    answers: float
    answer_tokens: int
    all: float
    all_tokens: int


def _likelihoods(loaded: LoadedModel, rows: Sequence[Encoded]) -> list[_Likelihood]:
    import torch
    from torch.nn.functional import cross_entropy
    from torch.nn.utils.rnn import pad_sequence

    device = loaded.model.device
    ids = pad_sequence([torch.tensor(row.ids) for row in rows], batch_first=True)
    # Nothing predicts a first token.
    mask, answers = (
        pad_sequence([torch.tensor(which) for which in each], batch_first=True)[:, 1:].to(device)
        for each in ([row.learned for row in rows], [row.answers for row in rows])
    )
    ids = ids.to(device)
    with torch.inference_mode():
        # Padded on the right, where causal attention does not look: no mask is needed.
        logits = loaded.model(input_ids=ids, use_cache=False).logits[:, :-1]
        losses = torch.zeros(mask.shape, device=device)
        losses[mask] = cross_entropy(logits[mask].float(), ids[:, 1:][mask], reduction="none")
    losses = losses.double()
    sums = (losses * answers).sum(1), answers.sum(1), losses.sum(1), mask.sum(1)
    return [_Likelihood(*each) for each in zip(*(each.tolist() for each in sums), strict=True)]
