# Stability: one training run a job.


rule train:
    output:
        trace=f"{FOLDER}/runs/{{run}}/trace.parquet",
        summary=f"{FOLDER}/runs/{{run}}/summary.json",
    log:
        f"{FOLDER}/logs/train/{{run}}.log",
    benchmark:
        f"{FOLDER}/benchmarks/train/{{run}}.tsv"
    conda:
        "../../environment.yml"
    threads: STUDY.threads
    resources:
        mem_mb=3000,
        runtime=60,
        gpu=0 if STUDY.device == "cpu" else 1,
    params:
        # The spec and the code it depends on: a change of either runs this again, and nothing else does.
        spec=spec_of,
        code=code_of,
        folder=subpath(output.trace, parent=True),
    message:
        "train {wildcards.run}"
    # glibc is told to keep freed memory, else every step gives it back to the system and faults it in again, and to
    # ask for huge pages: each saves about a tenth of a ResNet-50 step.
    shell:
        "GLIBC_TUNABLES=glibc.malloc.trim_threshold=8589934592:glibc.malloc.mmap_threshold=4294967296"
        ":glibc.malloc.hugetlb=1 "
        "halfscale train --spec {params.spec:q} --output {params.folder:q} > {log:q} 2>&1"
