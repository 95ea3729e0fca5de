# What `helm test dagster` runs: is the installation able to work?
python - <<'END'
import httpx

answer = httpx.get("http://ft-api/readyz", timeout=10)
print("API:", answer.status_code, answer.text)
answer.raise_for_status()
END
dagster-daemon liveness-check
dagster api grpc-health-check --host fine-tuning --port 4000
echo "The API with its store and database, the daemon and the code location answer."
