"""No verdict rests on fewer blocks than the config asks for, unless something is counted exactly."""

import pandas as pd
import pytest
from made_up import make_study_folder
from made_up_claims import DYNAMIC, comparison, judge, practices_of, study, timed

from halfscale.analysis.claims_tables import read_claims_table, write_claims_tables
from halfscale.analysis.collect import collect
from halfscale.analysis.samples import write_sample_tables
from halfscale.analysis.tables import write_tables

FP32 = {"name": "fp32", "precision": "fp32"}
RIGHT = {"name": "right", "precision": "fp16", "loss_scaling": DYNAMIC}


def compared(arm, gap):
    tables = study([FP32, arm], **{arm["name"]: {"steps": 5000}})
    return tables | {"equivalence": pd.DataFrame([comparison(arm["name"], "different", gap)])}


def wrong(pitfall, precision="fp16", **values):
    arm = {"name": "wrong", "precision": precision, "pitfall": pitfall}
    return practices_of([RIGHT, arm], {"wrong": [values] * 3}, model="convnet")


def ill_and_cured(**cure):
    runs = {"right": [{"skipped": 20}] * 3, "cure": [{"skipped": 0}] * 3}
    return practices_of([RIGHT, RIGHT | {"name": "cure"} | cure], runs)


DECIDED = {
    "bf16-no-loss": compared({"name": "brain", "precision": "bf16"}, 1.0),
    "fp16-needs-scaling": compared({"name": "bare", "precision": "fp16", "loss_scaling": {"kind": "none"}}, 1.0),
    "defaults-fine": compared({"name": "stock", "precision": "fp16"}, 1.0),
    "clip-order": wrong("clip_before_unscale", cost=1.0),
    "forgotten-update": wrong("update_forgotten", status="refused"),
    "batchnorm-safe": wrong("overflow_ignored", skipped=1, bad_where="buffer stem.norm.running_mean"),
    "master-weights": wrong("half_weights", precision="bf16", lost_updates=0.2),
    "lower-init-scale": ill_and_cured(loss_scaling=DYNAMIC | {"init_scale": 4.0}),
    "stronger-backoff": ill_and_cured(loss_scaling=DYNAMIC | {"backoff_factor": 0.25}),
    "fp32-islands": ill_and_cured(fp32_modules=["head"]),
    "double-speed": timed(a=(3.0, 2.9, 3.1)),
    "no-tensor-cores": timed(device="cpu", a=(0.5, 0.4, 0.6)),
}


BLOCKS = dict.fromkeys(DECIDED, 3) | {"double-speed": 10, "no-tensor-cores": 10}


@pytest.mark.parametrize("claim", DECIDED)
def test_more_blocks_than_there_are_leave_a_claim_open(claim):
    enough = judge(claim, DECIDED[claim], blocks=BLOCKS[claim])
    too_few = judge(claim, DECIDED[claim], blocks=BLOCKS[claim] + 1)
    assert enough.kind in ("supported", "refuted")
    assert too_few.kind == "inconclusive"


def test_a_study_of_one_seed_decides_nothing(tmp_path):
    make_study_folder(tmp_path, seeds=[3])
    collect(tmp_path)
    write_tables(tmp_path)
    write_sample_tables(tmp_path)
    write_claims_tables(tmp_path)
    claims = read_claims_table(tmp_path)
    assert set(claims["verdict"]) == {"inconclusive", "not testable"}
