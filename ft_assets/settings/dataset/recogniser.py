"""The opt-in recognisers: of national and medical numbers by patterns, and of names and places by a language model."""

from typing import Annotated, Literal

from pydantic import AfterValidator, Field

from ft_assets.settings.keys import check_name_model_key
from ft_resources.settings import text_check, unique
from ft_resources.strict_model import StrictModel

NationalId = Literal[
    "AU_ABN",
    "AU_MEDICARE",
    "AU_TFN",
    "CA_SIN",
    "DE_HEALTH_INSURANCE",
    "DE_ID_CARD",
    "DE_SOCIAL_SECURITY",
    "DE_TAX_ID",
    "ES_NIE",
    "ES_NIF",
    "FI_PERSONAL_IDENTITY_CODE",
    "IN_AADHAAR",
    "IN_PAN",
    "IT_FISCAL_CODE",
    "KR_RRN",
    "MEDICAL_LICENSE",
    "NG_NIN",
    "PL_PESEL",
    "SE_PERSONNUMMER",
    "SG_NRIC_FIN",
    "TH_TNIN",
    "TR_NATIONAL_ID",
    "UK_NHS",
    "UK_NINO",
    "US_DRIVER_LICENSE",
    "US_ITIN",
    "US_MBI",
    "US_NPI",
    "US_SSN",
    "ZA_ID_NUMBER",
]


Entity = Literal["PERSON", "LOCATION"]
ENTITY_TYPES: dict[Entity, str] = {"PERSON": "name", "LOCATION": "place"}
"""Types of findings in reports, by presidio's name of the entity."""


class RecogniserSettings(StrictModel):
    """A library that finds national and medical numbers, reported as ``id``. It takes most of the time of curation."""

    library: Literal["presidio"] = Field(
        description="`presidio`: the pattern recognisers of presidio-analyzer (the extra `presidio`, installed where "
        "workers run). They need no language model; `names` searches for names and places, which do."
    )
    entities: Annotated[tuple[NationalId, ...], AfterValidator(unique)] = Field(
        min_length=1, description="Types of numbers to search for, by presidio's names, such as US_SSN or ES_NIF."
    )


class NameSettings(StrictModel):
    """A language model that finds names of people and places. It takes most of the time of curation."""

    model: Annotated[str, text_check(check_name_model_key)] = Field(
        description="Key of a spaCy model added with `ft dataset name-model add`, such as names-en.v1. It is applied "
        "to "
        "every text, whatever its language."
    )
    entities: Annotated[tuple[Entity, ...], AfterValidator(unique)] = Field(
        default=("PERSON", "LOCATION"),
        min_length=1,
        description="`PERSON`: names of people, reported as `name`. `LOCATION`: addresses, streets, towns and "
        "countries "
        "that the model detects, reported as `place`.",
    )

    @property
    def types(self) -> tuple[str, ...]:
        """The types of its findings, in the order of ``ENTITY_TYPES``."""
        return tuple(kind for entity, kind in ENTITY_TYPES.items() if entity in self.entities)
