"""The tenant's holdout: how well base and candidate predict what is learned of it, and what they answer themselves.

The answer asked for is a row's last assistant turn, given everything before it; the likelihood is over all that a
training learns (see ``holdout_rows.py``). Of a pair, the rejected answer's likelihood stands beside it.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from ft_assets.evals.generation import batches, end_ids, generate
from ft_assets.evals.holdout_rows import ChatRows, Encoded, HoldoutRow, TextRows, choose, read_records
from ft_assets.evals.model import LoadedModel
from ft_assets.packs.encoding.tokenizer import ChatTokenizer
from ft_assets.packs.format.layout import Form
from ft_resources.errors import BadData

Report = Callable[[int, int], None]


@dataclass(frozen=True, kw_only=True, slots=True)
class HoldoutScore:
    """What one model did with one row: summed negative log-likelihood (nats) of ``tokens`` tokens, and its answer,
    ``cut`` where it was not at its end after as many tokens as it was given.

    Of a pair, ``rejected_nll_sum`` and ``rejected_tokens`` say the same of the rejected answer; 0 of other rows.
    """

    nll_sum: float
    tokens: int
    answer: str
    cut: bool = False
    rejected_nll_sum: float = 0.0
    rejected_tokens: int = 0

    @property
    def prefers_chosen(self) -> bool:
        """Whether the chosen answer's tokens are likelier on average than the rejected one's; a tie is no preference.

        The mean, as a sum is the larger the shorter the answer, whatever it says: preferring brevity would count as
        preferring what people chose. It is what SimPO ranks answers by (Meng et al. 2024,
        https://arxiv.org/abs/2405.14734, section 2), since generation is guided by it.
        """
        return self.nll_sum / self.tokens < self.rejected_nll_sum / self.rejected_tokens


class HoldoutScorer:
    """Scores models on rows; one template, tokenizer and end condition for all of them.

    Args:
        folder: the base's folder.
        chat_template: Jinja text of the recipe; None for the base's own template.
        context_length: most tokens of a sequence.
        form: what the dataset's rows are.
    """

    def __init__(self, folder: Path, *, chat_template: str | None, context_length: int, form: Form = "chat") -> None:
        self._tokenizer = ChatTokenizer.load(folder)
        self._form, self._context_length = form, context_length
        self._rows: ChatRows | TextRows = (
            TextRows(self._tokenizer, context_length)
            if form == "text"
            else ChatRows(folder, self._tokenizer, chat_template)
        )

    def read(self, path: Path, *, max_samples: int, seed: int) -> tuple[list[HoldoutRow], int]:
        """At most ``max_samples`` rows of a split, and how many of the chosen were too long and left out.

        Rows are chosen by a hash of their ids, so file order and other rows' presence do not matter.
        Raises BadData where no row is left.
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
        """The model's likelihood and greedy answer for each row, in the rows' order; "" where nothing is asked.

        An answer ends at an end token of the model's generation settings or at what ends the template's turns.
        """
        likelihoods: dict[int, tuple[float, int]] = {}
        answers: dict[int, str] = {}
        cut: set[int] = set()
        asked = [place for place, row in enumerate(rows) if row.prompt]
        pairs = [place for place, row in enumerate(rows) if row.rejected]
        # The rows, and after them the rejected answers of those that are pairs.
        scored: list[Encoded] = [*rows, *(row.rejected for row in rows if row.rejected)]
        ends = end_ids(model.model, self._tokenizer, self._rows.ends)

        def advance() -> None:
            report(len(likelihoods) + len(answers), len(scored) + len(asked))

        for places in batches([len(each.ids) for each in scored], model.model.config.get_text_config().vocab_size):
            likelihoods.update(zip(places, _likelihoods(model, [scored[place] for place in places]), strict=True))
            advance()
        for numbers in batches([len(rows[place].prompt) + max_new_tokens for place in asked]):
            places = [asked[number] for number in numbers]
            prompts = [rows[place].prompt for place in places]
            most = min(max_new_tokens, self._context_length - max(len(prompt) for prompt in prompts))
            for place, ids in zip(places, generate(model, prompts, most, ends), strict=True):
                answers[place] = self._tokenizer.tokenizer.decode(ids, skip_special_tokens=True).strip()
                if len(ids) >= most:
                    cut.add(place)
            advance()
        rejected = {place: likelihoods[number] for number, place in enumerate(pairs, start=len(rows))}
        return [
            HoldoutScore(
                nll_sum=likelihoods[place][0],
                tokens=likelihoods[place][1],
                answer=answers.get(place, ""),
                cut=place in cut,
                rejected_nll_sum=rejected.get(place, (0.0, 0))[0],
                rejected_tokens=rejected.get(place, (0.0, 0))[1],
            )
            for place in range(len(rows))
        ]


def _likelihoods(loaded: LoadedModel, rows: Sequence[Encoded]) -> list[tuple[float, int]]:
    """Summed negative log-likelihood of the learned tokens of each row, and their number."""
    import torch
    from torch.nn.functional import cross_entropy

    device = loaded.model.device
    width = max(len(row.ids) for row in rows)
    ids = torch.zeros((len(rows), width), dtype=torch.long)
    learned = torch.zeros((len(rows), width), dtype=torch.bool)
    for number, row in enumerate(rows):
        ids[number, : len(row.ids)] = torch.tensor(row.ids)
        learned[number, : len(row.ids)] = torch.tensor(row.learned)
    ids, mask = ids.to(device), learned[:, 1:].to(device)  # a first token has nothing to be predicted from
    with torch.inference_mode():
        # Padded on the right, where causal attention does not look: no mask is needed.
        logits = loaded.model(input_ids=ids, use_cache=False).logits[:, :-1]
        losses = torch.zeros(mask.shape, device=device)
        losses[mask] = cross_entropy(logits[mask].float(), ids[:, 1:][mask], reduction="none")
    return list(zip(losses.double().sum(1).tolist(), mask.sum(1).tolist(), strict=True))
