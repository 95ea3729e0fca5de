"""The opt-in recogniser of national and medical numbers."""

from typing import Annotated, Literal

from pydantic import AfterValidator, Field

from ft_resources.settings import unique
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


class RecogniserSettings(StrictModel):
    """A library that finds national and medical numbers, reported as ``id``. It takes most of the time of curation."""

    library: Literal["presidio"] = Field(
        description="`presidio`: the pattern recognisers of presidio-analyzer (the extra `presidio`, installed where "
        "workers run). They need no language model; names and addresses, which do, are not searched for."
    )
    entities: Annotated[tuple[NationalId, ...], AfterValidator(unique)] = Field(
        min_length=1, description="Numbers to search for, by presidio's names, such as US_SSN or ES_NIF."
    )
