"""What a browser is served on one person's machine: the report pages. It knows no users and no tenants' walls."""
