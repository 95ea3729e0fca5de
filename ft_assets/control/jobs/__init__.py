"""Jobs that tenants ask for over HTTP: what recipe and dataset they become."""
