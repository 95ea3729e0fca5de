"""Items that two suites share are found by their distinctive text; instructions do not count."""

from ft_assets.workers.suites.overlap import all_texts, shared_items


def questions(*numbers: int) -> list[list[str]]:
    return [
        ["Answer with one word.", f"What is {number} plus {number}?", str(2 * number), "even"] for number in numbers
    ]


def texts(items: list[list[str]]) -> list[str]:
    return [text for item in items for text in item]


def test_shared_items_are_named_by_their_number_whatever_capitals_and_blanks_they_have() -> None:
    theirs = [text.upper().replace(" ", "  ") for text in texts(questions(7, 2))]
    assert shared_items(questions(*range(1, 9)), theirs) == [2, 7]


def test_instructions_names_and_short_answers_that_suites_have_in_common_are_no_shared_items() -> None:
    assert shared_items(questions(*range(1, 21)), texts(questions(*range(21, 41)))) == []


def test_an_item_whose_texts_all_stand_in_others_too_is_told_by_none() -> None:
    assert shared_items([["same"], ["same"], ["of its own"]], ["same", "of its own"]) == [3]
    assert shared_items([], ["anything"]) == []
    assert shared_items([[]], [""]) == []


def test_texts_are_found_wherever_they_stand_in_a_row() -> None:
    row = {"messages": [{"role": "user", "content": "a"}, {"content": ["b", {"c": "d"}]}], "row": 3, "text": ""}
    assert list(all_texts(row)) == ["user", "a", "b", "d", ""]
