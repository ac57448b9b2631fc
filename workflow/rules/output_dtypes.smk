# Output dtypes: what autocast makes of every output, on a CPU and on CUDA; one workload a job.


rule output_dtypes:
    output:
        f"{FOLDER}/output_dtypes/{{workload}}/output_dtypes.json",
    log:
        f"{FOLDER}/logs/output_dtypes/{{workload}}.log",
    priority: MEASUREMENT
    conda:
        ENVIRONMENT
    resources:
        mem_mb=MEM_MB,
        runtime=60,
        gpu=0 if STUDY.device == "cpu" else 1,
    params:
        spec=output_dtypes_of,
        code=output_dtypes_code_of,
        folder=subpath(output[0], parent=True),
    message:
        "output_dtypes {wildcards.workload}"
    shell:
        "halfscale output-dtypes --spec {params.spec:q} --output {params.folder:q} > {log:q} 2>&1"


rule output_dtypes_tables:
    input:
        plan=rules.plan.output,
        records=expand(
            f"{FOLDER}/output_dtypes/{{workload}}/output_dtypes.json",
            workload=PLAN.output_dtypes,
        ),
    output:
        csv=report(
            f"{FOLDER}/tables/output_dtypes.csv",
            caption="../report/output_dtypes.rst",
            category="Autocast",
            labels={"what": "Every output"},
        ),
        passes=f"{FOLDER}/tables/output_dtypes_passes.csv",
        operations=report(
            f"{FOLDER}/tables/autocast_operations.csv",
            caption="../report/autocast_operations.rst",
            category="Autocast",
            labels={"what": "Single operations"},
        ),
        tex=f"{FOLDER}/tables/output_dtypes.tex",
    log:
        f"{FOLDER}/logs/output_dtypes_tables.log",
    localrule: True
    conda:
        ENVIRONMENT
    params:
        folder=subpath(output.csv, ancestor=2),
        code=sources_digest(["halfscale.analysis.output_dtypes"]),
    message:
        "output_dtypes_tables {output.csv}"
    shell:
        "halfscale tables {params.folder:q} --of output_dtypes > {log:q} 2>&1"
