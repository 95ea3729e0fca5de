"""What is served over HTTP: the API in OpenAI's dialect, for holders of keys; report pages, on one person's machine."""
