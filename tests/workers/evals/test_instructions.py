"""Each of the paper's 25 instructions: an answer that follows it, and answers that nearly do."""

import json
import os
from pathlib import Path
from typing import Any

import pytest
import yaml

from ft_assets.workers.suites.kinds.checks import CHECKS, make_check
from ft_assets.workers.suites.kinds.instructions import follows, follows_loosely
from ft_assets.workers.suites.kinds.text_parts import count_capital_words, count_sentences, count_words, is_language
from ft_assets.workers.suites.suites import add_suite, scored_texts
from ft_resources.errors import BadRecipe
from ft_resources.store_marker import open_store

ENGLISH = "the weather in the north of the country is cold and wet for most of the year"
CASES: dict[str, tuple[dict[str, Any], list[str], list[str]]] = {
    "keywords:existence": ({"keywords": ["Cat", "dog"]}, ["A dog and two cats."], ["A dog.", "c a t dog"]),
    "keywords:frequency": (
        {"keyword": "war", "frequency": 2, "relation": "at least"},
        ["War and more war.", "warm warfare"],
        ["War and peace."],
    ),
    "keywords:forbidden_words": ({"forbidden_words": ["rock"]}, ["A rocket."], ["Rock on.", "on (rock)"]),
    "keywords:letter_frequency": (
        {"letter": "T", "let_frequency": 2, "let_relation": "less than"},
        ["Tone", "none"],
        ["Total", "at The"],
    ),
    "language:response_language": (
        {"language": "de"},
        ["Das Wetter ist heute sehr schön, und wir gehen in den Wald.", "12 + 3"],
        [ENGLISH],
    ),
    "length_constraints:number_sentences": (
        {"num_sentences": 2, "relation": "less than"},
        ["Mr. Smith went to Dr. Jones at 3 p.m. on foot.", "One line\nand another"],
        ["One. Two.", "Really? Yes!"],
    ),
    "length_constraints:number_paragraphs": (
        {"num_paragraphs": 2},
        ["one\n\n***\n\ntwo", "one\n***\ntwo\n***\n"],
        ["one\n\ntwo", "one *** *** two", "one *** two *** three"],
    ),
    "length_constraints:number_words": (
        {"num_words": 3, "relation": "at least"},
        ["one two three", "don't stop"],
        ["one two"],
    ),
    "length_constraints:nth_paragraph_first_word": (
        {"num_paragraphs": 2, "nth_paragraph": 2, "first_word": "summary"},
        ["one\n\nSummary, all is well", 'one\n\n"summary" it is'],
        [
            "Summary\n\none",
            "one\n\nSummary: as published, a colon is no end",
            "one\n\ntwo\n\nsummary",
            "one\n\nsummaries",
            "one",
        ],
    ),
    "detectable_content:number_placeholders": (
        {"num_placeholders": 2},
        ["Dear [name], of [address]"],
        ["Dear [name", "Dear [name]"],
    ),
    "detectable_content:postscript": (
        {"postscript_marker": "P.P.S"},
        ["Bye.\nP.P.S. More", "Bye p. p. s more"],
        ["Bye.\nP.S. More"],
    ),
    "detectable_format:number_bullet_lists": (
        {"num_bullets": 2},
        ["* one\n* two", "Here:\n- one\n  - two"],
        ["* one", "* one\n* two\n- three", "**bold**\n* one"],
    ),
    "detectable_format:constrained_response": ({}, ["Well. My answer is maybe."], ["my answer is maybe", "Maybe."]),
    "detectable_format:number_highlighted_sections": (
        {"num_highlights": 2},
        ["*one* and *two*", "**one** *two*"],
        ["*one*", "* *", "plain"],
    ),
    "detectable_format:multiple_sections": (
        {"section_spliter": "SECTION", "num_sections": 2},
        ["SECTION 1\na\nSECTION 2\nb"],
        ["SECTION 1\na", "Section 1\nSection 2", "SECTION one SECTION two"],
    ),
    "detectable_format:json_format": (
        {},
        ['{"a": [1, 2]}', '```json\n{"a": 1}\n```', "```\n[]\n```"],
        ["a: 1", '{"a": 1', 'Here: {"a": 1}'],
    ),
    "detectable_format:title": ({}, ["<<A day>>\nIt was"], ["<A day>", "<< >>", "<<A\nday>>"]),
    "combination:two_responses": (
        {},
        ["one\n******\ntwo"],
        ["one ****** one", "one", "one ****** two ****** three"],
    ),
    "combination:repeat_prompt": (
        {"prompt_to_repeat": "Write a poem. "},
        ["Write a poem.\nRoses", "  write a POEM. Roses"],
        ["Roses. Write a poem."],
    ),
    "startend:end_checker": (
        {"end_phrase": "Anything else?"},
        ['"Well. Anything else?"', "anything else?\n"],
        ["Anything else? No."],
    ),
    "startend:quotation": ({}, ['"Well."', ' "a"\n'], ['"Well.', '"', "'Well.'"]),
    "change_case:capital_word_frequency": (
        {"capital_frequency": 2, "capital_relation": "at least"},
        ["The BIG-TIME news is HERE"],
        ["The BIG-TIME news", "Nothing At All 12"],
    ),
    "change_case:english_capital": ({}, [ENGLISH.upper()], [ENGLISH, "DAS WETTER IST SEHR SCHÖN UND NASS"]),
    "change_case:english_lowercase": (
        {},
        [ENGLISH],
        [ENGLISH.title(), "das wetter ist sehr schön und nass"],
    ),
    "punctuation:no_comma": ({}, ["No; none."], ["Well, none."]),
}


def test_there_is_a_case_for_every_instruction_of_the_paper() -> None:
    assert set(CASES) == set(CHECKS)
    assert len(CHECKS) == 25


@pytest.mark.parametrize("name", sorted(CASES))
def test_an_answer_that_follows_is_told_from_those_that_nearly_do(name: str) -> None:
    settings, right, wrong = CASES[name]
    check = make_check(name, settings, "here")
    assert [answer for answer in right if not check(answer)] == []
    assert [answer for answer in wrong if check(answer)] == []


@pytest.mark.parametrize("name", sorted(CASES))
def test_silence_follows_no_instruction(name: str) -> None:
    check = make_check(name, CASES[name][0], "here")
    assert not any(follows(check, answer) or follows_loosely(check, answer) for answer in ("", " \n"))


def test_an_answer_wrapped_in_words_follows_loosely_and_not_strictly() -> None:
    check = make_check("detectable_format:json_format", {}, "here")
    answer = 'Sure, here it is:\n{"a": 1}\nAnything else?'
    assert not follows(check, answer)
    assert follows_loosely(check, answer)
    starred = make_check("startend:end_checker", {"end_phrase": "the end"}, "here")
    assert not follows(starred, "**The end**")
    assert follows_loosely(starred, "**The end**")


@pytest.mark.parametrize(
    ("name", "settings", "expected"),
    [
        ("keywords:frequency", {"keyword": "a", "frequency": 1}, "needs keyword, frequency, relation"),
        ("keywords:frequency", {"keyword": "a", "frequency": "1", "relation": "at least"}, "not a whole number"),
        ("keywords:frequency", {"keyword": "a", "frequency": 1, "relation": "at most"}, "neither 'at least'"),
        ("keywords:existence", {"keywords": []}, "not a list of texts"),
        (
            "keywords:letter_frequency",
            {"letter": "ab", "let_frequency": 1, "let_relation": "at least"},
            "one character",
        ),
        ("language:response_language", {"language": "xx"}, "'xx' is none of"),
        ("punctuation:no_comma", {"commas": 0}, "needs nothing"),
        ("punctuation:no_comma", None, "needs nothing"),
        ("detectable_content:number_placeholders", {"num_placeholders": True}, "not a whole number"),
        ("startend:end_checker", {"end_phrase": "  "}, "not a text"),
    ],
)
def test_settings_that_say_nothing_are_refused(name: str, settings: Any, expected: str) -> None:
    with pytest.raises(BadRecipe, match=expected):
        make_check(name, settings, "line 1")


def test_settings_that_are_null_are_absent_and_numbers_of_tables_are_whole() -> None:
    # The Hub's Parquet gives every item every setting, null where it has none, and whole numbers as floats.
    check = make_check("detectable_content:number_placeholders", {"num_placeholders": 1.0, "keyword": None}, "here")
    assert check("[x]")


def test_sentences_words_and_capitals_are_counted_as_a_reader_does() -> None:
    assert count_sentences("It costs 3.50 at St. Mary's, i.e. nothing. Is it? Yes! “Fine.” Then we left...") == 5
    assert count_sentences("1. First point. 2. Second point.") in (2, 3)
    assert count_sentences("यह एक वाक्य है। यह दूसरा है।") == 2
    assert count_sentences("...") == 0
    assert count_words("one-two three_four 5") == 4
    assert count_capital_words("NASA's U.S.A. is A-OK, I say 42") == 3
    assert is_language("THE WEATHER IS COLD AND WET IN THE NORTH OF THE COUNTRY", "en")


def write_suite(folder: Path, *items: dict[str, Any], **task: Any) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "items.jsonl").write_text("".join(json.dumps(item) + "\n" for item in items))
    (folder / "follow.yaml").write_text(yaml.safe_dump({"kind": "instructions", "file": "items.jsonl", **task}))
    return folder


ITEM = {"key": 1, "prompt": "Say it without commas.", "instruction_id_list": ["punctuation:no_comma"], "kwargs": [{}]}


def test_a_suite_of_instructions_is_registered_and_its_prompts_are_kept_from_training(tmp_path: Path) -> None:
    store = open_store(str(tmp_path / "store"), create=True)
    folder = write_suite(tmp_path / "follow", ITEM, {**ITEM, "key": 2, "prompt": "Once more."})
    assert add_suite(store, folder, "follow.v1", "ann").items == 2
    (folder / "follow.yaml").rename(folder / "task.yaml")
    assert scored_texts(folder) == ["Say it without commas.", "Once more."]


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({"instruction_id_list": ["punctuation:no_comas"]}, "did you mean 'punctuation:no_comma'?"),
        ({"instruction_id_list": []}, "not two lists of one length"),
        ({"kwargs": []}, "not two lists of one length"),
        ({"kwargs": [{"num_words": 3}]}, "punctuation:no_comma needs nothing"),
        ({"prompt": " "}, "prompt is empty"),
        ({"key": None}, "no unique id"),
        ({"key": 7}, "no unique id"),
    ],
)
def test_items_that_cannot_be_checked_are_refused_with_their_line(
    tmp_path: Path, changes: dict[str, Any], expected: str
) -> None:
    folder = write_suite(tmp_path / "follow", {**ITEM, "key": 7}, {**ITEM, **changes})
    with pytest.raises(BadRecipe) as caught:
        add_suite(open_store(str(tmp_path / "store"), create=True), folder, "follow.v1", "ann")
    assert expected in str(caught.value)
    assert "line 2" in str(caught.value)


@pytest.mark.realdata
def test_all_items_of_the_real_benchmark_can_be_checked(tmp_path: Path) -> None:
    source = Path(os.environ["FT_REAL_DATA"]) / "ifeval" / "input_data.jsonl"
    folder = write_suite(tmp_path / "ifeval")
    (folder / "items.jsonl").write_bytes(source.read_bytes())
    assert add_suite(open_store(str(tmp_path / "store"), create=True), folder, "ifeval.v1", "ann").items == 541
