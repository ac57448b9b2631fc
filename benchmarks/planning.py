"""What planning a study costs as it grows: seconds and peak memory of `snakemake --dry-run`.

    python benchmarks/planning.py [runs ...]

5,000 runs are to be planned within 30 s and 1 GB, and both are to grow no faster than the runs.
"""

import json
import sys
import tempfile
from pathlib import Path

from growth import measure, print_growth, print_load, print_row

ROOT = Path(__file__).parents[1]
SEEDS = 5


def make_config(folder: Path, runs: int) -> Path:
    """Write a config of two workloads, five seeds, and as many arms as make that many runs, each written out."""
    settings = {
        "study": "planning",
        "seeds": list(range(SEEDS)),
        "workloads": [
            {
                "name": name,
                "model": name,
                "data": data,
                "batch_size": 16,
                "steps": 1000,
                "optimizer": {"name": "adamw", "lr": 0.001},
            }
            for name, data in [("resnet50", "digits"), ("transformer", "markov")]
        ],
        "arms": [
            {"name": "fp32", "precision": "fp32"},
            *(
                {
                    "name": f"fp16-{interval}",
                    "precision": "fp16",
                    "loss_scaling": {"kind": "dynamic", "growth_interval": interval},
                }
                for interval in range(1, runs // (2 * SEEDS))
            ),
        ],
    }
    path = folder / f"{runs}.json"
    path.write_text(json.dumps(settings), encoding="utf-8")
    return path


def main() -> None:
    sizes = [int(argument) for argument in sys.argv[1:]] or [500, 1000, 2500, 5000]
    command = [sys.executable, "-m", "snakemake", "--snakefile", str(ROOT / "Snakefile"), "--dry-run", "--configfile"]
    costs = {}
    print_load()
    with tempfile.TemporaryDirectory() as name:
        for runs in sizes:
            config = make_config(Path(name), runs)
            costs[runs] = measure([*command, str(config)], config.parent)
            print_row(runs, "dry run", costs[runs])
    print_growth("dry run", costs)
    print_load()


if __name__ == "__main__":
    main()
