"""A small good config, with one of everything that a config may have."""

from typing import Any

SETTINGS: dict[str, Any] = {
    "study": "tiny",
    "seeds": [0, 1],
    "workloads": [
        {
            "name": "images",
            "model": "resnet50",
            "data": "digits",
            "batch_size": 4,
            "steps": 10,
            "optimizer": {"name": "sgd", "lr": 0.01},
            "schedule": {"warmup_steps": 2},
        }
    ],
    "arms": [
        {"name": "fp32", "precision": "fp32"},
        {"name": "bf16", "precision": "bf16"},
        {"name": "fp16", "precision": "fp16", "loss_scaling": {"kind": "dynamic", "growth_interval": 5}},
        {"name": "static", "precision": "fp16", "loss_scaling": {"kind": "static", "scale": 8}},
    ],
    "sweeps": [{"name": "scaler", "base": "fp16", "over": {"init_scale": [1, 1024]}}],
}
