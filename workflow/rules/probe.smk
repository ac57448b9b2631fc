# Probe: gradients at fixed weights in every format and at every scale; one workload a job.


rule probe:
    output:
        gradients=f"{FOLDER}/probe/{{workload}}/gradients.parquet",
        record=f"{FOLDER}/probe/{{workload}}/probe.json",
    log:
        f"{FOLDER}/logs/probe/{{workload}}.log",
    priority: MEASUREMENT
    conda:
        ENVIRONMENT
    threads: STUDY.threads
    resources:
        mem_mb=MEM_MB,
        runtime=60,
        gpu=0 if STUDY.device == "cpu" else 1,
    params:
        spec=probe_of,
        code=probe_code_of,
        tunables=TUNABLES,
        folder=subpath(output.record, parent=True),
    message:
        "probe {wildcards.workload}"
    shell:
        "GLIBC_TUNABLES={params.tunables} "
        "halfscale probe --spec {params.spec:q} --output {params.folder:q} > {log:q} 2>&1"


rule probe_tables:
    input:
        plan=rules.plan.output,
        runs=rules.collect.output.runs,
        samples=rules.sample_tables.output.samples,
        records=expand(
            f"{FOLDER}/probe/{{workload}}/{{name}}",
            workload=PLAN.probe,
            name=["gradients.parquet", "probe.json"],
        ),
    output:
        csv=report(
            f"{FOLDER}/tables/probe.csv",
            caption="../report/probe.rst",
            category="Gradients",
            labels={"what": "Operating windows"},
        ),
        scales=f"{FOLDER}/tables/probe_scales.csv",
        layers=f"{FOLDER}/tables/probe_layers.csv",
        predicted=report(
            f"{FOLDER}/tables/predicted_skips.csv",
            caption="../report/predicted_skips.rst",
            category="Gradients",
            labels={"what": "Predicted and observed skips"},
        ),
        flushed=report(
            f"{FOLDER}/tables/predicted_flushed.csv",
            caption="../report/predicted_flushed.rst",
            category="Gradients",
            labels={"what": "Predicted and observed underflow"},
        ),
        tex=f"{FOLDER}/tables/probe.tex",
    log:
        f"{FOLDER}/logs/probe_tables.log",
    localrule: True
    conda:
        ENVIRONMENT
    params:
        folder=subpath(output.csv, ancestor=2),
        code=sources_digest(["halfscale.analysis.probe"]),
    message:
        "probe_tables {output.csv}"
    shell:
        "halfscale tables {params.folder:q} --of probe > {log:q} 2>&1"
