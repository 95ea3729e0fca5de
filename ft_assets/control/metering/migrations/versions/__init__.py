"""The ledger's migrations."""
