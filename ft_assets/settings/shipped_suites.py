"""Keys of the suites that a new store has without a network."""

BOOKS, MADE_SAFETY = "book-cloze.v1", "offline-care.v1"
