"""What a SQL database's error means, and what to do: by PostgreSQL's SQLSTATE or SQLite's name of the error.

https://www.postgresql.org/docs/current/errcodes-appendix.html, https://sqlite.org/rescode.html. Errors while a
connection is made have no code with psycopg2; the words are the server's and libpq's.
"""

import re
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class Meaning:
    """``what`` follows "the database". ``passes``: whether it may be over with nothing changed by anybody; then there
    may be no ``remedy``."""

    what: str
    remedy: str = ""
    passes: bool = False


_WRONG_USER = Meaning(
    "does not let this user in", "Check the user and the password in its URL, and pg_hba.conf of the server."
)
_NONE = Meaning("is not on that server", "Create it (CREATE DATABASE), or correct its name in the URL.")
_NO_RIGHT = Meaning(
    "denies this user a right",
    "Grant it: CONNECT on the database, USAGE and CREATE on its schema, and all rights on tables that others made.",
)
_NO_SCHEMA = Meaning(
    "has no schema where this user's tables would be", "Create the schema that the user's search_path names."
)
_READ_ONLY = Meaning("takes no writes here", "Name the primary server in its URL: this one is a copy, or read-only.")
_FULL = Meaning("has no room left on its disk", "Free some space there.")
_CROWDED = Meaning("has no connection left", "Raise its limit of connections, or close some.", passes=True)
_STARTING = Meaning("is starting or stopping", passes=True)
_STOPPED = Meaning("did not finish in time", passes=True)
_OTHER_TABLES = Meaning(
    "has other tables than this version expects",
    "Name a database in its URL that nobody else writes to, and use no version older than the one that it was used by.",
)
_NO_ADDRESS = Meaning("has an address that does not exist", "Correct the host in its URL.", passes=True)
_DAMAGED = Meaning("is no database, or damaged", "Restore its file from a backup, or name another.")
_NO_FILE = Meaning("is a file that cannot be opened", "Mend the permissions of its folder, or name another file.")
_SILENT = Meaning("does not answer", passes=True)
# The longest beginning of a code that is here counts.
_COLLISION = Meaning("ended this because of others that wrote at the same time", passes=True)
_FAILING = Meaning("has a fault of its disk", "Look at the disk and at its server's log.", passes=True)
_CODES = {
    "08": _SILENT,
    "28": _WRONG_USER,
    "3D": _NONE,
    "3F": _NO_SCHEMA,
    "42": _OTHER_TABLES,
    "42501": _NO_RIGHT,
    "25006": _READ_ONLY,
    "53100": _FULL,
    "53300": _CROWDED,
    "57014": _STOPPED,
    "57P": _STARTING,
    "57P04": _NONE,
    # Also where somebody else held a lock, or a transaction was idle, for too long.
    "25P03": _STOPPED,
    "25P04": _STOPPED,
    "55P03": _STOPPED,
    "57P05": _STOPPED,
    "40": _COLLISION,
    "53": Meaning("has no memory left, or another limit of it is reached", "Look at its server's log.", passes=True),
    "58": _FAILING,
    "XX001": Meaning("is damaged", "Restore it from a backup: see its server's log."),
    "XX002": Meaning("has a damaged index", "Build it anew (REINDEX): see its server's log."),
    "SQLITE_READONLY": Meaning("is a file that may not be written", _NO_FILE.remedy),
    "SQLITE_CANTOPEN": _NO_FILE,
    "SQLITE_PERM": _NO_FILE,
    "SQLITE_FULL": _FULL,
    "SQLITE_NOTADB": _DAMAGED,
    "SQLITE_CORRUPT": _DAMAGED,
    "SQLITE_BUSY": _STOPPED,
    "SQLITE_LOCKED": _STOPPED,
    "SQLITE_IOERR": _FAILING,
    "SQLITE_ERROR": _OTHER_TABLES,
}
_WORDS = {
    r'role ".*" does not exist|is not permitted to log in|authentication failed|no pg_hba\.conf entry'
    r"|no password supplied": _WRONG_USER,
    r'database ".*" does not exist': _NONE,
    r"permission denied for": _NO_RIGHT,
    r"too many (clients|connections)|remaining connection slots": _CROWDED,
    r"database system is|not yet accepting connections": _STARTING,
    r"could not translate host name": _NO_ADDRESS,
    r"certificate|SSL|sslmode": Meaning(
        "and this program do not agree on TLS",
        "Check sslmode and sslrootcert in its URL, and the server's certificate.",
    ),
}


def meaning(error: Any) -> Meaning:
    """The meaning of SQLAlchemy's ``error``. An unknown code is a refusal that names it; an error without a code and
    known words is no answer."""
    origin = getattr(error, "orig", None) or error
    code = getattr(origin, "pgcode", None) or getattr(origin, "sqlite_errorname", None) or ""
    for end in range(len(code), 1, -1):
        if code[:end] in _CODES:
            return _CODES[code[:end]]
    if code:
        return Meaning(
            f"refused a statement with the code {code}", "Look at its server's log: nothing passes by itself."
        )
    text = str(origin)
    return next((known for words, known in _WORDS.items() if re.search(words, text)), _SILENT)
