"""Suites scored through a server, compared with the evaluation's scores of the same items.

Tokens are compared after the reference's own, so they do not show whether an answer is cut, or goes on past its end.
Scores are of whole answers, generated freely.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from itertools import takewhile

from ft_assets.workers.evals.chat_prompts import ChatPrompts, question
from ft_assets.workers.evals.statistics import mcnemar_exact
from ft_assets.workers.serving.parity.asked_prompts import Evaluated, Render
from ft_assets.workers.serving.parity.asking import AT_ONCE
from ft_assets.workers.serving.parity.figures import SuiteScores
from ft_assets.workers.suites.kinds.registry import KINDS, Kind
from ft_assets.workers.suites.suites import TASK_FILE, read_task, suite_files
from ft_assets.workers.tokenizers.outputs import OutputReader
from ft_assets.workers.tokenizers.tokenizer import ChatTokenizer
from ft_resources.errors import CorruptArtifact, UserError
from ft_resources.serving.server import Sampling, Server
from ft_resources.settings import Settings

_LEVEL = 0.01
"""Chance that an equally good server is called worse on one suite."""


def worse_suites(suites: Mapping[str, SuiteScores]) -> list[str]:
    """A sentence for each suite that the server answers worse."""
    return [f"suite {key}: {found.sentence}" for key, found in suites.items() if is_worse(found)]


def is_worse(found: SuiteScores) -> bool:
    """Whether the server answers significantly worse, by McNemar's exact test, one-sided."""
    return found.worse > found.better and mcnemar_exact(found.worse, found.better) / 2 < _LEVEL


def compare_suites(
    server: Server,
    model: str,
    evaluated: Evaluated,
    render: Render,
    *,
    ends: Sequence[int],
    context_length: int,
    most: int,
) -> dict[str, SuiteScores]:
    """The first ``most`` items of each suite that is asked through the chat template and has recorded scores.

    Raises what the server raises, and UserError where a suite cannot be read or asked.
    """
    chat = ChatPrompts(evaluated.base, ChatTokenizer.load(evaluated.base), evaluated.chat_template)
    found = {}
    for key, kind, task in _scored(evaluated):
        where = f"suite {key}"
        asked = _AskServer(server, model, render, chat.outputs, frozenset(ends), context_length, where)
        recorded = evaluated.scores[key]
        items = [item for item in kind.read(task, suite_files(evaluated.suites[key]), where) if item.id in recorded]
        if not items:
            raise CorruptArtifact("no item has a recorded score", where=where, remedy="Evaluate the candidate again.")
        score = kind.score(task, items[:most], asked)
        found[key] = _compared([*zip(map(recorded.__getitem__, score.item_ids), score.correct, strict=True)])
    return found


def _scored(evaluated: Evaluated) -> Iterator[tuple[str, Kind, Settings]]:
    for key in sorted(evaluated.scores):
        task = read_task(evaluated.suites[key] / TASK_FILE)
        kind = next((kind for kind in KINDS.values() if kind.chat and isinstance(task, kind.task)), None)
        if kind is not None:
            yield key, kind, task


def _compared(scores: Sequence[tuple[float, float]]) -> SuiteScores:
    return SuiteScores(
        items=len(scores),
        evaluated=sum(before for before, _ in scores) / len(scores),
        served=sum(now for _, now in scores) / len(scores),
        worse=sum(now < before for before, now in scores),
        better=sum(now > before for before, now in scores),
    )


@dataclass(frozen=True, slots=True)
class _AskServer:
    """A server with the interface that suite kinds ask a model through: see ``suites.kinds.asking.Asking``."""

    server: Server
    model: str
    render: Render
    outputs: OutputReader
    ends: frozenset[int]
    context_length: int
    where: str
    report: Callable[[int, int], None] = lambda done, total: None

    def answer_prompts(
        self, prompts: Sequence[str], *, system_prompt: str | None, max_new_tokens: int
    ) -> dict[int, str]:
        """The server's greedy answers; a prompt without room for a whole answer gets none."""
        ids = [self.render(question(text, system_prompt)) for text in prompts]
        fitting = [place for place, each in enumerate(ids) if len(each) + max_new_tokens <= self.context_length]
        sampling = Sampling(max_tokens=max_new_tokens, stop_token_ids=tuple(sorted(self.ends)))

        def answer(place: int) -> str:
            tokens = self.server.complete(self.model, ids[place], sampling).tokens
            said = takewhile(lambda token: token not in self.ends, (token.id for token in tokens))
            return self.outputs.read(ids[place], [*said]).answer

        with ThreadPoolExecutor(AT_ONCE) as pool:
            return dict(zip(fitting, pool.map(answer, fitting), strict=True))

    def continue_texts(
        self, texts: Sequence[str], *, until: Sequence[str], max_new_tokens: int, report: Callable[[int, int], None]
    ) -> list[str]:
        raise UserError(
            "this suite asks without a chat template, as no user of a server does",
            where=self.where,
            remedy="Its scores are those of the evaluation.",
        )
