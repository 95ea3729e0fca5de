"""``ft chat``: what is asked, what is shown of the answers, and how one of them or all of it is ended."""

import json
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from ft_assets import api
from ft_assets.api import FoundResult
from ft_assets.cli import live
from ft_assets.cli.main import app
from ft_assets.cli.talking import Talking
from ft_assets.cli.tool_calls import calls_in
from ft_assets.records.submissions import SubmissionOutcome, SubmissionStatus
from ft_resources.serving.errors import BadRequest
from tests.cli.conftest import Ft
from tests.made import made_submission

TOOLS = [{"type": "function", "function": {"name": "note", "parameters": {}}}]
ASKED = {"role": "user", "content": "hi"}
Part = tuple[str, str]


@dataclass
class Model:
    """Writes what it is given for each question in turn; ``asked`` is what it was asked, by whom."""

    answers: list[list[Part] | BaseException]
    asked: list[tuple[str, list[dict[str, Any]]]] = field(default_factory=list)
    ends: str = "stop"

    def answer(
        self,
        messages: Sequence[dict[str, Any]],
        tell: Callable[[str, str], None],
        *,
        tools: Sequence[dict[str, Any]] = (),
        of_base: bool = False,
        most: int = 512,
    ) -> str:
        self.asked.append(("base" if of_base else "result", list(messages)))
        for part in self.answers.pop(0) if isinstance(self.answers[0], list) else [self.answers.pop(0)]:
            if isinstance(part, BaseException):
                raise part
            tell(*part)
        return self.ends


def said(text: str) -> list[Part]:
    return [("", text)]


def talk(
    model: Model, *typed: str | BaseException, system: str = "", beside_base: bool = False, tools: Any = ()
) -> list[str]:
    """The prompts that somebody saw who ``typed`` that."""
    prompts, left = [], iter(typed)

    def ask(prompt: str) -> str:
        prompts.append(prompt)
        found = next(left, EOFError())
        if isinstance(found, BaseException):
            raise found
        return found

    Talking(model, system=system, beside_base=beside_base, tools=tools, most=512).go_on(ask)
    return prompts


def test_a_conversation_has_its_earlier_turns_and_begins_with_the_system_prompt() -> None:
    model = Model([said("one"), said("two"), said("three")])
    talk(model, "hi", "and?", "", "/new", "again", system="be brief")
    head = {"role": "system", "content": "be brief"}
    first = [head, ASKED]
    assert [asked for _, asked in model.asked] == [
        first,
        [*first, {"role": "assistant", "content": "one"}, {"role": "user", "content": "and?"}],
        [head, {"role": "user", "content": "again"}],
    ]


def test_the_base_answers_the_same_conversation_after_the_result(capsys: pytest.CaptureFixture[str]) -> None:
    model = Model([said("yes"), said("no"), said("so"), said("not")])
    talk(model, "hi", "and?", beside_base=True)
    assert capsys.readouterr().out.split("\n")[:4] == ["result  yes", "base    no", "result  so", "base    not"]
    (_, first), (_, beside), (_, second), (_, then) = model.asked
    assert [who for who, _ in model.asked] == ["result", "base"] * 2
    assert (first, second[1]["content"]) == (beside, "yes")
    assert second == then


def test_thoughts_are_aside_of_the_answer_and_no_part_of_what_is_asked_next(capsys: pytest.CaptureFixture[str]) -> None:
    model = Model([[("it is a ", ""), ("greeting", ""), ("", "hel"), ("", "lo")], said("yes")])
    talk(model, "hi", "and?")
    shown = capsys.readouterr()
    assert shown.out.startswith("hello\nyes\n")
    assert "it is a greeting\n\n" in shown.err
    assert model.asked[1][1][1] == {"role": "assistant", "content": "hello"}


@pytest.mark.parametrize(
    ("parts", "ends", "words"),
    [
        (said("so far"), "length", "cut off after 512 tokens: --max-tokens"),
        ([("hm", "")], "stop", "it ended without an answer"),
        ([], "stop", "it ended without a word"),
    ],
)
def test_an_answer_that_is_not_whole_says_so(
    capsys: pytest.CaptureFixture[str], parts: list[Part], ends: str, words: str
) -> None:
    talk(Model([parts], ends=ends), "hi")
    assert words in capsys.readouterr().err


def test_ctrl_c_ends_an_answer_and_not_the_conversation() -> None:
    model = Model([[("", "never "), KeyboardInterrupt()], said("yes")])
    assert talk(model, KeyboardInterrupt(), "hi", "and?") == ["you> "] * 4
    assert model.asked[1][1] == [ASKED, {"role": "assistant", "content": "never "}, {"role": "user", "content": "and?"}]


def test_a_message_that_cannot_be_asked_is_told_and_forgotten(capsys: pytest.CaptureFixture[str]) -> None:
    refused = BadRequest("the context holds 8 tokens", remedy="Shorten it.")
    model = Model([refused, said("yes")])
    talk(model, "much", "hi")
    assert "the context holds 8 tokens. Shorten it. /new begins another conversation." in capsys.readouterr().err
    assert model.asked[1][1] == [ASKED]


def test_what_a_called_tool_returns_is_typed_and_answered(capsys: pytest.CaptureFixture[str]) -> None:
    model = Model([said('{"name": "note", "arguments": {"text": "milk"}}'), said("noted")])
    assert talk(model, "hi", "it is noted", tools=TOOLS) == ["you> ", "note returned> ", "you> "]
    assert 'it calls note {"text": "milk"}' in capsys.readouterr().err
    _, called, returned = model.asked[1][1]
    assert called["tool_calls"][0]["function"] == {"name": "note", "arguments": {"text": "milk"}}
    assert (returned["content"], returned["tool_call_id"]) == ("it is noted", called["tool_calls"][0]["id"])


@pytest.mark.parametrize(
    ("typed", "prompts"), [(EOFError(), ["you> "]), (KeyboardInterrupt(), ["you> ", "note returned> ", "you> "])]
)
def test_ctrl_c_where_a_tools_result_is_typed_forgets_the_message_and_ctrl_d_ends_the_chat(
    typed: BaseException, prompts: list[str]
) -> None:
    model = Model([said('{"name": "note", "arguments": {}}'), said("so"), said("yes")])
    assert talk(model, "call it", typed, "hi", tools=TOOLS)[: len(prompts)] == prompts
    assert [asked for _, asked in model.asked[1:]] == ([] if isinstance(typed, EOFError) else [[ASKED]])


@pytest.mark.parametrize(
    "text",
    [
        '{"a":' * 3000,
        'note{"a":' + "[" * 3000,
        "<function=note><parameter=text>" + "[" * 3000,
        json.dumps({"name": "note", "arguments": "[" * 3000}),
    ],
)
def test_what_is_nested_without_end_is_no_error(text: str) -> None:
    assert all(call["arguments"] == {} for call in calls_in(text, {"note"}))


@pytest.mark.parametrize(
    "text",
    [
        '<tool_call>\n{"name": "note", "arguments": {"text": "a {b}"}}\n</tool_call>',
        '{"name": "note", "parameters": {"text": "a {b}"}}',
        '{"name": "note", "arguments": "{\\"text\\": \\"a {b}\\"}"}',
        '[TOOL_CALLS][{"name": "note", "arguments": {"text": "a {b}"}}]',
        '[TOOL_CALLS]note[ARGS]{"text": "a {b}"}',
        'functions.note:0{"text": "a {b}"}',
        'note\n```json\n{"text": "a {b}"}\n```',
        "<tool_call>\n<function=note>\n<parameter=text>\na {b}\n</parameter>\n</function>\n</tool_call>",
    ],
)
def test_a_call_is_found_however_a_template_spells_it(text: str) -> None:
    found = {"name": "note", "arguments": {"text": "a {b}"}}
    assert calls_in(f"Let me note it.\n{text}\n{text}", {"note", "other"}) == [found, found]
    assert calls_in(text.replace("note", "unknown"), {"note", "other"}) == []


def test_no_command_of_a_models_reaches_the_terminal(capsys: pytest.CaptureFixture[str]) -> None:
    talk(Model([[("\x1b[2Jthought", ""), ("", "\x1b]0;x\x07 \u202ereversed")]]), "hi")
    shown = "".join(capsys.readouterr())
    assert not {"\x1b", "\x07", "\u202e"} & set(shown)


@pytest.fixture
def found(monkeypatch: pytest.MonkeyPatch) -> Callable[..., Model]:
    """What ``ft chat`` finds, and a model that answers for it."""

    def make(*answers: list[Part], state: str = "accepted") -> Model:
        model = Model(list(answers))

        @contextmanager
        def open_talk(_: FoundResult) -> Iterator[Model]:
            yield model

        result = FoundResult(address="acme/adapter/0123", name="acme.colours.tiny", state=state)
        monkeypatch.setattr(api, "find_result", lambda target: result)
        monkeypatch.setattr(api, "open_talk", open_talk)
        return model

    return make


def piped(text: str, *arguments: str) -> Any:
    return CliRunner().invoke(app, ["chat", *arguments], input=text)


def test_a_message_from_a_pipe_gets_its_answer_alone(ft: Ft, found: Callable[..., Model]) -> None:
    model = found([("hm", ""), ("", "hello")])
    result = piped("hi\nthere\n", "acme.colours.tiny")
    assert (result.exit_code, result.stdout) == (0, "hello\n"), result.exception
    assert model.asked == [("result", [{"role": "user", "content": "hi\nthere"}])]


def test_a_pipe_without_a_message_is_told_before_anything_is_loaded(ft: Ft, found: Callable[..., Model]) -> None:
    model = found(said("hello"))
    result = piped("\n")
    assert (result.exit_code, "no message" in result.stderr, model.asked) == (2, True, [])


@pytest.mark.parametrize(
    ("state", "words"), [("accepted", ""), ("ungated", "no gate judged it"), ("rejected", "it did not pass its gates")]
)
def test_a_result_that_no_gate_let_through_says_so(ft: Ft, found: Callable[..., Model], state: str, words: str) -> None:
    found(said("hello"), state=state)
    result = piped("hi")
    assert (result.exit_code, words in result.stderr, "Warning" in result.stderr) == (0, True, bool(words))


@pytest.mark.parametrize("content", ["{}", "[1]", "[" * 100_000, "no JSON", None])
def test_a_file_without_tools_is_refused(
    ft: Ft, found: Callable[..., Model], tmp_path: Path, content: str | None
) -> None:
    found(said("hello"))
    file = tmp_path / "tools.json"
    if content is not None:
        file.write_text(content)
    result = piped("hi", "--tools", str(file))
    assert (result.exit_code, str(file) in result.stderr) == (2, True)
    file.write_text(json.dumps(TOOLS))
    assert piped("hi", "--tools", str(file)).exit_code == 0


@pytest.mark.parametrize("status", [SubmissionStatus.ACCEPTED, SubmissionStatus.UNGATED, SubmissionStatus.REJECTED])
def test_the_end_of_a_run_with_a_result_says_how_to_talk_to_it(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], status: SubmissionStatus
) -> None:
    for name in ("_print_gates", "_print_scores", "reasons"):
        monkeypatch.setattr(live, name, lambda *_: ["it was measured"])
    monkeypatch.setattr(api, "status", lambda *_, **__: None)
    ended = SubmissionOutcome(status=status, adapter="acme/adapter/0123", reason="x", at="2026-01-01T00:00:00+00:00")
    live.print_outcome(None, made_submission(id="0123456789abcdef"), ended)
    assert "ft chat 0123456789abcdef" in capsys.readouterr().out
