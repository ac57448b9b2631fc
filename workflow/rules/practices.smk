# Practices: wrong ways and remedies; all arms and seeds of a case in one job.


rule practices:
    output:
        steps=f"{FOLDER}/practices/{{case}}/steps.parquet",
        record=f"{FOLDER}/practices/{{case}}/practices.json",
    log:
        f"{FOLDER}/logs/practices/{{case}}.log",
    priority: MEASUREMENT
    conda:
        ENVIRONMENT
    threads: STUDY.threads
    resources:
        mem_mb=MEM_MB,
        runtime=60,
        gpu=0 if STUDY.device == "cpu" else 1,
    params:
        spec=practices_of,
        code=practices_code_of,
        tunables=TUNABLES,
        folder=subpath(output.record, parent=True),
    message:
        "practices {wildcards.case}"
    shell:
        "GLIBC_TUNABLES={params.tunables} "
        "halfscale practices --spec {params.spec:q} --output {params.folder:q} > {log:q} 2>&1"


rule practices_tables:
    input:
        plan=rules.plan.output,
        records=expand(
            f"{FOLDER}/practices/{{case}}/{{name}}",
            case=PLAN.practices,
            name=["steps.parquet", "practices.json"],
        ),
    output:
        csv=report(
            f"{FOLDER}/tables/practices.csv",
            caption="../report/practices.rst",
            category="Practices",
            labels={"what": "Wrong ways and remedies"},
        ),
        runs=f"{FOLDER}/tables/practices_runs.csv",
        tex=f"{FOLDER}/tables/practices.tex",
    log:
        f"{FOLDER}/logs/practices_tables.log",
    localrule: True
    conda:
        ENVIRONMENT
    params:
        folder=subpath(output.csv, ancestor=2),
        code=sources_digest(["halfscale.analysis.practices"]),
    message:
        "practices_tables {output.csv}"
    shell:
        "halfscale tables {params.folder:q} --of practices > {log:q} 2>&1"
