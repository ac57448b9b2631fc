# Claims about half precision, judged by what the study has of tables.


rule claims:
    input:
        plan=rules.plan.output,
        evidence=claim_evidence,
    output:
        csv=report(
            f"{FOLDER}/tables/claims.csv",
            caption="../report/claims.rst",
            category="Claims",
            labels={"what": "Claims on trial"},
        ),
        tex=f"{FOLDER}/tables/claims.tex",
    log:
        f"{FOLDER}/logs/claims.log",
    localrule: True
    conda:
        ENVIRONMENT
    params:
        folder=subpath(output.csv, ancestor=2),
        code=sources_digest(["halfscale.analysis.claims_tables", *claim_modules()]),
    message:
        "claims {output.csv}"
    shell:
        "halfscale tables {params.folder:q} --of claims > {log:q} 2>&1"
