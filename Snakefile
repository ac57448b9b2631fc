# halfscale: from one config file to the paper. The rules stand in workflow/rules, one file a stage.
from snakemake.utils import min_version

min_version("9.16")


include: "workflow/rules/common.smk"
include: "workflow/rules/train.smk"
include: "workflow/rules/analysis.smk"
include: "workflow/rules/output_dtypes.smk"
include: "workflow/rules/probe.smk"
include: "workflow/rules/throughput.smk"
include: "workflow/rules/memory.smk"
include: "workflow/rules/roofline.smk"
include: "workflow/rules/practices.smk"
include: "workflow/rules/published.smk"
include: "workflow/rules/claims.smk"
include: "workflow/rules/paper.smk"


report: "workflow/report/study.rst"


rule all:
    default_target: True
    input:
        study_targets(),
    localrule: True
    message:
        "study {STUDY.study}"
