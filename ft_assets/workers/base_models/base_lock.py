"""The lock of a base model, as recipes store it. ``lock.py`` makes one."""

import re
from typing import Any, Literal

from pydantic import Field

from ft_resources.artifacts import FileEntry, FileName, InputRef, content_digest
from ft_resources.strict_model import StrictModel

# Files that describe a model without being part of it.
_DOCUMENT = re.compile(r"^(LICENSE|NOTICE|COPYING|USE_POLICY|README)|\.md$")


class BaseLock(StrictModel):
    """A base model, pinned: size and sha256 of every file. For an accepted adapter, the files are the adapter's."""

    kind: Literal["folder", "hub", "artifact"] = Field(description="Where the files come from.")
    source: str = Field(description="folder:sha256:DIGEST, hub:ORG/NAME or artifact:ADDRESS.")
    revision: str = Field(description="The folder's or adapter's digest, or the commit that the named revision was.")
    digest: str = Field(description="Digest of all names and sha256 together: the content digest of what is named.")
    files: dict[FileName, FileEntry] = Field(description="File name to size in bytes and sha256.")
    upload: str | None = Field(None, description="Address of the base_upload artifact of a folder.")
    parent: InputRef | None = Field(
        None, description="Of an accepted adapter that is no whole model: the base_model artifact that it stands on."
    )

    @property
    def terms(self) -> dict[str, Any]:
        """The lock as JSON without file locations, which say nothing about the content."""
        return self.model_dump(mode="json", exclude={"upload", "parent"})

    @property
    def inputs(self) -> dict[str, InputRef]:
        """The inputs of ``base_model``, apart from its downloads."""
        if self.kind == "artifact":
            adapter = InputRef(address=self.source.removeprefix("artifact:"), digest=self.digest)
            return {"adapter": adapter} if self.parent is None else {"adapter": adapter, "base": self.parent}
        return {"upload": InputRef(address=self.upload, digest=self.digest)} if self.upload else {}

    @property
    def substance(self) -> str:
        """Digest of everything that decides the model's answers: every file except model card and licence."""
        return content_digest({name: entry for name, entry in self.files.items() if not _DOCUMENT.search(name)})
