# Throughput: all variants of a workload in one job, which has the machine to itself.


rule throughput:
    output:
        steps=f"{FOLDER}/throughput/{{workload}}/steps.parquet",
        record=f"{FOLDER}/throughput/{{workload}}/throughput.json",
    log:
        f"{FOLDER}/logs/throughput/{{workload}}.log",
    # First: later, all cores would have to wait until the last of them is free. Snakemake adds priorities up, and this is
    # more than those of all that could run in its place.
    priority: 1000
    conda:
        ENVIRONMENT
    # All cores, so that no other job of the study runs meanwhile.
    threads: ALL_CORES
    resources:
        mem_mb=6000,
        runtime=120,
        gpu=0 if STUDY.device == "cpu" else 1,
    params:
        spec=timing_of,
        code=timing_code_of,
        tunables=TUNABLES,
        folder=subpath(output.steps, parent=True),
    message:
        "throughput {wildcards.workload}"
    shell:
        "GLIBC_TUNABLES={params.tunables} "
        "halfscale throughput --spec {params.spec:q} --output {params.folder:q} > {log:q} 2>&1"


rule throughput_tables:
    input:
        plan=rules.plan.output,
        records=expand(
            f"{FOLDER}/throughput/{{workload}}/{{name}}",
            workload=PLAN.throughput,
            name=["steps.parquet", "throughput.json"],
        ),
    output:
        csv=report(
            f"{FOLDER}/tables/throughput.csv",
            caption="../report/throughput.rst",
            category="Throughput",
            labels={"what": "Every variant"},
        ),
        blocks=f"{FOLDER}/tables/throughput_blocks.csv",
        tex=f"{FOLDER}/tables/throughput.tex",
    log:
        f"{FOLDER}/logs/throughput_tables.log",
    localrule: True
    conda:
        ENVIRONMENT
    params:
        folder=subpath(output.csv, ancestor=2),
        code=sources_digest(["halfscale.analysis.throughput"]),
    message:
        "throughput_tables {output.csv}"
    shell:
        "halfscale tables {params.folder:q} --of throughput > {log:q} 2>&1"
