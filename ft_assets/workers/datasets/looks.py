"""What is found by looking into curated versions; apart from the kernels that find it, as those load slowly."""

from dataclasses import dataclass


@dataclass(frozen=True, kw_only=True)
class VersionDiff:
    """Numbers of rows; a row is the same if everything that is trained on is the same.

    Args:
        rows: of the older and of the newer version, by split.
        same: rows in both versions, in whichever split.
        added: by split of the newer version, without changed ones.
        removed: by split of the older version, without changed ones.
        changed: rows whose prompt stayed the same and whose rest did not.
        moved: rows in both versions whose split differs, by the split in the older and then in the newer version.
        reweighed: rows in both versions whose weight in training differs.
    """

    rows: tuple[dict[str, int], dict[str, int]]
    same: int
    added: dict[str, int]
    removed: dict[str, int]
    changed: int
    moved: dict[str, dict[str, int]]
    reweighed: int


@dataclass(frozen=True, kw_only=True, order=True)
class NearRow:
    """A row near a text.

    Args:
        similarity: Jaccard similarity of their sets of folded character 5-grams, exact.
        estimate: datasketch's, from the signatures.
        id: the row's id in the version; a policy's ``duplicates.keep`` takes its first 12 digits.
        split: where the row is.
        text: all texts of the row.
    """

    similarity: float
    estimate: float
    id: str
    split: str
    text: str
