"""Languages of a sample."""

import pyarrow as pa
import pytest

from ft_assets.workers.datasets.quality.language import by_count, detect_languages

pytest.importorskip("py3langid")

SENTENCES = {
    "en": "The committee will meet again next week to discuss the budget for schools.",
    "de": "Der Ausschuss trifft sich nächste Woche erneut, um über den Haushalt zu sprechen.",
    "fr": "Le comité se réunira de nouveau la semaine prochaine pour discuter du budget.",
    "es": "El comité se reunirá de nuevo la próxima semana para hablar del presupuesto.",
    "ru": "Комитет снова соберётся на следующей неделе, чтобы обсудить бюджет школ.",
    "ar": "ستجتمع اللجنة مرة أخرى الأسبوع المقبل لمناقشة ميزانية المدارس في المدينة.",
    "zh": "委员会将于下周再次开会讨论学校的预算问题，并听取各方代表的意见和建议。",
    "ja": "委員会は来週もう一度集まり、学校の予算について話し合う予定になっています。",
}


def test_languages_of_plain_sentences_are_recognised() -> None:
    assert detect_languages(pa.array(list(SENTENCES.values()))) == list(SENTENCES)


@pytest.mark.parametrize("text", ["", "42", "Yes.", "1 + 2 = 3; 4 * 5 = 20; 6 / 7", "🙂🙂🙂"])
def test_a_text_that_says_too_little_is_undetermined(text: str) -> None:
    assert detect_languages(pa.array([text])) == ["und"]


def test_counts_come_with_the_most_frequent_first_and_equals_by_name() -> None:
    texts = pa.array([SENTENCES["fr"], SENTENCES["de"], SENTENCES["en"], SENTENCES["en"], "no"])
    counts = by_count(detect_languages(texts))
    assert list(counts.items()) == [("en", 2), ("de", 1), ("fr", 1), ("und", 1)]
