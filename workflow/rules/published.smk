# What others published, beside what the study predicts and times.


rule published_tables:
    input:
        data=published_data,
        plan=rules.plan.output,
        roofline=rules.roofline_tables.output.csv if PLAN.roofline else [],
        throughput=rules.throughput_tables.output.csv if PLAN.throughput else [],
    output:
        csv=report(
            f"{FOLDER}/tables/published.csv",
            caption="../report/published.rst",
            category="Roofline",
            labels={"what": "Published speed-ups beside the bounds"},
        ),
        tex=f"{FOLDER}/tables/published.tex",
    log:
        f"{FOLDER}/logs/published_tables.log",
    localrule: True
    conda:
        ENVIRONMENT
    params:
        folder=subpath(output.csv, ancestor=2),
        code=sources_digest(["halfscale.analysis.published"]),
    message:
        "published_tables {output.csv}"
    shell:
        "halfscale tables {params.folder:q} --of published > {log:q} 2>&1"
