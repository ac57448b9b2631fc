# From tables and figures to the paper.


rule macros:
    input:
        plan=rules.plan.output,
        # Stands for the records of the runs too, of which there may be thousands: it is newer than all of them.
        runs=rules.collect.output.runs,
        arms=rules.tables.output.arms,
        samples=rules.sample_tables.output,
        published=rules.published_tables.output.csv,
        experiments=experiment_tables("csv"),
        claims=rules.claims.output.csv,
    output:
        tex=f"{FOLDER}/paper/macros.tex",
        json=f"{FOLDER}/paper/macros.json",
    log:
        f"{FOLDER}/logs/macros.log",
    localrule: True
    conda:
        ENVIRONMENT
    params:
        folder=subpath(output.tex, ancestor=2),
        code=sources_digest(["halfscale.analysis.macros"]),
    message:
        "macros {output.tex}"
    shell:
        "halfscale macros {params.folder:q} > {log:q} 2>&1"


rule paper:
    input:
        sources=paper_sources,
        macros=rules.macros.output,
        plan=rules.plan.output,
        runs=rules.collect.output.runs,
        tables=rules.tables.output,
        samples=rules.sample_tables.output,
        published=rules.published_tables.output,
        experiments=experiment_tables("csv") + experiment_tables("tex"),
        claims=rules.claims.output,
        figures=expand(
            f"{FOLDER}/figures/{{figure}}.{{suffix}}",
            figure=FIGURES,
            suffix=["pdf", "json"],
        ),
    output:
        report(
            f"{FOLDER}/paper.pdf",
            caption="../report/paper.rst",
            category="Paper",
            labels={"what": "The paper"},
        ),
    log:
        f"{FOLDER}/logs/paper.log",
    localrule: True
    conda:
        ENVIRONMENT
    params:
        folder=subpath(output[0], parent=True),
        sources=PAPER,
        code=sources_digest(["halfscale.analysis.paper"]),
    message:
        "paper {output}"
    shell:
        "halfscale paper {params.folder:q} --sources {params.sources:q} > {log:q} 2>&1"
