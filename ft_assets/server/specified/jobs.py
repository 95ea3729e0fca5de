"""``/v1/fine-tuning/jobs`` and ``/v1/jobs`` as specified."""

from fastapi import APIRouter

from ft_assets.server.key_first import KeyFirst
from ft_assets.server.specified.strict import KNOWN_QUERY

router = APIRouter(prefix="/v1/fine-tuning/jobs", route_class=KeyFirst, dependencies=[KNOWN_QUERY])
