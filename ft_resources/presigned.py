"""Addresses of a bucket to which whoever has them may write one object, for a while: signed by the platform's own
credentials, which they do not contain.

The size is signed, and that nothing is there yet: S3 refuses another size, and to write a second time
(https://docs.aws.amazon.com/AmazonS3/latest/userguide/PresignedUrlUploadObject.html).
"""

import os
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from ft_resources.errors import StoreUnavailable
from ft_resources.store import Store

# S3 takes no more with one request.
_MOST_BYTES = 5 << 30


@dataclass(frozen=True, kw_only=True, slots=True)
class Presigned:
    """``PUT`` the bytes to ``url``, with these ``headers``."""

    url: str
    headers: Mapping[str, str]


def presigned_put(store: Store, path: str, *, size: int, lifetime_s: int) -> Presigned | None:
    """Where ``size`` bytes may be written to ``path`` within ``lifetime_s`` seconds; None where the store is no S3
    bucket, or takes fewer bytes with one request. Raises StoreUnavailable where this process has no credentials."""
    if not store.url.startswith("s3://") or size > _MOST_BYTES:
        return None
    # A second of import that no other user of the store should wait for.
    from botocore.exceptions import BotoCoreError

    bucket, _, key = store.url_of(path).removeprefix("s3://").partition("/")
    asked = {"Bucket": bucket, "Key": key, "ContentLength": size, "IfNoneMatch": "*"}
    try:
        client = _client(os.environ.get("AWS_ENDPOINT_URL", ""), os.environ.get("AWS_REGION", ""))
        url = client.generate_presigned_url("put_object", Params=asked, ExpiresIn=lifetime_s)
    except BotoCoreError as error:
        raise StoreUnavailable(
            f"no address can be signed ({error})", where=path, remedy="Check the credentials of the bucket."
        ) from error
    return Presigned(url=url, headers={"Content-Length": str(size), "If-None-Match": "*"})


@lru_cache
def _client(endpoint: str, region: str) -> Any:
    """Of a session of its own, as boto3's default one is not safe among threads."""
    from boto3.session import Session
    from botocore.config import Config

    settings = Config(
        signature_version="s3v4",
        # As the store's own client addresses buckets.
        s3={"addressing_style": "path"},
        # Else the checksum of no bytes is signed, and every upload refused.
        request_checksum_calculation="when_required",
    )
    return Session(region_name=region or None).client("s3", endpoint_url=endpoint or None, config=settings)
