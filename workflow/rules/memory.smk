# Memory: memory of a training step, predicted, and measured beside; one case a job.


rule memory:
    output:
        f"{FOLDER}/memory/{{case}}/memory.json",
    log:
        f"{FOLDER}/logs/memory/{{case}}.log",
    priority: MEASUREMENT
    conda:
        ENVIRONMENT
    resources:
        mem_mb=MEM_MB,
        runtime=60,
        gpu=0 if STUDY.device == "cpu" else 1,
    params:
        spec=memory_spec_of,
        code=memory_code_of,
        folder=subpath(output[0], parent=True),
    message:
        "memory {wildcards.case}"
    shell:
        "halfscale memory --spec {params.spec:q} --output {params.folder:q} > {log:q} 2>&1"


rule memory_tables:
    input:
        plan=rules.plan.output,
        records=expand(f"{FOLDER}/memory/{{case}}/memory.json", case=PLAN.memory),
    output:
        csv=report(
            f"{FOLDER}/tables/memory.csv",
            caption="../report/memory.rst",
            category="Memory",
            labels={"what": "Every prediction"},
        ),
        largest=f"{FOLDER}/tables/largest_batch.csv",
        tex=f"{FOLDER}/tables/memory.tex",
    log:
        f"{FOLDER}/logs/memory_tables.log",
    localrule: True
    conda:
        ENVIRONMENT
    params:
        folder=subpath(output.csv, ancestor=2),
        code=sources_digest(["halfscale.analysis.memory"]),
    message:
        "memory_tables {output.csv}"
    shell:
        "halfscale tables {params.folder:q} --of memory > {log:q} 2>&1"
