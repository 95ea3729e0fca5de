"""A pod's credentials for S3: its token, exchanged for a session limited to what one attempt needs.

The kubelet renews the token's file, which is read anew each time; a session lasts an hour, and obstore renews it
(https://docs.aws.amazon.com/STS/latest/APIReference/API_AssumeRoleWithWebIdentity.html).
"""

import os
from datetime import UTC
from pathlib import Path
from typing import Any

POLICY = "FT_SESSION_POLICY"
_TOKEN, _ROLE, _NAME = "AWS_WEB_IDENTITY_TOKEN_FILE", "AWS_ROLE_ARN", "AWS_ROLE_SESSION_NAME"
_SESSION_S = 3600


def narrowed() -> bool:
    """Whether this process must restrict its session itself; without a policy obstore exchanges the token."""
    return all(name in os.environ for name in (POLICY, _TOKEN, _ROLE))


def session_credentials() -> dict[str, Any]:
    """A new session's credentials, in the format of obstore's credential providers."""
    import boto3
    from botocore import UNSIGNED
    from botocore.config import Config

    client = boto3.client("sts", config=Config(signature_version=UNSIGNED))
    answer = client.assume_role_with_web_identity(
        RoleArn=os.environ[_ROLE],
        RoleSessionName=os.environ.get(_NAME, "ft-worker")[:64],
        WebIdentityToken=Path(os.environ[_TOKEN]).read_text(encoding="utf-8").strip(),
        Policy=os.environ[POLICY],
        DurationSeconds=_SESSION_S,
    )
    found = answer["Credentials"]
    return {
        "access_key_id": found["AccessKeyId"],
        "secret_access_key": found["SecretAccessKey"],
        "token": found["SessionToken"],
        "expires_at": found["Expiration"].astimezone(UTC),
    }
