"""National and medical numbers are found where the policy asks for them and the library is there."""

import sys
from types import ModuleType, SimpleNamespace
from typing import get_args

import pyarrow as pa
import pytest

from ft_assets.settings.dataset.policy import DatasetPolicy, PersonalDataSettings, load_policy
from ft_assets.settings.dataset.recogniser import NationalId, RecogniserSettings
from ft_assets.workers.datasets.screening import national_ids
from ft_assets.workers.datasets.screening.personal import screen
from ft_resources.errors import BadRecipe, UserError

# Published examples, with right check digits.
EXAMPLES = [
    ("US_SSN", "social security number", "536-22-8726"),
    ("US_MBI", "Medicare number", "1EG4-TE5-MK73"),
    ("US_NPI", "national provider", "1234567893"),
    ("UK_NHS", "NHS", "943 476 5919"),
    ("UK_NINO", "national insurance", "AB 12 34 56 C"),
    ("ES_NIF", "NIF", "12345678Z"),
    ("IT_FISCAL_CODE", "codice fiscale", "RSSMRA85T10A562S"),
    ("PL_PESEL", "PESEL", "44051401359"),
    ("TR_NATIONAL_ID", "kimlik no", "10000000146"),
    ("FI_PERSONAL_IDENTITY_CODE", "hetu", "131052-308T"),
    ("CA_SIN", "social insurance", "130 692 544"),
    ("SG_NRIC_FIN", "NRIC", "S1234567D"),
    ("ZA_ID_NUMBER", "identity number", "8001015009087"),
]


def asking(*entities: NationalId, **settings: object) -> PersonalDataSettings:
    recogniser = RecogniserSettings(library="presidio", entities=entities or get_args(NationalId))
    return PersonalDataSettings(recogniser=recogniser, **settings)  # type: ignore[arg-type]


@pytest.fixture(autouse=True)
def _fresh() -> None:
    national_ids._recognisers.cache_clear()


@pytest.mark.statistics
def test_each_number_is_found_beside_its_name_and_scrubbed() -> None:
    pytest.importorskip("presidio_analyzer")
    for entity, word, value in EXAMPLES:
        text = f"é, her {word} is {value}."
        screened = screen(pa.array([text]), asking(entity, action="scrub"))  # type: ignore[arg-type]
        assert screened.texts.to_pylist() == [f"é, her {word} is <ID>."], entity


@pytest.mark.statistics
def test_words_prices_and_ids_of_other_kinds_are_no_national_numbers() -> None:
    pytest.importorskip("presidio_analyzer")
    texts = [
        "Peter Pan met Hamilton in 1,234,567 places",
        "order 46454286 of 2024-05-01 for 12345.67 USD",
        "id=9434765919",
    ]
    assert screen(pa.array(texts), asking()).findings.num_rows == 0


class _Digits:
    """A recogniser of nine digits, as presidio has them."""

    supported_entities = ("AU_TFN",)
    context = ("tax file number",)

    def analyze(self, text: str, entities: object, artifacts: object) -> list[SimpleNamespace]:
        at = text.find("876543210")
        explanation = SimpleNamespace(original_score=0.1)
        return [SimpleNamespace(start=at, end=at + 9, analysis_explanation=explanation)] if at >= 0 else []


def test_a_number_without_a_form_of_its_own_needs_a_word_beside_it(monkeypatch: pytest.MonkeyPatch) -> None:
    library = ModuleType("presidio_analyzer")
    library.PatternRecognizer = _Digits  # type: ignore[attr-defined]
    library.predefined_recognizers = SimpleNamespace(TaxNumber=type("TaxNumber", (_Digits,), {}))  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "presidio_analyzer", library)
    texts = ["é tax file number: 876543210", "é sold 876543210 of them", "no number"]
    findings = screen(pa.array(texts), asking("AU_TFN")).findings.to_pylist()
    assert findings == [{"index": 0, "type": "id", "start": 19, "end": 28}]


def test_an_environment_without_the_library_is_told_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "presidio_analyzer", None)
    with pytest.raises(UserError, match=r"ft-platform\[presidio\]"):
        screen(pa.array(["a 12 b"]), asking("US_SSN"))


def test_names_which_need_a_language_model_are_refused_by_name() -> None:
    with pytest.raises(BadRecipe, match="entities"):
        load_policy("personal_data: {recogniser: {library: presidio, entities: [PERSON]}}", "dataset.yaml")


def test_without_a_recogniser_nothing_changes_in_a_policy() -> None:
    assert "recogniser" not in DatasetPolicy().model_dump(mode="json")["personal_data"]
    assert PersonalDataSettings().searched == PersonalDataSettings().types
    assert asking("US_SSN", types=("ip",)).searched == ("ip", "id")


@pytest.mark.parametrize("between", [" ", "é\n", "12-1.9 "])
@pytest.mark.parametrize("length", [100, 5_000])
def test_long_texts_are_read_in_parts_which_find_what_the_whole_has(
    between: str, length: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of some of the patterns the time grows with the square of the text."""
    pytest.importorskip("presidio_analyzer")
    sentences = "".join(f"my {word} is {number} and {between * 7}" for _, word, number in EXAMPLES)
    text = (sentences * (length // len(sentences) + 1))[:length]
    entities, asked = get_args(NationalId), list[int]()
    found = list(national_ids.find_ids(text.encode(), entities))
    kept = national_ids._found
    monkeypatch.setattr(national_ids, "_found", lambda part, of: asked.append(len(part)) or kept(part, of))
    assert list(national_ids.find_ids(text.encode(), entities)) == found
    assert max(asked) < 1_500
    monkeypatch.setattr(national_ids, "_WINDOW", 1 << 30)
    assert sorted(found) == sorted(national_ids.find_ids(text.encode(), entities))
