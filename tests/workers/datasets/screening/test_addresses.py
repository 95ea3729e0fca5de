"""Addresses of all scripts, addresses in words, and IPv6 are found; what only resembles them is not."""

import random
from ipaddress import IPv6Address

import pyarrow as pa
import pytest

from ft_assets.settings.dataset.policy import PersonalDataSettings
from ft_assets.workers.datasets.screening.personal import screen


def found(text: str) -> list[str]:
    findings = screen(pa.array([text]), PersonalDataSettings(types=("email", "ip"))).findings.to_pylist()
    return [text[each["start"] : each["end"]] for each in findings]


@pytest.mark.parametrize(
    "address",
    [
        "用户@例子.公司",
        "用户@example.com",
        "info@例子.中国",
        "홍길동@예시.한국",
        "उपयोगकर्ता@उदाहरण.कॉम",
        "משתמש@דוגמה.ישראל",
        "مستخدم@مثال.مصر",
        "δοκιμή@παράδειγμα.ελ",
        "пётр@почта.рус",
        "josé.núñez@correo.es",
        "dörte@xn--srensen-90a.example.com",
    ],
)
def test_addresses_of_other_scripts_are_found_whole(address: str) -> None:
    for around in ("{}", "({})", "a {} b", "“{}”, x"):
        assert found(around.format(address)) == [address]


@pytest.mark.parametrize("at", [" [at] ", "(at)", " at ", "_at_", "{AT}", " [ at ] ", "<at>"])
def test_an_address_in_words_is_found_whole(at: str) -> None:
    for dot in (" [dot] ", "(dot)", " dot ", "_dot_", "{DOT}"):
        address = f"john.doe{at}example{dot}com"
        assert found(f"Write to me: {address}, please.") == [address]


@pytest.mark.parametrize("address", ["john [at] example.com", "john (at) mail.example.co.uk", "john&#64;example.com"])
def test_an_address_is_found_where_only_its_at_sign_is_masked(address: str) -> None:
    assert found(f"Mail {address} or call.") == [address]


@pytest.mark.parametrize(
    "text",
    [
        "we look at the dot matrix",
        "we met at noon dot dot dot",
        "take the point at position dot product of both",
        "items[at] = table.com",
        "in the file (at) and {dot}",
        "look at example.com",
    ],
)
def test_sentences_and_code_with_at_and_dot_are_no_addresses(text: str) -> None:
    assert found(text) == []


@pytest.mark.parametrize("seed", [101, pytest.param(2027, marks=pytest.mark.long)])
def test_ipv6_addresses_are_found_in_each_of_their_forms(seed: int) -> None:
    draw = random.Random(seed)
    for _ in range(200):
        address = IPv6Address((0x2000 << 112) | draw.getrandbits(124) & ~(draw.getrandbits(1) * ((1 << 80) - 1 << 16)))
        for form in (address.compressed, address.exploded, address.compressed.upper()):
            assert found(f"the host [{form}]:443 and {form}.") == [form, form]
