"""A script as people have it for OpenAI's API; only its environment names another server."""

import os
import sys
import time

from openai import OpenAI

client = OpenAI()
file = client.files.create(file=open(sys.argv[1], "rb"), purpose="fine-tune")  # noqa: SIM115
job = client.fine_tuning.jobs.create(
    training_file=file.id, model=sys.argv[2], suffix="colours", hyperparameters={"n_epochs": 2}
)
other = client.fine_tuning.jobs.create(training_file=file.id, model=sys.argv[2], seed=7)
print("cancelled:", client.fine_tuning.jobs.cancel(other.id).status)
while job.status not in ("succeeded", "failed", "cancelled"):
    time.sleep(1)
    job = client.fine_tuning.jobs.retrieve(job.id)
print("status:", job.status, job.error.message if job.error else "")
for event in client.fine_tuning.jobs.list_events(job.id):
    print("event:", event.message)
for checkpoint in client.fine_tuning.jobs.checkpoints.list(job.id):
    print("checkpoint:", checkpoint.step_number, checkpoint.metrics.train_loss)
for result in job.result_files:
    print("result:", client.files.retrieve(result).filename, len(client.files.content(result).read()))
print("tokens:", job.trained_tokens)
print("model:", client.models.retrieve(job.fine_tuned_model).id)
sys.exit(os.EX_OK if job.status == "succeeded" else 1)
