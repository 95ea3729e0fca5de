"""What tenants use and what they may: GPU-hours held against quotas before a training, and billed after it."""
