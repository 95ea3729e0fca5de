"""Suites with generated answers, through lm-eval: batched, ended by stop texts, and scored as by stock lm-eval."""

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
import yaml

from ft_assets.workers.evals import stop_sequences as until
from ft_assets.workers.evals.asking import Chat
from ft_assets.workers.evals.lm_eval_samples import true_mass
from ft_assets.workers.evals.model import LoadedModel, load_model
from ft_assets.workers.evals.runner import _task_config, score_loaded
from ft_assets.workers.evals.stop_sequences import continue_texts, cut
from ft_assets.workers.suites.suites import add_suite, read_task
from ft_resources.errors import BadRecipe, UserError
from ft_resources.store_marker import open_store
from tests.fake_base import make_fake_base
from tests.workers.evals.test_instructions import ITEM, write_suite
from tests.workers.packs.conftest import edit_json

pytestmark = pytest.mark.training
KEY = "sums.v1"
TASK: dict[str, Any] = {
    "task": "sums",
    "dataset_path": "json",
    "dataset_kwargs": {"data_files": {"train": "shots.jsonl", "test": "items.jsonl"}},
    "test_split": "test",
    "fewshot_split": "train",
    "num_fewshot": 2,
    "output_type": "generate_until",
    "doc_to_text": "Question: {{question}}\nAnswer:",
    "doc_to_target": "{{answer}}",
    "generation_kwargs": {"until": ["Question:", "</s>"], "max_gen_toks": 24, "do_sample": False, "temperature": 0.0},
    "metric_list": [
        {
            "metric": "exact_match",
            "aggregation": "mean",
            "higher_is_better": True,
            "ignore_case": True,
            "ignore_punctuation": False,
            "regexes_to_ignore": [",", r"\$", "(?s).*#### ", r"\.$"],
        }
    ],
    "filter_list": [
        {
            "name": "strict-match",
            "filter": [{"function": "regex", "regex_pattern": r"#### (\-?[0-9\.\,]+)"}, {"function": "take_first"}],
        },
        {
            "name": "flexible-extract",
            "filter": [
                {"function": "regex", "group_select": -1, "regex_pattern": r"(-?[$0-9.,]{2,})|(-?[0-9]+)"},
                {"function": "take_first"},
            ],
        },
    ],
    "metadata": {"version": 3.0},
}


def sums(folder: Path, count: int = 6, **task: Any) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    rows = [{"question": f"{n} and {n}?", "answer": f"It is {n}+{n}.\n#### {2000 + n:,}"} for n in range(count + 3)]
    (folder / "items.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows[:count]))
    (folder / "shots.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows[count:]))
    (folder / "task.yaml").write_text(yaml.safe_dump(TASK | task))
    return folder


@pytest.fixture(scope="module")
def base(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_fake_base(tmp_path_factory.mktemp("base"))


@pytest.fixture(scope="module")
def loaded(base: Path) -> LoadedModel:
    return load_model(base)


def score(loaded: LoadedModel, folder: Path, limit: int | None = None, chat: Chat | None = None) -> Any:
    return score_loaded(loaded, {KEY: folder}, seed=3, limit=limit, progress=lambda *_: None, chat=chat)[KEY]


def says(monkeypatch: pytest.MonkeyPatch, answer: Callable[[str], str]) -> None:
    """From here on the model writes ``answer(text shown)``."""

    def generate(loaded: LoadedModel, prompts: list[list[int]], longest: int, ends: Any, stop: Any) -> list[list[int]]:
        return [loaded.tokenizer(answer(loaded.tokenizer.decode(ids)))["input_ids"] for ids in prompts]

    monkeypatch.setattr(until, "generate", generate)


def test_what_the_first_filter_finds_is_compared_by_the_metrics_settings(
    loaded: LoadedModel, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def answer(text: str) -> str:
        number = text.rsplit("Question: ", 1)[1].split(" ")[0]
        right = {"0": "So #### 2,000", "1": "So #### 2001.", "2": "The answer is 2,002", "3": "#### 7"}
        return right.get(number, f"#### {2000 + int(number)}") + "\nQuestion: and so on #### 9"

    says(monkeypatch, answer)
    result = score(loaded, sums(tmp_path / "sums"))
    assert result.metric == "exact_match"
    # The third has no "####", which is what the first filter looks for.
    assert result.correct == (1.0, 1.0, 0.0, 0.0, 1.0, 1.0)
    assert result.said[2].answer == "The answer is 2,002"
    assert result.said[2].question.startswith("Question: 2 and 2?")
    flexible = sums(tmp_path / "flexible", filter_list=TASK["filter_list"][::-1])
    assert score(loaded, flexible).correct == (1.0, 1.0, 1.0, 0.0, 1.0, 1.0)


def test_answers_are_those_of_stock_lm_eval(loaded: LoadedModel) -> None:
    from lm_eval.api.instance import Instance
    from lm_eval.models.huggingface import HFLM

    from ft_assets.workers.evals.shared_prefix import SharedPrefixLM

    ours = SharedPrefixLM(loaded, lambda done, total: None)
    first = ours.generate_until([_request("the question is", [], 12)])[0]
    # Texts that the model does write, one that it does not, and one longer than the model's context of 256.
    stops: list[list[str]] = [[], [first[3:5]], [first[-3:]], ["never this"]]
    texts = ["the question is", "what", "where is the fox? " * 60, "the quick brown"]
    stock = HFLM(pretrained=loaded.model, tokenizer=loaded.tokenizer, batch_size=4)
    for place, stop in enumerate(stops):
        requests = [_request(text, stop, 12 + place) for text in texts]
        assert ours.generate_until(requests) == stock.generate_until(
            [Instance(request_type="generate_until", doc={}, arguments=each.args, idx=0) for each in requests],
            disable_tqdm=True,
        )


def _request(text: str, stops: list[str], longest: int) -> Any:
    from lm_eval.api.instance import Instance

    settings = {"until": stops, "max_gen_toks": longest, "do_sample": False, "temperature": 0.0}
    return Instance(request_type="generate_until", doc={}, arguments=(text, settings), idx=0)


def test_a_row_that_has_ended_is_written_on_no_longer(loaded: LoadedModel, monkeypatch: pytest.MonkeyPatch) -> None:
    steps = []
    stock = until.Stop.__call__
    monkeypatch.setattr(until.Stop, "__call__", lambda self, rows: steps.append(len(rows)) or stock(self, rows))
    settings: dict[str, Any] = {"max_new_tokens": 60, "report": lambda done, total: None}
    encode = lambda text: loaded.tokenizer(text)["input_ids"]  # noqa: E731
    whole = until.continue_texts(loaded, ["the fox"], encode, until=["never"], **settings)[0]
    assert len(steps) >= 20
    steps.clear()
    assert until.continue_texts(loaded, ["the fox"], encode, until=[whole[2:4]], **settings)[0] == cut(
        whole, [whole[2:4]]
    )
    assert len(steps) <= 8


def test_an_answer_ends_before_the_first_text_that_ends_it() -> None:
    assert cut("one two three", ["three", "two"]) == "one "
    assert cut("one", ["two"]) == "one"


def test_answers_that_leave_no_room_for_a_question_are_refused(loaded: LoadedModel, tmp_path: Path) -> None:
    settings = {**TASK["generation_kwargs"], "max_gen_toks": 256}
    with pytest.raises(BadRecipe, match="do not fit into the base's context of 256"):
        score(loaded, sums(tmp_path / "sums", generation_kwargs=settings))


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({"generation_kwargs": {"until": ["x"], "do_sample": True}}, "do_sample"),
        ({"generation_kwargs": {"until": ["x"], "temperature": 0.7}}, "temperature"),
        ({"generation_kwargs": None}, "generate_until needs one"),
        ({"doc_to_choice": ["a", "b"]}, "has no doc_to_choice"),
        ({"metric_list": [{"metric": "acc"}]}, "generate_until has exact_match"),
        ({"filter_list": [{"name": "x", "filter": [{"function": "custom"}]}]}, "function"),
        ({"filter_list": [{"name": "x", "filter": [{"function": "regex"}]}]}, "function regex needs one"),
        (
            {"filter_list": [{"name": "x", "filter": [{"function": "regex", "regex_pattern": "(a+)+$"}]}]},
            "may take for ever",
        ),
        ({"doc_to_target": "{{ '' }}"}, "line 1: this item has no question or no correct answer"),
        # What is ignored must not leave every answer equal to nothing.
        (
            {"metric_list": [{"metric": "exact_match", "regexes_to_ignore": ["(?s).*"]}]},
            "is empty after the ignored parts are removed",
        ),
    ],
)
def test_tasks_that_would_not_say_what_they_seem_to_are_refused(
    tmp_path: Path, changes: dict[str, Any], expected: str
) -> None:
    task = {name: value for name, value in (TASK | changes).items() if value is not None}
    folder = sums(tmp_path / "sums")
    (folder / "task.yaml").write_text(yaml.safe_dump(task))
    with pytest.raises(BadRecipe) as caught:
        add_suite(open_store(str(tmp_path / "store"), create=True), folder, KEY, "ann")
    assert expected in str(caught.value)


def test_a_suite_of_answers_is_registered(tmp_path: Path) -> None:
    done = add_suite(open_store(str(tmp_path / "store"), create=True), sums(tmp_path / "sums"), KEY, "ann")
    assert (done.created, done.items) == (True, 6)


def truthful(folder: Path, **task: Any) -> Path:
    """A suite in the layout of TruthfulQA's CSV file."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "items.csv").write_text(
        "Question,Best Answer,Correct Answers,Incorrect Answers\n"
        '"What is red, then?",the fox,the fox; the house; an other one,it is not\n'
        "Where is it?,in the house,in the house,the name; what; \n"
        "How many?,1,1,2; 3\n"
    )
    lists = "{% set right = Correct_Answers.split(';') | map('trim') | select | list %}"
    wrong = "Incorrect_Answers.split(';') | map('trim') | select | list"
    settings = {
        "task": "mc2",
        "dataset_path": "csv",
        "dataset_kwargs": {"data_files": {"test": "items.csv"}},
        "test_split": "test",
        "output_type": "multiple_choice",
        "doc_to_text": "Q: {{Question}}\nA:",
        "doc_to_choice": lists + "{{ right + (" + wrong + ") }}",
        "doc_to_target": lists + "{{ range(right | length) | list }}",
        "metric_list": [{"metric": "mc2"}],
        **task,
    }
    (folder / "task.yaml").write_text(yaml.safe_dump(settings))
    return folder


def test_mc2_is_the_share_of_probability_on_the_true_answers(loaded: LoadedModel, tmp_path: Path) -> None:
    folder = truthful(tmp_path / "truthful")
    assert add_suite(open_store(str(tmp_path / "store"), create=True), folder, KEY, "ann").items == 3
    result = score(loaded, folder)
    assert result.metric == "mc2"
    assert all(0 < share < 1 for share in result.correct)
    # A random model finds all choices about equally likely for their length; with three of four true, more is true.
    assert result.value == pytest.approx(sum(result.correct) / 3)
    assert result.said[0].target == "the fox | the house | an other one"
    # The same model, asked stock lm-eval's way: likelihoods of each choice, as probabilities.
    assert result.correct[2] == pytest.approx(_stock_mass(loaded, "Q: How many?\nA:", ["1", "2", "3"], 1), abs=1e-4)


def _stock_mass(loaded: LoadedModel, question: str, choices: list[str], right: int) -> float:
    import numpy as np
    from lm_eval.api.instance import Instance
    from lm_eval.models.huggingface import HFLM

    requests = [
        Instance(request_type="loglikelihood", doc={}, arguments=(question, f" {choice}"), idx=0) for choice in choices
    ]
    stock = HFLM(pretrained=loaded.model, tokenizer=loaded.tokenizer, batch_size=4)
    shares = np.exp([likelihood for likelihood, _ in stock.loglikelihood(requests, True)])
    return float(shares[:right].sum() / shares.sum())


def test_choices_too_unlikely_for_a_probability_still_have_a_share() -> None:
    sample = {"filtered_resps": [(-2000.0, False), (-2000.0, False), (-2001.0, False)], "target": [0]}
    assert true_mass(sample) == pytest.approx(1 / (2 + 0.36787944))


def test_values_of_csv_stay_texts_and_a_choice_may_be_normalised_by_bytes(loaded: LoadedModel, tmp_path: Path) -> None:
    # A reader that guesses types would make numbers of these choices, and nothing of "None".
    folder = truthful(tmp_path / "mmlu")
    (folder / "items.csv").write_text("question,a,b,answer\nWhat?,None,01,1\nWhich?,1.0,2e3,0\n")
    task = yaml.safe_load((folder / "task.yaml").read_text()) | {
        "doc_to_text": "{{question}}",
        "doc_to_choice": "{{[a, b]}}",
        "doc_to_target": "{{answer}}",
        "metric_list": [{"metric": "acc_bytes"}, {"metric": "acc_norm"}, {"metric": "acc"}],
    }
    (folder / "task.yaml").write_text(yaml.safe_dump(task))
    result = score(loaded, folder)
    assert result.metric == "acc_bytes"
    assert [said.target for said in result.said] == ["01", "1.0"]
    assert {said.answer for said in result.said} <= {"None", "01", "1.0", "2e3"}


def test_mc2_needs_a_list_of_right_answers(tmp_path: Path) -> None:
    folder = truthful(tmp_path / "truthful", doc_to_target="0")
    with pytest.raises(BadRecipe, match="Let doc_to_target give a list for every item"):
        add_suite(open_store(str(tmp_path / "store"), create=True), folder, KEY, "ann")


def test_instructions_are_asked_through_the_template_and_scored_strictly(
    loaded: LoadedModel, base: Path, tmp_path: Path
) -> None:
    items = [{**ITEM, "key": number, "prompt": f"Say {number}."} for number in range(3)]
    long = {**ITEM, "key": 9, "prompt": "xq" * 200}
    folder = write_suite(tmp_path / "follow", *items, long, max_new_tokens=16)
    (folder / "follow.yaml").rename(folder / "task.yaml")
    result = score(loaded, folder, chat=Chat(folder=base, template=None))
    assert result.item_ids == ("0", "1", "2")
    assert result.also["too_long"] == 1
    assert result.correct == tuple(float("," not in said.answer and bool(said.answer)) for said in result.said)
    assert set(result.also) == {"prompt_loose", "instruction_strict", "instruction_loose", "too_long"}
    assert score(loaded, folder, limit=2, chat=Chat(folder=base, template=None)).item_ids == ("0", "1")
    with pytest.raises(UserError, match="needs a chat template and none was given"):
        score(loaded, folder)


THINKING = (
    "{%- for m in messages -%}<|{{ m.role }}|>{{ m.content if loop.last else m.content.split('</think>')[-1] }}<|end|>"
    "{%- endfor -%}{%- if add_generation_prompt -%}<|assistant|>{%- endif -%}"
)


@pytest.mark.parametrize(
    "written",
    [
        "<think>\n2 or 3?\n</think>\n\nIt is 3. Question: 4?",
        "<think>Question: again</think> 3",
        "a</think>b</think> c",
        "<think>no end",
        "3",
    ],
)
def test_thoughts_are_left_out_as_by_lm_eval_with_the_template_s_own_end_of_thoughts(
    base: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, written: str
) -> None:
    from lm_eval.models.utils import postprocess_generated_text

    assert load_model(base).think_end == ""
    folder = shutil.copytree(base, tmp_path / "base")
    edit_json(folder / "tokenizer_config.json", lambda settings: settings.update(chat_template=THINKING))
    thinking = load_model(folder)
    says(monkeypatch, lambda _: written)
    (found,) = continue_texts(
        thinking,
        ["2?"],
        lambda text: list(thinking.tokenizer(text)["input_ids"]),
        until=["Question:"],
        max_new_tokens=8,
        report=lambda *_: None,
    )
    assert found == postprocess_generated_text(written, ["Question:"], thinking.think_end)
    assert thinking.think_end == "</think>"
    # Decoders leave control tokens out: lm-eval is then given the number of the one that ends thoughts.
    thinking.tokenizer.add_special_tokens({"additional_special_tokens": ["</think>"]})
    (again,) = continue_texts(
        thinking,
        ["2?"],
        lambda text: list(thinking.tokenizer(text)["input_ids"]),
        until=["Question:"],
        max_new_tokens=8,
        report=lambda *_: None,
    )
    behind = written.split("</think>")[-1].lstrip() if "</think>" in written else written
    assert again == postprocess_generated_text(behind, ["Question:"], None).lstrip()


OPENS = THINKING.replace("<|assistant|>{%- endif", "<|assistant|><think>\n{%- endif")
# As Gemma's: lm-eval then asks without the description.
NO_SYSTEM = "{%- if messages[0].role == 'system' -%}{{ raise_exception('no system turns') }}{%- endif -%}" + THINKING


@pytest.mark.parametrize(
    ("template", "written"),
    [
        (None, ""),
        (THINKING, "<think>\n1?\n</think>\n\nIt is\n#### 2001"),
        (OPENS, "1?\n</think>\n\n#### 2,001 Question: no"),
        (NO_SYSTEM, ""),
    ],
    ids=["its own", "thoughts", "open thoughts", "without system turns"],
)
def test_a_base_with_a_template_is_asked_through_it_as_by_lm_eval(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, template: str | None, written: str
) -> None:
    """Prompts, answers and scores are those of ``apply_chat_template`` and ``fewshot_as_multiturn``."""
    from lm_eval.evaluator import evaluate
    from lm_eval.models.huggingface import HFLM
    from lm_eval.tasks import TaskManager

    base = make_fake_base(tmp_path / "base", context=1024)
    if template:
        edit_json(base / "tokenizer_config.json", lambda settings: settings.update(chat_template=template))
    model, folder = load_model(base), sums(tmp_path / "sums", description="Answer with a number.")
    if written:
        says(monkeypatch, lambda _: written)
        monkeypatch.setattr(
            HFLM,
            "_model_generate",
            lambda self, context, **_: torch.cat(
                [context, torch.tensor([self.tokenizer(written)["input_ids"]] * len(context))], dim=1
            ),
        )
    import lm_eval.evaluator

    seen: list[Any] = []
    usual = evaluate
    monkeypatch.setattr(
        lm_eval.evaluator,
        "evaluate",
        lambda *args, **how: seen.append(usual(*args, **how)["samples"]["sums"]) or _samples(seen[-1]),
    )
    result = score(model, folder, chat=Chat(folder=base, template=None))
    assert result.through_template
    tasks = TaskManager(include_defaults=False).load([_task_config(read_task(folder / "task.yaml"), folder, tmp_path)])
    tasks["tasks"]["sums"].set_fewshot_seed(seed=3)
    stock = HFLM(
        pretrained=model.model, tokenizer=model.tokenizer, batch_size=4, think_end_token=model.think_end or None
    )
    theirs = usual(stock, tasks, bootstrap_iters=0, apply_chat_template=True, fewshot_as_multiturn=True)
    pairs = [
        [(each["arguments"], each["resps"], each["exact_match"]) for each in _ordered(samples)]
        for samples in (seen[0], theirs["samples"]["sums"])
    ]
    assert pairs[0] == pairs[1]
    assert "<|user|>Question: " in str(pairs[0][0])
    assert ("<|system|>Answer with a number." in str(pairs[0][0])) == (template != NO_SYSTEM)
    if written:
        assert result.value == pytest.approx(1 / 6)


def _samples(samples: list[Any]) -> dict[str, Any]:
    return {"samples": {"sums": samples}}


def _ordered(samples: list[Any]) -> list[Any]:
    return sorted(samples, key=lambda each: (each["filter"], each["doc_id"]))


def test_a_base_without_a_template_continues_the_suite_s_text(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    base = make_fake_base(tmp_path / "base", with_template=False)
    shown: list[str] = []
    says(monkeypatch, lambda text: shown.append(text) or "#### 2000")
    folder = sums(tmp_path / "sums", num_fewshot=0)
    # The recipe's template is one that the base does not know.
    result = score(load_model(base), folder, chat=Chat(folder=base, template=THINKING))
    assert (result.through_template, result.correct[0]) == (False, 1.0)
    assert shown[0] == "Question: 0 and 0?\nAnswer:"


def test_likelihoods_of_choices_are_compared_behind_plain_text(base: Path, loaded: LoadedModel, tmp_path: Path) -> None:
    folder = truthful(tmp_path / "truthful")
    assert score(loaded, folder, chat=Chat(folder=base, template=None)) == score(loaded, folder)
