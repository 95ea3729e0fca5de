"""Suites through the server: scores of whole answers, compared with those of the evaluation."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import pytest

from ft_assets.workers.evals.asking import Chat
from ft_assets.workers.evals.model import load_model
from ft_assets.workers.evals.runner import score_loaded
from ft_assets.workers.serving.parity.figures import SuiteScores
from ft_assets.workers.serving.parity.suite_scores import is_worse
from ft_assets.workers.suites.suites import TASK_FILE
from ft_resources.serving.errors import ServerUnavailable
from ft_resources.serving.server import Piece, Sampling, Server
from tests.workers.evals.test_golden import write_golden
from tests.workers.serving.parity.world import NAME, Changed, World, serving
from tests.workers.serving.world import Served

pytestmark = pytest.mark.training
KEY, ITEMS, WRONG = "ours.v1", 12, 2


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> World:
    """A world with a suite whose right answers are the adapter's own, but for ``WRONG`` of them."""
    folder = tmp_path_factory.mktemp("parity")
    made = World.make(folder)
    evaluated = made.evaluated
    loaded = load_model(evaluated.base, evaluated.adapter).merged()
    chat = Chat(folder=evaluated.base, template=evaluated.chat_template)
    prompts = [f"where is thing number {number}?" for number in range(ITEMS)]
    asked = [("here", prompt) for prompt in prompts]
    answers = chat.answers(loaded, asked, system_prompt=None, max_new_tokens=16, report=lambda done, total: None)
    assert len({len(answer) > 8 for answer in answers.values()}) == 1
    right = [answers[place] if place >= WRONG else "nowhere" for place in range(ITEMS)]
    items = [{"prompt": prompt, "expected": [answer]} for prompt, answer in zip(prompts, right, strict=True)]
    suite = write_golden(folder / "ours", *items, max_new_tokens=16)
    (suite / "ours.yaml").rename(suite / TASK_FILE)
    score = score_loaded(loaded, {KEY: suite}, seed=17, limit=None, progress=lambda *args: None, chat=chat)[KEY]
    assert score.correct == (0.0,) * WRONG + (1.0,) * (ITEMS - WRONG)
    scores = {KEY: dict(zip(score.item_ids, score.correct, strict=True))}
    return replace(made, evaluated=replace(evaluated, suites={**evaluated.suites, KEY: suite}, scores=scores))


@pytest.fixture(scope="module")
def served(world: World) -> Iterator[Served]:
    with serving(world.evaluated.base, {NAME: world.evaluated.adapter}) as made:
        yield made


def test_whole_answers_through_the_server_score_what_was_recorded(world: World, served: Served) -> None:
    report = world.check(served.client)
    assert report.outcome == "proved", report.reasons
    assert report.suites == {KEY: SuiteScores(items=ITEMS, evaluated=10 / 12, served=10 / 12, worse=0, better=0)}


def test_a_server_that_cuts_answers_is_found_by_scores_alone(world: World, served: Served) -> None:
    cut = Changed(served.client, answer=lambda piece: replace(piece, tokens=piece.tokens[:3]))
    report = world.check(cut)
    assert (report.figures.equal, report.figures.argmax) == (24, 1.0)
    assert report.outcome == "failed"
    assert report.reasons == (
        "suite ours.v1: 0 through the server, 0.833 in the evaluation; of 12 items 10 are worse and 0 better",
    )


def test_the_first_items_are_asked_and_only_those_that_were_scored(world: World, served: Served) -> None:
    first = dict([*world.evaluated.scores[KEY].items()][:9])
    some = replace(world.evaluated, scores={KEY: first})
    report = world.check(served.client, evaluated=some)
    assert report.suites[KEY].items == 9


@dataclass
class Dying:
    """A server that answers only requests for log-probabilities."""

    server: Server

    def complete(self, model: str, prompt: Sequence[int], sampling: Sampling) -> Piece:
        if sampling.logprobs is None:
            raise ServerUnavailable("it is gone", where=model)
        return self.server.complete(model, prompt, sampling)


def test_a_server_that_dies_meanwhile_proves_nothing(world: World, served: Served) -> None:
    report = world.check(Dying(served.client))
    assert (report.outcome, report.suites) == ("not proved", {})
    assert report.reasons == (f"{NAME}: it is gone",)
    assert report.figures is not None


@pytest.mark.parametrize(("worse", "better", "found"), [(6, 0, False), (7, 0, True), (10, 9, False), (0, 9, False)])
def test_worse_is_what_chance_would_hardly_show(worse: int, better: int, found: bool) -> None:
    assert is_worse(SuiteScores(items=50, evaluated=0.5, served=0.4, worse=worse, better=better)) is found


def test_recorded_scores_of_other_items_prove_nothing(world: World, served: Served) -> None:
    other = replace(world.evaluated, scores={KEY: {"another": 1.0}})
    report = world.check(served.client, evaluated=other)
    assert (report.outcome, report.reasons) == ("not proved", ("suite ours.v1: no item has a recorded score",))
