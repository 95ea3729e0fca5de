"""What a reader takes for the same text folds to the same words, and other scripts keep theirs."""

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ft_assets.workers.datasets.similarity.folded import bare_texts, fold_texts
from ft_assets.workers.datasets.similarity.folding import BREAK, LINE
from ft_assets.workers.datasets.similarity.ngrams import composed

PLAIN = "Which organ secretes insulin, and why?"


def folded_text(text: str) -> str:
    found = fold_texts(pa.array([text], pa.large_string()))
    return found.data[: found.offsets[1]].tobytes().decode()


@pytest.mark.parametrize(
    "dressed",
    [
        "WHICH ORGAN SECRETES INSULIN AND WHY",
        "**Which** __organ__ *secretes* `insulin`, ~~and~~ ***why***?",
        "Wh**ich** or<b>gan</b> secre_tes_ insulin, and why?",
        "<p>Which organ</p><br/><span style='color: red'>secretes</span> insulin,<!-- and not --> and <em>why</em>?",
        "Which [organ](https://a.example/b?c=d) secretes insulin, and why?",
        "&#87;hich&nbsp;organ secretes &#x69;nsulin, and why?",
        "W\u200bhi\u200cch or\u00adgan se\ufeffcre\u2060tes ins\u200dulin, and\u00a0why?",
        "Ｗｈｉｃｈ　ｏｒｇａｎ　ｓｅｃｒｅｔｅｓ　ｉｎｓｕｌｉｎ，　ａｎｄ　ｗｈｙ？",
        "𝐖𝐡𝐢𝐜𝐡 𝓸𝓻𝓰𝓪𝓷 𝚜𝚎𝚌𝚛𝚎𝚝𝚎𝚜 ⓘⓝⓢⓤⓛⓘⓝ, 𝖺𝗇𝖽 𝘸𝘩𝘺?",
        "Whісh оrgаn sеcrеtеs іnsulіn, аnd whу?",
        "Wh1ch 0rgan secretes lnsulln, and why?",
        "Whi̲ch o̲rgan sé̂crètes ı̇nsulin, and why?",
    ],
)
def test_a_dressed_text_folds_to_the_words_of_the_plain_one(dressed: str) -> None:
    assert folded_text(composed([dressed])[0].as_py()) == folded_text(PLAIN) == "whlch organ secretes lnsulln and why"


@pytest.mark.parametrize(
    "dressed",
    [
        "DON'T STOP: it's well-known, he said",
        "Dont stop its wellknown he said",
        "Don’t\u00a0stop – its *well-known*, he said!",
    ],
)
def test_near_duplicates_are_compared_without_blanks_and_punctuation(dressed: str) -> None:
    assert bare_texts(composed([dressed])).to_pylist() == ["dontstopltswellknownhesald"]


def test_signs_and_numbers_that_make_another_task_stay_in_what_near_duplicates_are_compared_by() -> None:
    sums = ["3 + 4", "3 = 4", "3 * 4", "3 < 4", "3 / 4", "34", "3 4", "3, 45", "34, 5"]
    tasks = [*sums, "$3", "3 %", "C#", "C++", "C", "😀", "€"]
    assert len(set(bare_texts(composed(tasks)).to_pylist())) == len(tasks)


def test_words_that_differ_in_an_accent_are_no_copies() -> None:
    words = ["ma", "má", "mà", "mả", "mã", "mạ", "mậ", "mÄ", "mā"]
    assert len(set(bare_texts(composed(words)).to_pylist())) == len(words)


def test_signs_of_mathematics_and_names_in_brackets_are_no_markup() -> None:
    assert folded_text("if a <b and c> d then 2*3 is 2 * 3") == "lf a b and c d then 2 3 ls 2 3"
    assert folded_text("write to <EMAIL> & go") == "wrlte to emall go"


@pytest.mark.parametrize("text", ["Сколько будет дважды два, ещё раз?", "ΠΟΙΑ ΕΙΝΑΙ Η ΠΟΛΗ", "Straße", "ＣＡＦÉ"])
def test_capitals_of_any_script_fold_to_their_small_letters(text: str) -> None:
    # Greek's capital N and small v look like other letters of Latin: their words are not compared here.
    kept = text.replace("Ν", "").replace("Η", "").replace("Υ", "")
    assert folded_text(kept) == folded_text(kept.lower())


def test_words_of_other_scripts_stay_apart() -> None:
    assert (
        len({folded_text(word) for word in ("два", "три", "кот", "код", "ἀγορά", "שלום", "سلام", "नमस्ते", "ไทย")}) == 9
    )
    found = fold_texts(composed(["中文 abc かな"]))
    assert len(found.words) == 5


def test_where_a_sentence_or_a_line_ends_is_known() -> None:
    found = fold_texts(composed(["Is it so? No,\nnot (here) now", "<p>One</p><p>two</p>"]))
    assert found.breaks.tolist() == [LINE, 0, 0, BREAK, LINE, BREAK, BREAK, LINE, LINE]
    assert found.starts.tolist() == [0, 7, 9]


@given(st.text(st.characters(max_codepoint=127, exclude_characters="*_`~<&]"), max_size=200))
def test_plain_ascii_folds_the_same_on_its_quick_path(text: str) -> None:
    quick, slow = fold_texts(composed([text])), fold_texts(composed([f"\u200b{text}"]))
    assert quick.data.tobytes() == slow.data.tobytes()
    assert (quick.words.tolist(), quick.breaks.tolist()) == (slow.words.tolist(), slow.breaks.tolist())


@given(st.text(st.sampled_from("aZ i10399 \n.,+-='$#"), max_size=60))
def test_plain_ascii_is_compared_the_same_on_its_quick_path(text: str) -> None:
    assert len(set(bare_texts(composed([text, f"\u200b{text}"])).to_pylist())) == 1


@given(st.lists(st.text(max_size=60), max_size=6))
def test_any_text_folds_to_text_whose_words_are_those_of_each_alone(texts: list[str]) -> None:
    together = fold_texts(composed(texts))
    alone = [fold_texts(composed([text])) for text in texts]
    assert together.words.tolist() == [word for each in alone for word in each.words.tolist()]
    assert together.data[: together.offsets[-1]].tobytes().decode() == "".join(
        map(folded_text, composed(texts).to_pylist())
    )
