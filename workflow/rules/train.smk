# Stability: the training runs, one to a job, or several seeds of an arm.
from functools import partial

# The seeds of a job, as they stand in its paths. Where each has a job of its own, a wildcard stands for all.
JOBS = [["{seed}"]] if STUDY.seeds_per_job == 1 else [list(map(str, seeds)) for seeds in STUDY.jobs()]


def runs_of(seeds, wildcards):
    """The runs of a job, as halfscale train takes them: each its spec and its folder."""
    runs = [f"{wildcards.cell}_seed{seed}".format(**wildcards) for seed in seeds]
    return [word for run in runs for word in ("--spec", PLAN.runs[run].canonical(), "--output", f"{FOLDER}/runs/{run}")]


def code_of(seeds, wildcards):
    return run_digest(PLAN.runs[f"{wildcards.cell}_seed{seeds[0]}".format(**wildcards)])


for number, seeds in enumerate(JOBS):

    rule:
        name:
            f"train_{number}" if number else "train"
        output:
            expand(
                f"{FOLDER}/runs/{{{{cell}}}}_seed{{seed}}/{{name}}",
                seed=seeds,
                name=["trace.parquet", "samples.parquet", "summary.json"],
            ),
        log:
            f"{FOLDER}/logs/train/{{cell}}_seed{'-'.join(seeds)}.log",
        benchmark:
            f"{FOLDER}/benchmarks/train/{{cell}}_seed{'-'.join(seeds)}.tsv"
        priority: MEASUREMENT
        conda:
            ENVIRONMENT
        threads: STUDY.threads
        resources:
            mem_mb=MEM_MB,
            runtime=60 * len(seeds),
            gpu=0 if STUDY.device == "cpu" else 1,
        params:
            # The specs and the code they depend on: a change of either runs this again, and nothing else does.
            runs=partial(runs_of, seeds),
            code=partial(code_of, seeds),
            tunables=TUNABLES,
        message:
            f"train {{wildcards.cell}}_seed{'-'.join(seeds).format(seed='{wildcards.seed}')}"
        # What was killed cannot say so itself.
        shell:
            "GLIBC_TUNABLES={params.tunables} "
            "halfscale train {params.runs:q} > {log:q} 2>&1 || {{ status=$?; "
            "[ $status -le 128 ] || echo 'halfscale: killed by signal '$((status - 128))' (9 is mostly for want of memory); '"
            "'call again to go on from the last checkpoint' >> {log:q}; exit $status; }}"
