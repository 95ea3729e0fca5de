"""Where fields fit no form, the lines that are guessed work when they are pasted."""

import json
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from ft_assets.settings.dataset.forms import FormSettings
from ft_assets.settings.dataset.policy import load_policy
from ft_assets.workers.datasets.forms.guesses import guess_classes, guess_columns
from ft_assets.workers.datasets.forms.parse import parse_slowly
from ft_assets.workers.datasets.forms.reasons import Reason

Row = dict[str, Any]
TURNS = [{"role": "user", "content": "Hi"}, {"role": "assistant", "content": "Hello"}]
SPOKEN = [{"from": "human", "value": "Hi"}, {"from": "gpt", "value": "Hello"}]


@pytest.mark.parametrize(
    ("names", "lines"),
    [
        ("question answer", "fields: {prompt: question, completion: answer}"),
        ("id answer question category", "fields: {prompt: question, completion: answer}"),
        ("instruction response", "fields: {prompt: instruction, completion: response}"),
        ("Prompt Response", "fields: {prompt: Prompt, completion: Response}"),
        ("user_input modelReply", "fields: {prompt: user_input, completion: modelReply}"),
        ("question context answer", "fields: {instruction: question, input: context, output: answer}"),
        ("system_prompt question answer", "fields: {prompt: question, completion: answer, system: system_prompt}"),
        ("prompt better worse", "fields: {chosen: better, rejected: worse}"),
        (
            "query chosen_response rejected_response",
            "fields: {prompt: query, chosen: chosen_response, rejected: rejected_response}",
        ),
        ("document title url", "fields: {text: document}"),
        ("Body", "fields: {text: Body}"),
        ("utterance answer", "fields: {prompt: utterance, completion: answer}"),
        ("subject description answer", "fields: {prompt: [subject, description], completion: answer}"),
        ("narrative q answer", "fields: {prompt: [narrative, q], completion: answer}"),
        ("question answer explanation", "fields: {prompt: question, completion: answer}"),
        ("question explanation", "fields: {prompt: question, completion: explanation}"),
        ("Frage Antwort", "fields: {prompt: Frage, completion: Antwort}"),
        ("null true", 'fields: {prompt: "null", completion: "true"}'),
    ],
)
def test_lines_are_guessed_from_the_names(names: str, lines: str) -> None:
    rows = [{name: f"{name} of row {number}" for name in names.split()} for number in range(5)]
    assert_pasted(rows, lines)


@pytest.mark.parametrize(
    ("row", "lines"),
    [
        ({"dialog": TURNS}, "fields: {messages: dialog}"),
        ({"data": SPOKEN, "id": 3}, "fields: {messages: data}"),
        ({"history": TURNS[:1], "good": "a", "bad": "b"}, "fields: {messages: history, chosen: good, rejected: bad}"),
        (
            {"Customer question": "a", "Our reply": "b"},
            'fields: {prompt: "Customer question", completion: "Our reply"}',
        ),
        ({"text": "a", "instruction": "b"}, "fields: {prompt: instruction, completion: text}"),
        ({"instruction": "a", "input": "", "response": "b"}, "fields: {output: response}"),
        ({"x": 1, "y": "a"}, "fields: {text: y}"),
        ({"Frage": "a", "Notiz": "", "Antwort": "b"}, "fields: {prompt: Frage, completion: Antwort}"),
        ({"Nr": "1", "Frage": "a", "am": "2026-01-02", "Antwort": "b"}, "fields: {prompt: Frage, completion: Antwort}"),
        ({"x": "1", "y": "2"}, "fields: {prompt: x, completion: y}"),
    ],
)
def test_lines_are_guessed_from_the_values(row: Row, lines: str) -> None:
    assert_pasted([row, row], lines)


def test_a_long_column_that_is_often_blank_is_joined_to_the_short_one_before_it() -> None:
    mail = "Guten Tag, das Dach ist undicht."
    rows: list[Row] = [{"Betreff": "Dach", "Mail": "", "Amt": "Bau"}] * 3 + [
        {"Betreff": "Dach", "Mail": mail, "Amt": "x"}
    ]
    assert_pasted(rows, "fields: {prompt: [Betreff, Mail], completion: Amt}")


@pytest.mark.parametrize(
    ("names", "lines"),
    [
        ("text label", "fields: {prompt: text, completion: label}"),
        ("intent utterance", "fields: {prompt: utterance, completion: intent}"),
        ("subject description queue", "fields: {prompt: [subject, description], completion: queue}"),
        ("id message category", "fields: {prompt: message, completion: category}"),
        ("ticket split label", "fields: {prompt: ticket, completion: label}"),
        ("review Stimmung", "fields: {prompt: review, completion: Stimmung}"),
        ("question answer label", "fields: {prompt: question, completion: answer}"),
        ("query explanation topic", "fields: {prompt: query, completion: explanation}"),
    ],
)
def test_a_column_of_few_values_is_a_label_and_the_answer_where_there_is_no_other(names: str, lines: str) -> None:
    few = {"label": 8, "intent": 8, "queue": 5, "category": 8, "split": 2, "Stimmung": 3, "topic": 4}
    rows = [
        {
            name: f"{name} {n % few[name]}" if name in few else f"{name} {n}" + " with more to say" * (name != "id")
            for name in names.split()
        }
        for n in range(50)
    ]
    assert_pasted(rows, lines)


def test_texts_that_hardly_repeat_are_no_labels() -> None:
    rows = [{"body": f"text {n}", "remark": f"remark {n % 20}"} for n in range(50)]
    assert guess_classes(rows, FormSettings()) is None


EXPORTED: Row = {
    "conversation_id": "c-17",
    "created": "2026-03-01T09:14:00+01:00",
    "persona": "Be brief.",
    "dialog": [
        {"speaker": "customer", "body": "Where is my invoice?", "ts": 1},
        {"speaker": "agent", "body": "Under Account.", "ts": 2},
    ],
}
LOGGED: Row = {"conversation": "c-17", "asked": "Where?", "answered": "No idea.", "thumb": "down", "at": 17}


@pytest.mark.parametrize(
    ("row", "lines"),
    [
        (
            EXPORTED,
            "form: system/messages\nfields: {messages: dialog, system: persona}\n"
            "turns: {role: speaker, content: body, roles: {customer: user, agent: assistant}, ignore: [ts]}",
        ),
        (
            {"chat": [{"who": "Kunde", "msg": "Wo?"}, {"who": "Berater", "msg": "Dort."}]},
            "fields: {messages: chat}\nturns: {role: who, content: msg, roles: {Kunde: user, Berater: assistant}}",
        ),
        ({"messages": [{**turn, "id": 3} for turn in TURNS]}, "turns: {ignore: [id]}"),
    ],
)
def test_turns_with_names_of_their_own_are_guessed_from_who_speaks_and_what_is_said(row: Row, lines: str) -> None:
    assert_pasted([row, row], lines)


def test_speakers_that_are_people_are_nobodys_role() -> None:
    rows = [{"log": [{"name": f"Ann {n}", "said": "Hi"}, {"name": f"Bob {n}", "said": "Yes"}]} for n in range(9)]
    assert guess_columns(rows, FormSettings()) is None


@pytest.mark.parametrize(
    ("thumb", "labels"),
    [
        ("down", "\nlabels: {liked: [up], disliked: [down]}"),
        ("👎", '\nlabels: {liked: ["👍"], disliked: ["👎"]}'),
        (-1, '\nlabels: {liked: ["+1", "1"], disliked: ["-1"]}'),
        (False, ""),
    ],
)
def test_a_log_of_thumbs_is_read_as_one_and_not_as_good_answers(thumb: Any, labels: str) -> None:
    lines = f"form: unpaired_preference\nfields: {{prompt: asked, completion: answered, label: thumb}}{labels}"
    assert_pasted([{**LOGGED, "thumb": thumb}] * 3, lines)


def test_thumbs_of_whole_conversations_are_read_with_their_turns() -> None:
    row = {**EXPORTED, "feedback": "down"}
    assert_pasted(
        [row, row],
        "form: messages/label\nfields: {messages: dialog, system: persona, label: feedback}\n"
        "turns: {role: speaker, content: body, roles: {customer: user, agent: assistant}, ignore: [ts]}\n"
        "labels: {liked: [up], disliked: [down]}",
    )


def assert_pasted(rows: list[Row], lines: str) -> None:
    guess = guess_columns(rows, FormSettings())
    assert guess is not None
    assert guess.lines == lines
    parsed = parse(rows, guess.lines)
    assert (parsed.rows, parsed.bad.num_rows) == (len(rows), 0)


def parse(rows: list[Row], policy: str) -> Any:
    form = FormSettings.of(load_policy(policy, "dataset.yaml"))
    return parse_slowly("\n".join(map(json.dumps, rows)).encode(), form, ended=True)


@pytest.mark.parametrize("row", [{"x": 1}, {"label": "a", "score": "b"}, {"a secret sentence.\n": "b"}, {}])
def test_where_nothing_can_be_guessed_there_are_no_lines(row: Row) -> None:
    assert guess_columns([row, row], FormSettings()) is None


def test_a_name_that_may_be_the_rows_text_is_not_shown() -> None:
    assert guess_columns([{"Dear Ann, I am ill": "x"}, {"Dear Bob, I am well": "y"}], FormSettings()) is None


def test_what_the_policy_maps_already_stays() -> None:
    given_settings = FormSettings(fields=(("kind", "topic"),), ignore=("score",), group_by="id")
    rows = [{"question": "a", "answer": "b", "topic": "c", "score": 1, "id": 3}] * 2
    guess = guess_columns(rows, given_settings)
    assert guess is not None
    assert guess.lines == "fields: {kind: topic, prompt: question, completion: answer, ignore: [score]}"


_names = st.sampled_from([
    "question", "Question", "answer", "answers", "Antwort", "input", "output", "prompt", "completion", "instruction",
    "response", "chosen", "rejected", "better", "context", "system", "tools", "kind", "text", "document", "body", "id",
    "score", "label", "messages", "conversations", "dialog", "yes", "null", "#x", "page", "source", "1",
    "preferred_output", "non_preferred_output", "ignore", "{a}", "é", "a'b", 'a"b', "user query", "worst answer",
    "a: b",
])  # fmt: skip
_values = st.one_of(
    st.text(st.characters(codec="utf-8"), max_size=8),
    st.sampled_from(["a", "b c", "", " ", None, 1, True, [], {}, TURNS, SPOKEN, TURNS[:1], TURNS[1:], [{}], ["a"]]),
)


@given(st.lists(st.dictionaries(_names, _values, max_size=6), min_size=1, max_size=6), st.booleans())
@example([{"prompt": "a", "better": "b", "worst answer": "c"}], False)
def test_pasted_lines_read_most_rows_whatever_the_columns(rows: list[Row], alike: bool) -> None:
    if alike:
        rows = [{**rows[0], **row} for row in rows]
    guess = guess_columns(rows, FormSettings())
    if guess is None:
        return
    before, after = parse(rows, ""), parse(rows, guess.lines)
    assert after.examples.num_rows * 2 > len(rows)
    if guess.form == "auto" and not before.examples.num_rows:
        assert not [bad for bad in after.bad.to_pylist() if bad["reason"] == Reason.UNKNOWN_SCHEMA]
