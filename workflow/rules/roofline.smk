# Roofline: time of a training step by data sheet; one case a job.


rule roofline:
    output:
        f"{FOLDER}/roofline/{{case}}/roofline.json",
    log:
        f"{FOLDER}/logs/roofline/{{case}}.log",
    priority: MEASUREMENT
    conda:
        ENVIRONMENT
    resources:
        mem_mb=3000,
        runtime=60,
    params:
        spec=roofline_spec_of,
        code=roofline_code_of,
        folder=subpath(output[0], parent=True),
    message:
        "roofline {wildcards.case}"
    shell:
        "halfscale roofline --spec {params.spec:q} --output {params.folder:q} > {log:q} 2>&1"


rule roofline_tables:
    input:
        plan=rules.plan.output,
        records=expand(f"{FOLDER}/roofline/{{case}}/roofline.json", case=PLAN.roofline),
    output:
        csv=report(
            f"{FOLDER}/tables/roofline.csv",
            caption="../report/roofline.rst",
            category="Roofline",
            labels={"what": "Every prediction"},
        ),
        tex=f"{FOLDER}/tables/roofline.tex",
    log:
        f"{FOLDER}/logs/roofline_tables.log",
    localrule: True
    conda:
        ENVIRONMENT
    params:
        folder=subpath(output.csv, ancestor=2),
        code=sources_digest(["halfscale.analysis.roofline"]),
    message:
        "roofline_tables {output.csv}"
    shell:
        "halfscale tables {params.folder:q} --of roofline > {log:q} 2>&1"
