# Stability: one training run a job.


rule train:
    output:
        trace=f"{FOLDER}/runs/{{run}}/trace.parquet",
        samples=f"{FOLDER}/runs/{{run}}/samples.parquet",
        summary=f"{FOLDER}/runs/{{run}}/summary.json",
    log:
        f"{FOLDER}/logs/train/{{run}}.log",
    benchmark:
        f"{FOLDER}/benchmarks/train/{{run}}.tsv"
    conda:
        ENVIRONMENT
    threads: STUDY.threads
    resources:
        mem_mb=MEM_MB,
        runtime=60,
        gpu=0 if STUDY.device == "cpu" else 1,
    params:
        # The spec and the code it depends on: a change of either runs this again, and nothing else does.
        spec=spec_of,
        code=code_of,
        tunables=TUNABLES,
        folder=subpath(output.trace, parent=True),
    message:
        "train {wildcards.run}"
    # What was killed cannot say so itself.
    shell:
        "GLIBC_TUNABLES={params.tunables} "
        "halfscale train --spec {params.spec:q} --output {params.folder:q} > {log:q} 2>&1 || {{ status=$?; "
        "[ $status -le 128 ] || echo 'halfscale: killed by signal '$((status - 128))' (9 is mostly for want of memory); '"
        "'call again to go on from the last checkpoint' >> {log:q}; exit $status; }}"
