"""The countries whose phone numbers a text may hold, when the policy names none."""

import re
from functools import cached_property, lru_cache

from ft_assets.workers.datasets.quality.language import detect_language

AUTO = "auto"
# The countries where most speakers of a language live, most speakers first (CLDR's territories and languages).
_BY_LANGUAGE = {
    language: tuple(regions.split())
    for language, regions in re.findall(
        r"(\w+): ([A-Z ]+)[;.]",
        "en: US GB AU IN CA IE NZ ZA SG PH NG KE HK; de: DE AT CH LU; fr: FR BE CH CA LU MA SN CI; af: ZA; ca: ES; "
        "es: ES MX AR CO CL PE VE EC UY; pt: BR PT AO MZ; gl: ES; eu: ES FR; it: IT CH; ro: RO MD; nl: NL BE; mt: MT; "
        "sv: SE FI NO DK; da: DK NO; no: NO DK; nb: NO DK; nn: NO DK; fi: FI; is: IS; et: EE; lv: LV; lt: LT; ga: IE; "
        "sq: AL XK; pl: PL; cs: CZ; sk: SK; sl: SI; hr: HR BA; bs: BA HR RS; sr: RS BA ME; bg: BG; mk: MK; "
        "ru: RU KZ BY; uk: UA; be: BY; hu: HU; el: GR CY; tr: TR CY; az: AZ; kk: KZ RU; ka: GE; hy: AM; he: IL; "
        "fa: IR AF; ur: PK IN; ar: SA EG AE MA DZ IQ JO KW QA TN LB; hi: IN; bn: BD IN; ta: IN LK; te: IN; mr: IN; "
        "gu: IN; pa: IN PK; kn: IN; ml: IN; ne: NP; si: LK; th: TH; vi: VN; km: KH; id: ID MY; ms: MY SG; tl: PH; "
        "sw: KE TZ; ja: JP; ko: KR; zh: CN TW HK SG.",
    )
}
ALL = tuple(dict.fromkeys(region for regions in _BY_LANGUAGE.values() for region in regions))
# Everywhere, as software writes most of its examples so.
_ALWAYS = ("US",)
# Kana before Chinese characters, which Japanese has too. Short texts have too few letters for a guess by words.
_BY_SCRIPT = tuple(
    (re.compile(f"[{first}-{last}]"), language)
    for first, last, language in (
        ("\u3041", "\u30ff", "ja"),
        ("\uac00", "\ud7a3", "ko"),
        ("\u4e00", "\u9fff", "zh"),
        ("\u0e00", "\u0e7f", "th"),
        ("\u05d0", "\u05ea", "he"),
        ("\u0391", "\u03c9", "el"),
        ("\u0904", "\u0939", "hi"),
        ("\u10d0", "\u10fa", "ka"),
    )
)
_IN_DOUBT = (
    (re.compile("[\u0410-\u044f]"), ("RU", "UA", "BG", "KZ", "BY", "RS")),
    (re.compile("[\u0621-\u064a]"), ("SA", "EG", "AE", "IR", "IQ", "MA")),
)
_LOOKED_AT = 4096
# A wrong guess costs little, as a number must still be valid and written as in the country.
_LEAST_PROBABILITY = 0.2
_COUNTRY_CODE = re.compile(rb"(?:\+|\b00)[ (]?([1-9][0-9]{0,2})")


class Regions:
    """Countries whose numbers the text ``raw`` may hold: ``setting``, or by its language and its country codes."""

    def __init__(self, raw: bytes, setting: str) -> None:
        self._raw, self._setting = raw, setting

    @property
    def inferred(self) -> bool:
        return self._setting == AUTO

    @cached_property
    def likely(self) -> tuple[str, ...]:
        """The countries, without repetition: those of country codes in the text before those of its language."""
        if not self.inferred:
            return (self._setting,)
        coded = [region for code in _COUNTRY_CODE.findall(self._raw) for region in _of_country_code(code)]
        return tuple(dict.fromkeys([*coded, *_of_language(self._raw[:_LOOKED_AT].decode("utf-8", "ignore")), *_ALWAYS]))


def _of_language(text: str) -> tuple[str, ...]:
    """The countries of a text's script, if only one language is written in it, else of its language."""
    for pattern, language in _BY_SCRIPT:
        if pattern.search(text):
            return _BY_LANGUAGE[language]
    if regions := _BY_LANGUAGE.get(detect_language(text, _LEAST_PROBABILITY)):
        return regions
    return next((regions for pattern, regions in _IN_DOUBT if pattern.search(text)), ())


@lru_cache
def _of_country_code(digits: bytes) -> tuple[str, ...]:
    """The main country of the calling code that ``digits`` begin with; codes are free of prefixes (ITU-T E.164)."""
    from phonenumbers import COUNTRY_CODE_TO_REGION_CODE

    for length in range(1, len(digits) + 1):
        if regions := COUNTRY_CODE_TO_REGION_CODE.get(int(digits[:length])):
            # 001 stands for numbers of no country.
            return tuple(region for region in regions[:1] if region != "001")
    return ()
