# From runs to tables and figures.


rule plan:
    output:
        f"{FOLDER}/plan.json",
    log:
        f"{FOLDER}/logs/plan.log",
    localrule: True
    conda:
        ENVIRONMENT
    params:
        study=STUDY.model_dump_json(),
        code=sources_digest(["halfscale.study.runs"]),
    message:
        "plan {STUDY.study}: {output}"
    # By a pipe from a builtin: as an argument, a study of many hundreds of arms would be longer than the system takes.
    shell:
        "printf %s {params.study:q} | halfscale plan --study - --output {output:q} > {log:q} 2>&1"


rule collect:
    input:
        plan=rules.plan.output,
        records=run_records,
    output:
        runs=report(
            f"{FOLDER}/tables/runs.csv",
            caption="../report/runs.rst",
            category="Stability",
            subcategory="Tables",
            labels={"what": "Every run"},
        ),
        traces=f"{FOLDER}/traces.parquet",
        environments=f"{FOLDER}/environments.json",
    log:
        f"{FOLDER}/logs/collect.log",
    localrule: True
    conda:
        ENVIRONMENT
    params:
        folder=subpath(output.runs, ancestor=2),
        code=sources_digest(["halfscale.analysis.collect"]),
    message:
        "collect {output.runs}"
    shell:
        "halfscale collect {params.folder:q} > {log:q} 2>&1"


rule tables:
    input:
        plan=rules.plan.output,
        runs=rules.collect.output.runs,
    output:
        arms=report(
            f"{FOLDER}/tables/arms.csv",
            caption="../report/arms.rst",
            category="Stability",
            subcategory="Tables",
            labels={"what": "Every arm"},
        ),
        gaps=report(
            f"{FOLDER}/tables/gaps.csv",
            caption="../report/gaps.rst",
            category="Stability",
            subcategory="Tables",
            labels={"what": "Gap to FP32, by block"},
        ),
        survival=report(
            f"{FOLDER}/tables/survival.csv",
            caption="../report/survival.rst",
            category="Stability",
            subcategory="Tables",
            labels={"what": "Time to first instability"},
        ),
        tex=[f"{FOLDER}/tables/{table}.tex" for table in ("arms", "runs", "scaling")],
    log:
        f"{FOLDER}/logs/tables.log",
    localrule: True
    conda:
        ENVIRONMENT
    params:
        folder=subpath(output.arms, ancestor=2),
        code=sources_digest(["halfscale.analysis.tables"]),
    message:
        "tables {output.arms}"
    shell:
        "halfscale tables {params.folder:q} > {log:q} 2>&1"


rule equivalence_tables:
    input:
        plan=rules.plan.output,
        runs=rules.collect.output.runs,
        gaps=rules.tables.output.gaps,
    output:
        csv=report(
            f"{FOLDER}/tables/equivalence.csv",
            caption="../report/equivalence.rst",
            category="Stability",
            subcategory="Tables",
            labels={"what": "Equivalence to FP32"},
        ),
        tex=f"{FOLDER}/tables/equivalence.tex",
    log:
        f"{FOLDER}/logs/equivalence_tables.log",
    localrule: True
    conda:
        ENVIRONMENT
    params:
        folder=subpath(output.csv, ancestor=2),
        code=sources_digest(["halfscale.analysis.equivalence"]),
    message:
        "equivalence_tables {output.csv}"
    shell:
        "halfscale tables {params.folder:q} --of equivalence > {log:q} 2>&1"


rule sensitivity_tables:
    input:
        plan=rules.plan.output,
        runs=rules.collect.output.runs,
    output:
        csv=report(
            f"{FOLDER}/tables/sensitivity.csv",
            caption="../report/sensitivity.rst",
            category="Stability",
            subcategory="Tables",
            labels={"what": "Learning-rate sensitivity"},
        ),
        losses=f"{FOLDER}/tables/sensitivity_runs.csv",
        tex=f"{FOLDER}/tables/sensitivity.tex",
    log:
        f"{FOLDER}/logs/sensitivity_tables.log",
    localrule: True
    conda:
        ENVIRONMENT
    params:
        folder=subpath(output.csv, ancestor=2),
        code=sources_digest(["halfscale.analysis.sensitivity"]),
    message:
        "sensitivity_tables {output.csv}"
    shell:
        "halfscale tables {params.folder:q} --of sensitivity > {log:q} 2>&1"


rule sample_tables:
    input:
        plan=rules.plan.output,
        records=run_records,
    output:
        samples=report(
            f"{FOLDER}/tables/samples.csv",
            caption="../report/samples.rst",
            category="Inside the runs",
            labels={"what": "Every sampled step"},
        ),
        exponents=report(
            f"{FOLDER}/tables/exponents.csv",
            caption="../report/exponents.rst",
            category="Inside the runs",
            labels={"what": "Gradient exponents"},
        ),
    log:
        f"{FOLDER}/logs/sample_tables.log",
    localrule: True
    conda:
        ENVIRONMENT
    params:
        folder=subpath(output.samples, ancestor=2),
        code=sources_digest(["halfscale.analysis.samples"]),
    message:
        "sample_tables {output.samples}"
    shell:
        "halfscale tables {params.folder:q} --of samples > {log:q} 2>&1"


for job, categories in FIGURE_JOBS.items():
    names = [name for name in FIGURES if figure_category(name) in categories]
    if not names:
        continue

    rule:
        name:
            f"figures_{job}"
        input:
            sorted({f"{FOLDER}/{path}" for name in names for path in figure_inputs(name)}),
            # For the sidecars, which name the devices of all runs.
            environments=rules.collect.output.environments,
        output:
            [figure_file(name, suffix) for name in names for suffix in FIGURE_FILES],
        log:
            f"{FOLDER}/logs/figures_{job}.log",
        localrule: True
        conda:
            ENVIRONMENT
        params:
            folder=subpath(output[0], ancestor=2),
            names=names,
            code=sources_digest(["halfscale.analysis.draw", *(f"halfscale.analysis.figures.{name}" for name in names)]),
        message:
            f"figures_{job}: {', '.join(names)}"
        shell:
            "halfscale figure {params.folder:q} {params.names:q} > {log:q} 2>&1"
