"""Test items are found as people paste them, whatever stands around; what many items share gives none away."""

import random
import re
from pathlib import Path

import pyarrow as pa
import pytest

from ft_assets.workers.datasets.similarity.items import Found, ItemIndex
from ft_assets.workers.suites.asked import Asked

QUESTION = "A farmer has seventeen sheep and all but nine of them run away one night. How many are left?"
SHORT = "Which organ secretes insulin?"
LONGER = "What is the capital city of Burkina Faso?"
STEM = "Which of the following is true?"
ITEMS = [
    Asked.of(QUESTION, ["twelve", "nine sheep", "eleven", "none of them"]),
    Asked.of(SHORT, ["the liver", "the pancreas", "the spleen", "the gall bladder"]),
    Asked.of(LONGER, ["Ouagadougou", "Bamako", "Niamey", "Accra"]),
    *(Asked.of(STEM, [f"statement {n} of the {word}", f"claim {n}", f"lemma {n}"]) for n, word in enumerate("abcdef")),
]
PROSE = " ".join(random.Random(0).choices([f"w{n}o" for n in range(900)], k=300))


@pytest.fixture
def index(tmp_path: Path) -> ItemIndex:
    return ItemIndex.build([("sums", ITEMS[:1]), ("facts", ITEMS[1:])], tmp_path / "i")


def whole(index: ItemIndex, *texts: str) -> list[bool]:
    return (index.find(pa.array(texts)).whole > 0).tolist()


def pasted(item: Asked, style: str = "{l}) {}") -> str:
    choices = reversed(list(enumerate(item.choices)))
    return "\n".join([item.questions[0], *(style.format(text, l="ABCD"[n]) for n, text in choices)])


@pytest.mark.parametrize("number", [0, 1, 2])
def test_a_question_is_found_alone_with_choices_in_any_order_and_with_its_answer(index: ItemIndex, number: int) -> None:
    item = ITEMS[number]
    dressed = [pasted(item, style) for style in ("{}", "{l}. {}", "({l}) {}", "{l}) {}")]
    dressed += [" ".join([item.questions[0].rstrip("?"), *item.choices]), f"{pasted(item)}\nSo it is."]
    texts = [
        item.questions[0],
        *dressed,
        f"{item.questions[0]}\n{item.choices[1]}",
        f"{item.questions[0]}\nI think so.",
    ]
    found = index.find(pa.array(texts))
    assert (found.whole > 0).all()
    assert found.item.tolist() == [number] * len(texts)
    assert found.choices.tolist() == [0, 4, 4, 4, 4, 4, 4, 1, 0]


@pytest.mark.parametrize("number", [0, 2])
def test_a_question_is_found_inside_a_long_document(index: ItemIndex, number: int) -> None:
    words = (PROSE + " ").split()
    for at in (1, 150, 299):
        around = [*words[:at], "\n" + ITEMS[number].questions[0] + "\n", *words[at:]]
        assert whole(index, " ".join(around), " ".join([*words * 8, *around, *words * 8])) == [True, True]


def test_halves_of_a_question_far_from_each_other_are_no_item(index: ItemIndex) -> None:
    first, second = QUESTION.split(" of them ")
    assert whole(index, f"{first} of them {PROSE} {second}", f"{first} of them {(PROSE + ' ') * 8} {second}") == [
        True,
        False,
    ]


def test_what_many_items_ask_gives_an_item_away_only_beside_its_choices(index: ItemIndex) -> None:
    item = ITEMS[4]
    assert whole(index, STEM, f"{STEM} claim 1", pasted(item), f"{STEM} {item.choices[0]}") == [
        False,
        False,
        True,
        True,
    ]
    assert index.find(pa.array([pasted(item)])).item.tolist() == [4]


def test_a_question_of_a_few_words_must_be_what_a_row_begins_with_or_be_answered(index: ItemIndex) -> None:
    inside = f"He looked up. {SHORT} she asked. {PROSE}"
    assert whole(index, f"Question: {SHORT}", f"Hello! {SHORT}") == [True, False]
    answered = f"{inside} The pancreas, of course."
    assert whole(index, SHORT, f"{SHORT}\nI see.", inside, answered) == [True, True, False, True]


def test_a_question_of_four_words_is_found_on_a_line_of_its_own_and_one_of_three_is_not(tmp_path: Path) -> None:
    index = ItemIndex.build(
        [("x", [Asked.of("Where does rain form?", ["up"]), Asked.of("Is it so?", ["no"])])], tmp_path / "i"
    )
    texts = [f"{PROSE}\n{{}}\n{PROSE}".format(question) for question in ("Where does rain form?", "Is it so?")]
    assert whole(index, *texts, texts[0].replace("\n", " ")) == [True, False, False]


def test_part_of_a_question_is_not_the_question(index: ItemIndex) -> None:
    words = QUESTION.split()
    assert whole(index, " ".join(words[:12]), " ".join(words[6:]), LONGER.rsplit(" ", 1)[0]) == [False] * 3
    assert index.find(pa.array([" ".join(words[:12])])).item.tolist() == [0]


def test_a_folded_dress_changes_nothing(index: ItemIndex) -> None:
    bold = re.sub(r"\S+", lambda word: f"<b>{word.group()}</b>", pasted(ITEMS[0]))
    hidden = "\u200b".join(QUESTION)
    assert whole(index, bold, hidden, QUESTION.replace("e", "е").upper()) == [True] * 3


def test_items_are_named_by_suite_and_number_and_shown(index: ItemIndex, tmp_path: Path) -> None:
    again = ItemIndex.open(tmp_path / "i")
    assert again.suites == ("sums", "facts")
    assert [again.place(item) for item in (0, 1, 8)] == [(0, 1), (1, 1), (1, 8)]
    assert again.text(2) == "\n".join([LONGER, *ITEMS[2].choices])
    assert again.choices(1) == 4


def test_blocks_change_nothing(index: ItemIndex) -> None:
    texts = [QUESTION, PROSE, LONGER, "", SHORT] * 500
    found = index.find(pa.array(texts))
    assert found.whole.tolist() == index.find(pa.array(texts[:5])).whole.tolist() * 500
    assert isinstance(found, Found)
    assert len(index.find(pa.array([], pa.string())).whole) == 0


def test_an_index_of_nothing_finds_nothing(tmp_path: Path) -> None:
    assert whole(ItemIndex.build([], tmp_path / "e"), QUESTION) == [False]
    assert whole(ItemIndex.build([("x", [Asked.of("", [])])], tmp_path / "f"), QUESTION) == [False]
