"""What a store's refusal means, and what to do: by the status and code of a bucket's answer, or a disk's error number.

The codes are those of S3 (https://docs.aws.amazon.com/AmazonS3/latest/API/ErrorResponses.html) and of servers that
speak as it does; Azure and GCS name theirs in the same element.
"""

import errno
import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from obstore import exceptions as obstore_errors

from ft_resources.errors import StoreRefusal, StoreUnavailable, UserError, first_line

_STATUS = re.compile(r"status code: (\d{3})")
_CODE = re.compile(r"<Code>([\w.]{1,100})</Code>")
# The client's own errors of the disk have no number as an attribute.
_ERRNO = re.compile(r"\(os error (\d+)\)")
CREATE = "create"


@dataclass(frozen=True, slots=True)
class _Meaning:
    """``passes``: whether it may be over the next time, with nothing changed by anybody."""

    what: str
    remedy: str
    passes: bool = False


_FULL = _Meaning("it is full", "Free some space or point FT_STORE elsewhere. Nothing half-written is visible.")
_NO_BUCKET = _Meaning("there is no such bucket", "Create it, or correct FT_STORE and AWS_ENDPOINT_URL.")
_WRONG_KEY = _Meaning(
    "it does not know these credentials", "Check the access key and its secret, and that they are of this store."
)
_OLD_TOKEN = _Meaning("the session's token has expired or is not valid", "Renew the token, then run this again.")
_ELSEWHERE = _Meaning(
    "the bucket is in another region, or under another address",
    "Set AWS_REGION to the bucket's region, and AWS_ENDPOINT_URL to the address of that region, or unset it.",
)
_DENIED = _Meaning(
    "these credentials may not do it", "Give their role the right to read, write, list and delete below FT_STORE."
)
_BUSY = _Meaning("it asks for fewer requests", "Wait a minute, then run this again.", passes=True)
_FAULTY = _Meaning("it has a fault", "Wait until it works, then run this again.", passes=True)
_ALWAYS_BUSY = _Meaning(
    "another request for the object is under way, and the outcome is unknown", "Run this again.", passes=True
)
_NO_CONDITION = _Meaning(
    "it does not support requests that create an object only where there is none (If-None-Match)",
    "Every name and claim rests on them: use a bucket of a server that does.",
)
_TOO_LARGE = _Meaning("the object is larger than it takes", "Raise the limit of the server, or of the proxy before it.")
_UNSUPPORTED = _Meaning(
    "it does not support this request", "Check that AWS_ENDPOINT_URL is the address of an S3 server, not of its pages."
)
_CODES = {
    **dict.fromkeys(("NoSuchBucket", "ContainerNotFound", "ContainerBeingDeleted", "AccountNotFound"), _NO_BUCKET),
    **dict.fromkeys(
        (
            "InvalidAccessKeyId",
            "SignatureDoesNotMatch",
            "AuthenticationFailed",
            "InvalidAuthenticationInfo",
            "InvalidSecurity",
            "NotSignedUp",
        ),
        _WRONG_KEY,
    ),
    **dict.fromkeys(
        ("ExpiredToken", "ExpiredTokenException", "InvalidToken", "InvalidIdentityToken", "TokenRefreshRequired"),
        _OLD_TOKEN,
    ),
    **dict.fromkeys(
        ("PermanentRedirect", "AuthorizationHeaderMalformed", "IllegalLocationConstraintException"), _ELSEWHERE
    ),
    **dict.fromkeys(("QuotaExceeded", "XMinioStorageFull", "XMinioAdminBucketQuotaExceeded"), _FULL),
    **dict.fromkeys(
        ("AllAccessDisabled", "AccountProblem", "UserProjectAccountProblem", "AccountIsDisabled", "ContainerDisabled"),
        _Meaning("its account is closed, or may not use it", "Ask who has the account, or whoever pays for it."),
    ),
    **dict.fromkeys(
        (
            "KMS.DisabledException",
            "KMS.NotFoundException",
            "KMS.KMSInvalidStateException",
            "KMS.KeyUnavailableException",
        ),
        _Meaning(
            "the key that its objects are encrypted with cannot be used", "Enable the bucket's key, or name another."
        ),
    ),
    # What arrived was not what was sent, or too late.
    **dict.fromkeys(
        ("RequestTimeout", "IncompleteBody", "BadDigest", "XAmzContentSHA256Mismatch"),
        _Meaning("the connection to it broke", "Check the network, then run this again.", passes=True),
    ),
    **dict.fromkeys(("EntityTooLarge", "RequestBodyTooLarge", "XMinioObjectTooLarge"), _TOO_LARGE),
    "InvalidBucketName": _Meaning("no bucket can have this name", "Correct FT_STORE."),
    "RequestTimeTooSkewed": _Meaning("this machine's clock is wrong", "Set its clock, then run this again."),
    "InvalidObjectState": _Meaning(
        "the object is in an archive", "Restore it there, and let no rule of the bucket archive what is in the store."
    ),
}
_STATUSES = {
    **dict.fromkeys((301, 302, 307, 308), _ELSEWHERE),
    401: _WRONG_KEY,
    403: _DENIED,
    # Whoever reads is told that nothing is there; whoever writes has no place to write to.
    404: _NO_BUCKET,
    409: _ALWAYS_BUSY,
    413: _TOO_LARGE,
    **dict.fromkeys((429, 503), _BUSY),
    507: _FULL,
}
_READ_ONLY = _Meaning("it is read-only for this user", "Mend its permissions, or point FT_STORE elsewhere.")
_NO_FOLDER = _Meaning("no folder can be created there", "Point FT_STORE elsewhere.")
_DISKS = {
    **dict.fromkeys((errno.ENOSPC, errno.EDQUOT), _FULL),
    **dict.fromkeys((errno.EROFS, errno.EACCES, errno.EPERM), _READ_ONLY),
    **dict.fromkeys((errno.ENOENT, errno.ENOTDIR, errno.EEXIST), _NO_FOLDER),
    **dict.fromkeys(
        (errno.EMFILE, errno.ENFILE),
        _Meaning("too many files are open", "Raise the limit of open files (ulimit -n), then run this again."),
    ),
    **dict.fromkeys(
        (errno.EIO, errno.ESTALE, errno.ENOTCONN, errno.ETIMEDOUT, errno.EHOSTDOWN),
        _Meaning("its disk fails", "Check the disk, and that it is mounted, then run this again.", passes=True),
    ),
}
_LINKLESS = {errno.EPERM, errno.EOPNOTSUPP, errno.ENOSYS}
_NO_LINKS = _Meaning(
    "its file system has no hard links, by which one of several writers wins",
    "Point FT_STORE to a file system that has them, such as ext4, XFS, APFS or NFS, and not exFAT or FUSE.",
)
_NO_KEYS = _Meaning(
    "there are no credentials for it", "Set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or give the machine a role."
)
# What hinders the exchange of a process's token for its role, by words of what web_identity.py raised:
# https://docs.aws.amazon.com/STS/latest/APIReference/API_AssumeRoleWithWebIdentity.html.
_OF_ROLE = "credential provider: "
_NO_TRUST = _Meaning(
    "its role does not trust this process's token",
    "Let the role's trust policy name the token's issuer, the audience and this service account.",
)
_ROLES = {
    r"\((AccessDenied|IDPRejectedClaim)": _NO_TRUST,
    r"\((ExpiredToken|InvalidIdentityToken)": _OLD_TOKEN,
    r"\((PackedPolicyTooLarge|MalformedPolicyDocument)": _Meaning(
        "the work has more inputs than a session of its role can be limited to", "Ask for work with fewer inputs."
    ),
    r"\(RegionDisabled": _Meaning(
        "its role cannot be had in this region", "Activate STS there, or correct AWS_REGION."
    ),
    r"\((Throttling|RequestLimitExceeded)": _BUSY,
    r"FileNotFoundError|PermissionError": _Meaning(
        "the token of this process cannot be read", "Check AWS_WEB_IDENTITY_TOKEN_FILE, and that it is mounted."
    ),
}
_SILENT = _Meaning(
    "it cannot be reached",
    "Check its address (AWS_ENDPOINT_URL), its certificate and the network, then run this again.",
    passes=True,
)
_UNKNOWN = _Meaning("", "Check the store's address and credentials, then run this again.", passes=True)


@contextmanager
def explained(path: str, action: str) -> Iterator[None]:
    """Turn the client's errors while doing ``action`` at ``path`` into StoreUnavailable, or StoreRefusal where nothing
    changes by itself. Where ``action`` is "read" or "delete" and nothing is there, that is FileNotFoundError."""
    try:
        yield
    except UserError:
        raise
    except (obstore_errors.BaseError, OSError) as error:
        found = code(error)
        # A bucket that is not there is not an object that is not there.
        absent = isinstance(error, FileNotFoundError) and action in ("read", "delete")
        if absent and _CODES.get(found) is not _NO_BUCKET:
            raise
        meaning = _meaning(error, action)
        answer = " ".join(filter(None, (str(_status(error) or ""), found)))
        why = f"{meaning.what} ({answer})" if meaning.what and answer else meaning.what or first_line(error)
        raise (StoreUnavailable if meaning.passes else StoreRefusal)(
            f"the store refused to {'write' if action == CREATE else action}: {why}", where=path, remedy=meaning.remedy
        ) from error


def code(error: Any) -> str:
    """The code that a bucket's answer names, or ""."""
    found = _CODE.search(str(error))
    return found[1] if found else ""


def _status(error: Exception) -> int | None:
    found = _STATUS.search(str(error))
    return int(found[1]) if found else None


def _meaning(error: Exception, action: str) -> _Meaning:
    text, status = str(error), _status(error)
    # Without credentials the client asks the machine's metadata service for a role.
    if "//169.254." in text:
        return _NO_KEYS
    if _OF_ROLE in text:
        told = (known for words, known in _ROLES.items() if re.search(words, text))
        return next(told, _SILENT)
    if known := _CODES.get(code(error)) or _STATUSES.get(status or 0):
        return known
    if status is not None and status >= 500 and status != 501:
        return _FAULTY
    if status is not None:
        return _NO_CONDITION if action == CREATE else _UNSUPPORTED
    if "redirect without LOCATION" in text:
        return _ELSEWHERE
    if "HTTP error" in text:
        return _SILENT
    named = _ERRNO.search(text)
    # So the client calls a link that fails; a folder that may not be written to is refused before.
    if action == CREATE and "Unable to rename file" in text and named and int(named[1]) in _LINKLESS:
        return _NO_LINKS
    return _DISKS.get(getattr(error, "errno", None) or (int(named[1]) if named else 0), _UNKNOWN)
