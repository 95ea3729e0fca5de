"""Recall of phone numbers of thirty countries whose region nobody names, and precision on ordinary numbers.

Numbers are drawn from a seed: valid by libphonenumber, and written in the country's own way, with its country code in
one of four. Each stands in three sentences of the country's language: after a word for a phone, in a phrase such as
"you reach me at", and in an address without any cue. A number counts as found where the finding covers all its digits.
"""

import random
from collections.abc import Iterator
from typing import NamedTuple

import pyarrow as pa

from benchmarks.table import Figure, goal_figure
from ft_assets.settings.dataset.policy import PersonalDataSettings
from ft_assets.workers.datasets.screening.personal import screen

# By country: after a word, in a phrase, without a cue.
SENTENCES = {
    "US": ("Phone: {}", "If anything goes wrong tonight I am at {}.", "Mary Jones, 12 Oak Street, Denver, {}"),
    "GB": ("Tel. {}", "The workshop is open until six, try {} first.", "Mary Jones, 12 High Street, Leeds, {}"),
    "AU": ("Mobile {}", "We deliver to the whole city, order on {}.", "Mary Jones, 12 Beach Road, Perth, {}"),
    "DE": ("Telefon: {}", "Bei Fragen erreichen Sie mich unter {}.", "Anna Schmidt wohnt in der Hauptstraße, {}"),
    "AT": ("Tel.: {}", "Bitte melden Sie sich vorher unter {} an.", "Familie Gruber aus der Ringstraße in Graz, {}"),
    "CH": ("Telefonnummer {}", "Sie können das Zimmer unter {} bestellen.", "Urs Keller an der Bahnhofstrasse, {}"),
    "FR": ("Tél. : {}", "Vous pouvez me joindre au {} après six heures.", "Jean Martin, 5 rue de la Gare, Lyon, {}"),
    "BE": ("Téléphone {}", "Pour une réservation, faites le {} le matin.", "Marie Dubois, rue Haute, Namur, {}"),
    "ES": ("Teléfono: {}", "Puede hablar conmigo en el {} por la tarde.", "Juan García vive en la calle Mayor, {}"),
    "MX": ("Celular {}", "Para pedir una pizza hay que marcar el {}.", "Luis Hernández, avenida Juárez, Puebla, {}"),
    "IT": ("Cellulare: {}", "Per prenotare un tavolo basta fare il {}.", "Paolo Rossi abita in via Garibaldi, {}"),
    "PT": (
        "Telemóvel: {}",
        "Pode falar comigo pelo {} durante a tarde.",
        "João Silva mora na rua Direita em Braga, {}",
    ),
    "BR": ("Telefone {}", "Fale com a gente no {} se tiver dúvida.", "Ana Souza mora na rua das Flores em Recife, {}"),
    "NL": ("Telefoon: {}", "U kunt ons bereiken op {} tijdens de week.", "Jan de Vries woont in de Kerkstraat, {}"),
    "PL": ("tel. {}", "Jestem dostępny pod {} po godzinie szesnastej.", "Jan Kowalski mieszka przy ulicy Długiej, {}"),
    "CZ": ("Telefon {}", "Ozvěte se prosím na {} po šesté hodině.", "Jan Novák bydlí v ulici Dlouhá, {}"),
    "SE": ("Telefon: {}", "Du kan nå mig på {} efter klockan sex.", "Anna Svensson bor på Storgatan i Lund, {}"),
    "DK": ("Tlf. {}", "Du kan fange mig på {} efter klokken seks.", "Anne Jensen bor på Vestergade i Odense, {}"),
    "NO": ("Mobil: {}", "Du kan nå meg på {} etter klokken seks.", "Kari Hansen bor i Storgata i Bergen, {}"),
    "FI": ("Puh. {}", "Minut saa kiinni numerosta {} illalla.", "Matti Virtanen asuu kadulla Tampereella, {}"),
    "HU": ("Telefonszám: {}", "Este hat után a {} számon érhet el.", "Kovács Anna lakik a Fő utcában, {}"),
    "RO": ("Telefon: {}", "Mă puteți găsi la {} după ora șase.", "Ion Popescu locuiește pe strada Lungă, {}"),
    "GR": ("Τηλ.: {}", "Μπορείτε να με βρείτε στο {} το βράδυ.", "Νίκος Παπαδόπουλος, οδός Ερμού, {}"),
    "TR": (
        "Telefon: {}",
        "Akşam altıdan sonra bana {} üzerinden ulaşın.",
        "Ayşe Yılmaz Atatürk caddesinde oturuyor, {}",
    ),
    "RU": ("Тел. {}", "Вечером со мной можно связаться по {}.", "Иван Иванов живёт на улице Ленина, {}"),
    "UA": ("Телефон: {}", "Увечері зі мною можна зв'язатися за {}.", "Олена Шевченко живе у Львові, {}"),
    "JP": ("電話番号：{}", "夕方以降は{}までご連絡ください。", "田中太郎さん、大阪市北区 {}"),
    "KR": ("전화: {}", "저녁에는 {} 으로 연락해 주세요.", "김철수, 서울 강남구 {}"),
    "CN": ("电话：{}", "晚上六点以后请联系 {}。", "王小明，北京市朝阳区 {}"),
    "IN": ("फ़ोन: {}", "आप शाम को मुझसे {} पर बात कर सकते हैं।", "राम शर्मा, जयपुर, {}"),
}
_SEED = 7
_EACH = 24


class Recall(NamedTuple):
    """Share of the numbers found, of all and for each country."""

    all: float
    of: dict[str, float]


def figures() -> list[Figure]:
    """Recall with the default policy and with each country named, and what is wrongly found in ordinary numbers."""
    ordinary = list(ordinary_numbers(_SEED))
    right = 1 - len(found_in(ordinary)) / len(ordinary)
    unknown, known = recall(_SEED), recall(_SEED, known=True)
    what = "phone numbers of 30 countries, none named: recall"
    return [
        goal_figure("phone_recall_unknown_region", what, unknown.all, 0.9),
        goal_figure("phone_recall_known_region", "  each country named: recall", known.all, None),
        goal_figure("phone_ordinary_right", f"  {len(ordinary):,} texts with other numbers, without one", right, 0.99),
    ]


def recall(seed: int, *, known: bool = False) -> Recall:
    """How many of 24 numbers of each country are found; with ``known``, the policy names the country."""
    shares = {}
    for place, (region, sentences) in enumerate(SENTENCES.items()):
        numbers = list(_numbers(region, random.Random(seed * 1000 + place)))
        texts = [sentences[at % 3].format(number) for at, number in enumerate(numbers)]
        found = found_in(texts, region if known else "auto")
        shares[region] = sum(_digits(number) in found.get(at, ()) for at, number in enumerate(numbers)) / _EACH
    return Recall(sum(shares.values()) / len(shares), shares)


def found_in(texts: list[str], region: str = "auto") -> dict[int, set[str]]:
    """The digits of what is found, by text."""
    settings = PersonalDataSettings(types=("phone",), phone_region=region)
    found: dict[int, set[str]] = {}
    for each in screen(pa.array(texts, pa.string()), settings).findings.to_pylist():
        found.setdefault(each["index"], set()).add(_digits(texts[each["index"]][each["start"] : each["end"]]))
    return found


def _digits(text: str) -> str:
    return "".join(letter for letter in text if letter.isdigit())


def _numbers(region: str, draw: random.Random) -> Iterator[str]:
    """Valid fixed and mobile numbers of ``region``, each as people there write it."""
    import phonenumbers
    from phonenumbers import PhoneNumberFormat, PhoneNumberType

    for at in range(_EACH):
        kind = PhoneNumberType.MOBILE if at % 2 else PhoneNumberType.FIXED_LINE
        example = phonenumbers.example_number_for_type(region, kind)
        assert example is not None
        digits = phonenumbers.national_significant_number(example)
        number = None
        while number is None or not phonenumbers.is_valid_number_for_region(number, region):
            drawn = digits[:2] + "".join(str(draw.randrange(10)) for _ in digits[2:])
            number = phonenumbers.parse(f"+{example.country_code}{drawn}")
        abroad = (at // 3) % 4 == 3
        yield phonenumbers.format_number(
            number, PhoneNumberFormat.INTERNATIONAL if abroad else PhoneNumberFormat.NATIONAL
        )


def ordinary_numbers(seed: int) -> Iterator[str]:
    """Sentences with prices, amounts, ids, dates, times, coordinates, versions and code in several languages."""
    draw = random.Random(seed)

    def n(count: int) -> str:
        return str(draw.randrange(1, 10)) + "".join(str(draw.randrange(10)) for _ in range(count - 1))

    for _ in range(100):
        day, month, year = draw.randrange(1, 29), draw.randrange(1, 13), draw.randrange(1900, 2030)
        hour, minute = draw.randrange(24), draw.randrange(60)
        yield f"The order {n(8)} was paid with {n(3)},{n(3)}.{n(2)} USD on {month}/{day}/{year}."
        yield f"Die Rechnung {n(4)}-{n(6)} vom {day:02}.{month:02}.{year} beträgt {n(2)}.{n(3)},{n(2)} Euro."
        yield f"Le budget de la ville est de {n(3)} {n(3)} {n(3)} euros pour {n(2)} {n(3)} habitants."
        yield f"Miasto ma {n(3)} {n(3)} mieszkańców, a budżet wynosi {n(3)} {n(3)} {n(3)} zł."
        yield f"El precio es {n(1)}.{n(3)}.{n(3)} pesos y el expediente es {n(4)}/{year}."
        yield f"O pedido {n(10)} custa {n(1)}.{n(3)},{n(2)} reais e foi feito em {day:02}/{month:02}/{year}."
        yield f"Staden har {n(3)} {n(3)} invånare och bildades {year}-{month:02}-{day:02}."
        yield f"Бюджет города {n(3)} {n(3)} {n(3)} рублей, договор {n(5)}/{year}."
        yield f"注文番号は{n(8)}で、金額は{n(3)},{n(3)}円です。"
        yield f"订单号 {n(15)}，时间 {year}-{month:02}-{day:02} {hour:02}:{minute:02}。"
        yield f"x = [{n(3)}, {n(4)}, {n(2)}]; y = {n(7)} + 0x{n(8)}; total = {n(9)}"
        yield f"at {draw.uniform(-90, 90):.6f}, {draw.uniform(-180, 180):.6f} with id={n(10)} and seed {n(9)}"
        yield f"log {year}{month:02}{day:02}{n(6)} took {n(4)}.{n(3)} ms, offset {n(10)}, size {n(7)} bytes"
        yield f"ISBN 978-{n(1)}-{n(3)}-{n(5)}-{n(1)}, pages {n(3)}-{n(3)}, {year}-{year + 3}"
        yield f"Chapter {n(1)}.{n(2)}, table {n(2)}-{n(2)}: {n(3)} {n(3)} {n(2)} {n(3)} rows"
        yield f"The parcel 00{n(18)} weighs {n(4)} g, part 0{n(3)}-{n(3)}-{n(2)}, batch {n(5)}-{n(4)}"
