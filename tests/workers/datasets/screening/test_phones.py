"""Phone numbers are found where nobody said of which country they are, and other numbers are left alone."""

import pytest

from benchmarks.phone_locales import SENTENCES, found_in, ordinary_numbers, recall
from ft_assets.settings.dataset.policy import PersonalDataSettings, load_policy

# Seeds that nothing was tuned on.
SEEDS = (101, pytest.param(2027, marks=pytest.mark.long))


def phones(text: str, region: str = "auto") -> set[str]:
    return found_in([text], region).get(0, set())


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.statistics
def test_of_the_numbers_of_thirty_countries_nine_in_ten_are_found_without_naming_one(seed: int) -> None:
    assert len(SENTENCES) == 30
    found = recall(seed)
    assert found.all >= 0.95, {region: share for region, share in found.of.items() if share < 0.9}
    assert recall(seed, known=True).all >= 0.99


@pytest.mark.parametrize("seed", SEEDS)
def test_prices_ids_dates_and_code_are_not_taken_for_phone_numbers(seed: int) -> None:
    texts = list(ordinary_numbers(seed))
    wrong = found_in(texts)
    assert len(wrong) <= 0.005 * len(texts), [texts[at] for at in wrong][:5]


def test_the_language_of_a_row_says_of_which_country_its_numbers_are() -> None:
    number = "612 34 56 78"
    assert phones(f"Juan García vive en la calle Mayor de la ciudad, {number}") == {"612345678"}
    assert phones(f"The committee counted these four in that order: {number}") == set()


def test_a_country_code_in_a_row_says_of_which_country_its_other_numbers_are() -> None:
    assert phones("A 512 345 678, B +48 601 234 567") == {"512345678", "48601234567"}
    assert phones("A 512 345 678, B 601 234 567") == set()


@pytest.mark.parametrize(
    "text",
    ["(3549/2007)", "3000-2350 BC", "formatCurrency(1234.5678)", "1.234.567 and 12.345.678", "part 0828-676-23"],
)
def test_spans_of_years_laws_decimals_and_part_numbers_have_no_country(text: str) -> None:
    assert phones(f"As the second chapter of this book says, {text}, and nothing else.") == set()


@pytest.mark.parametrize("region", ["auto", "US"])
@pytest.mark.parametrize(
    "figures",
    [
        *("250 300 1000", "250  300 1000", "250\t300\t1000", "256 512 1024", "512 768 1024", "480 640 1080"),
        *("250/300/1000", "1 250 300 1000", "310 4152024", "212 555 2368 4097", "415 230 415 2309 212 555"),
    ],
)
def test_figures_in_a_row_are_no_phone_number(figures: str, region: str) -> None:
    for text in (f"The sizes are {figures}.", figures, f"{figures} are the sizes that we sell in these shops."):
        assert phones(text, region) == set()


@pytest.mark.parametrize(
    "text",
    [
        "Vi har valgt størrelserne 20 30 40 50 til de her billeder, og det er fint.",
        "Vi har målt dem alle sammen i dag: 21 22 23 24 er de rigtige tal til det her.",
        "Vi har målt dem alle sammen i dag: 21 27 24 29 31 26 er de rigtige tal til det her.",
        "Liczby, które trzeba wpisać do tabeli w tym wierszu, to 500 600 700, i nic więcej.",
        "Os tamanhos que temos na loja para esta semana são 910 920 930 e nada mais.",
    ],
)
def test_figures_in_a_row_are_no_phone_number_where_phone_numbers_are_written_like_them(text: str) -> None:
    assert phones(text) == set()


@pytest.mark.parametrize("number", ["250-300-1000", "(250) 300-1000", "250.300.1000", "+1 250 300 1000"])
def test_the_same_digits_written_as_a_phone_number_or_said_to_be_one_are_one(number: str) -> None:
    assert {found[-10:] for found in phones(f"Ask for them at {number}.")} == {"2503001000"}
    assert phones("Phone: 250 300 1000") == {"2503001000"}


def test_a_zero_in_brackets_belongs_to_an_international_number() -> None:
    assert phones("+49 (0) 30 901820") == {"49030901820"}


def test_a_policy_that_names_a_country_stays_valid_and_keeps_its_meaning() -> None:
    assert load_policy("personal_data: {phone_region: US}", "dataset.yaml").personal_data.phone_region == "US"
    assert PersonalDataSettings().phone_region == "auto"
    assert phones("Juan García vive en la calle Mayor de la ciudad, 612 34 56 78", "US") == set()
