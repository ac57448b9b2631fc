"""The paper's sentences: each stands where the numbers make it true, and nowhere else."""

import math
import shutil
from dataclasses import replace

import pandas as pd
import pytest

from halfscale.analysis.claims_tables import write_claims_tables
from halfscale.analysis.collect import collect
from halfscale.analysis.prose import Measured, write_prose
from halfscale.analysis.prose.equilibrium import equilibrium, equilibrium_rates, settled_rates
from halfscale.analysis.prose.losses import gap, loss
from halfscale.analysis.prose.method import arms_defined, definitions, twin, workloads
from halfscale.analysis.prose.outcome import abstract_findings, completion
from halfscale.analysis.prose.scaling import scale, skips
from halfscale.analysis.published import write_published_tables
from halfscale.analysis.samples import write_sample_tables
from halfscale.analysis.tables import write_tables


@pytest.fixture(scope="module")
def measured(finished_study, tmp_path_factory):
    folder = tmp_path_factory.mktemp("prose") / "made-up"
    shutil.copytree(finished_study, folder)
    collect(folder)
    write_tables(folder)
    write_sample_tables(folder)
    write_published_tables(folder)
    write_claims_tables(folder)
    return Measured.read(folder)


def change(table, arm, workload="transformer", **values):
    """Return a table with values of one arm replaced."""
    chosen = (table["arm"] == arm) & (table["workload"] == workload)
    assert chosen.any()
    changed = table.copy()
    for name, value in values.items():
        changed.loc[chosen, name] = value
    return changed


def test_every_part_is_written(measured):
    parts = write_prose(measured, described=[])
    assert {"definitions", "abstract_findings", "workloads", "scale", "skips", "equilibrium", "loss", "gap"} <= set(
        parts
    )
    assert all(text.strip() for text in parts.values())


def test_definitions_say_how_long_the_longest_run_is(measured):
    assert r"\newcommand{\longestrun}{60}" in write_prose(measured, [])["definitions"]


def test_definitions_say_what_the_study_has(measured):
    full = definitions(measured)
    assert r"\newcommand{\studyprecisions}{FP32, FP16 and BF16}" in full
    assert r"\newcommand{\studyscaling}{under a range of loss-scaling settings}" in full
    assert r"\newcommand{\studyblocks}{three blocks}" in full
    assert r"\newcommand{\studyfreedom}{two degrees of freedom}" in full
    for name in ("studytwin", "studyintervals", "studyshortinterval", "studyonerate"):
        assert rf"\newif\if{name}\{name}true" in full
    assert r"\studydefaultfalse" in full


def test_definitions_of_a_study_that_has_little(measured):
    plain = definitions(with_arms(measured, "fp32", "fp16-unscaled", seeds=[5]))
    assert r"\newcommand{\studyprecisions}{FP32 and FP16}" in plain
    assert r"\newcommand{\studyscaling}{without loss scaling}" in plain
    for name in ("studytwin", "studyintervals", "studyshortinterval"):
        assert rf"\{name}false" in plain
    assert r"\studyscaling}{with one setting of" in definitions(with_arms(measured, "fp32", "fp16"))


def test_definitions_say_whether_there_is_a_speed_up_to_show(measured):
    timed = pd.DataFrame({"speedup": [float("nan"), 1.2]})
    for variants, word in ((timed, "true"), (timed[:1], "false"), (None, "false")):
        assert rf"\studyspeedup{word}" in definitions(replace(measured, variants=variants))


def with_arms(measured, *names, **settings):
    """Return a study whose plan has these arms alone, and other settings of the study."""
    plan = measured.plan
    study = plan.study.model_copy(update=settings)
    arms = [arm for arm in plan.arms if arm.name in names]
    return replace(measured, plan=plan.model_copy(update={"study": study, "arms": arms}))


def test_completion_names_each_arm_that_diverged_with_its_counts(measured):
    text = completion(measured)
    assert r"one of the three runs of \code{fp16-unscaled} on \code{resnet50}" in text
    assert r"all three runs of \code{fp16-static-2e10} on \code{resnet50}" in text
    assert "none diverged" not in text
    assert r"does not have the precision of \code{bf16-fallback}, which ran in FP32" in text


def test_completion_where_nothing_diverged(measured):
    text = completion(replace(measured, arms=measured.arms.assign(diverged=0, fell_back=False)))
    assert "All of them ran to the end; none diverged." in text
    assert "FP32 instead" not in text


def test_abstract_counts_runs_and_comparisons(measured):
    inside = measured.arms.assign(gap_low=-1.0, gap_high=1.0)
    text = abstract_findings(replace(measured, arms=inside))
    compared = int((measured.treatments["gap_n"] > 1).sum())
    assert f"contains zero in {compared} of {compared} comparisons" in text
    widths = r"$1.00$ nats on \code{resnet50} and $1.00$ nats on \code{transformer}"
    assert f"the median half-width of these intervals is {widths}" in text
    assert "Divergence leaves one arm without a comparison." in text
    assert "Of 57 runs, four diverge." in text
    assert "None of the 57 runs diverges." in abstract_findings(
        replace(measured, runs=measured.runs.assign(status="completed"))
    )


def test_abstract_makes_no_comparison_of_single_blocks(measured):
    assert "comparisons" not in abstract_findings(replace(measured, arms=measured.arms.assign(gap_n=1)))


def test_gap_says_which_intervals_contain_zero(measured):
    arms = measured.arms.assign(gap_low=-1.0, gap_high=1.0)
    assert "The interval of every arm contains zero." in gap(
        "transformer", replace(measured, arms=arms).of("transformer")
    )
    arms = change(arms, "fp16", gap_low=0.5)
    text = gap("transformer", replace(measured, arms=arms).of("transformer"))
    assert r"The interval excludes zero for \code{fp16}, whose mean gap is \val{transformer.fp16.gap} nats" in text
    assert "it contains zero for every other arm that has one." in text


def test_a_single_arm_is_given_with_its_gap_and_its_skips_once(measured):
    part = measured.of("transformer")
    arms = part.arms[part.arms["arm"].isin(["fp32", "fp16"])].assign(gap_low=-1.0, gap_high=1.0)
    alone = replace(part, arms=arms, runs=part.runs[part.runs["arm"].isin(["fp32", "fp16"])])
    text = gap("transformer", alone)
    assert r"The mean gap of \code{fp16} is \val{transformer.fp16.gap} nats" in text
    assert "; the interval contains zero." in text
    assert "largest share" not in skips("transformer", alone)
    assert "largest share" in skips("transformer", part)


def test_an_interval_that_ends_at_zero_contains_it(measured):
    arms = measured.arms.assign(gap_low=0.0, gap_high=0.0)
    assert "The interval of every arm contains zero." in gap(
        "transformer", replace(measured, arms=arms).of("transformer")
    )


def test_of_many_arms_apart_just_the_farthest_is_given_in_numbers(measured):
    arms = measured.arms.assign(gap_low=0.5, gap_high=1.0, gap=0.75)
    arms = change(arms, "bf16", gap=-5.0)
    text = gap("transformer", replace(measured, arms=arms).of("transformer"))
    assert r"of which \code{bf16} lies farthest out, at \val{transformer.bf16.gap} nats" in text
    assert r"\val{transformer.fp16.gap}" not in text


def test_gaps_are_held_against_the_largest_of_the_twin(measured):
    part = measured.of("transformer")
    largest = part.gaps.loc[part.gaps["arm"] == "fp32-ulp", "gap"].abs().max()
    within = replace(part, arms=part.arms.assign(gap=largest))
    assert "No arm's mean gap is larger in magnitude" in gap("transformer", within)
    beyond = replace(within, arms=change(within.arms, "fp16", gap=-2 * largest))
    assert r"the mean gap of \code{fp16} is larger than any that the twin shows" in gap("transformer", beyond)


def test_single_blocks_have_no_interval(measured):
    arms = change(measured.arms.assign(gap_n=1), "bf16", gap=-5.0)
    text = gap("transformer", replace(measured, arms=arms).of("transformer"))
    assert text.startswith(
        "No arm has the two complete blocks that an interval takes; the largest gap in magnitude is that of "
        r"\code{bf16}, \val{transformer.bf16.gap} nats."
    )
    none = gap("transformer", replace(measured, arms=arms.assign(gap=math.nan)).of("transformer"))
    assert none.startswith("No arm has the two complete blocks that an interval takes.")
    assert "interval contains" not in text


def test_scaled_bf16_is_held_against_its_prediction(measured):
    part = measured.of("transformer")
    assert r"Against the prediction of Section~\ref{sec:scaling}" in gap("transformer", part)
    same = part.runs.loc[part.runs["arm"] == "bf16", "final_loss"].to_numpy()
    as_predicted = replace(part, runs=change(part.runs, "bf16-scaled", final_loss=same))
    assert r"As Section~\ref{sec:scaling} predicts" in gap("transformer", as_predicted)


def test_fp16_arms_of_the_same_loss_are_named_together(measured):
    part = measured.of("transformer")
    assert "ended with the same loss" not in gap("transformer", part)
    same = part.runs.loc[part.runs["arm"] == "fp16", "final_loss"].to_numpy()
    alike = replace(part, runs=change(part.runs, "fp16-static-2e10", final_loss=same))
    sentence = r"\code{fp16} and \code{fp16-static-2e10} ended with the same loss, bit for bit, in every block."
    assert sentence in gap("transformer", alike)
    diverged = replace(part, runs=change(alike.runs, "fp16", final_loss=math.nan))
    assert "ended with the same loss" not in gap("transformer", diverged)


def test_loss_names_the_lowest_and_the_highest_arm(measured):
    arms = change(change(measured.arms, "bf16", final_loss=0.1), "fp16", final_loss=9.0)
    text = loss("transformer", replace(measured, arms=arms).of("transformer"))
    assert r"between \val{transformer.bf16.final_loss} (\code{bf16}) and \val{transformer.fp16.final_loss}" in text
    assert r"an excess of \val{transformer.fp32.final_excess}" in text


def test_losses_alike_to_the_digits_shown_are_no_range(measured):
    arms = measured.arms.assign(final_loss=2.2801)
    text = loss("transformer", replace(measured, arms=change(arms, "fp16", final_loss=2.2802)).of("transformer"))
    assert "to the digits given here" in text
    assert "between" not in text


def test_loss_without_an_oracle_has_no_excess(measured):
    assert "excess" not in loss("resnet50", measured.of("resnet50"))


def test_loss_where_the_reference_diverged(measured):
    arms = change(measured.arms, "fp32", completed=0)
    assert "completed no run" in loss("transformer", replace(measured, arms=arms).of("transformer"))


def test_the_arm_farthest_off_on_held_out_samples_is_named_with_its_values(measured):
    arms = measured.arms.assign(eval_loss=2.5, eval_accuracy=0.5)
    arms = change(change(arms, "bf16", eval_loss=2.1), "fp16", eval_accuracy=0.25)
    text = loss("transformer", replace(measured, arms=arms).of("transformer"))
    assert (
        r"The held-out loss that differs most from that of \code{fp32}, \val{transformer.fp32.eval_loss} nats, is that of "
        r"\code{bf16}, \val{transformer.bf16.eval_loss} nats."
    ) in text
    assert r"\code{fp16}, \val{transformer.fp16.eval_accuracy}\,\%." in text
    level = loss("transformer", replace(measured, arms=arms.assign(eval_loss=2.5)).of("transformer"))
    assert r"No arm's held-out loss differs from that of \code{fp32}" in level


def test_a_twin_that_hardly_parts_is_the_floor_of_a_run_of_this_length(measured):
    part = measured.of("transformer")
    assert "So little has rounding grown" not in gap("transformer", part)
    tiny = replace(part, gaps=change(part.gaps, "fp32-ulp", gap=1e-8))
    assert "So little has rounding grown" in gap("transformer", tiny)


def test_arms_that_are_the_same_runs_are_counted_once(measured):
    assert measured.repeats == {}
    ids = measured.runs.query("arm == 'fp16' and workload == 'transformer'")["run_id"].to_numpy()
    same = replace(measured, runs=change(measured.runs, "fp16-static-2e10", run_id=ids))
    assert same.repeats == {("transformer", "fp16-static-2e10"): "fp16"}
    assert (
        r"\code{fp16-static-2e10} differs from \code{fp16} in settings without effect alone: on \code{transformer} the two "
        "are the same runs, counted once and under the latter name."
    ) in completion(same)
    once = same.without_repeats()
    assert [len(once.runs), len(once.arms), len(once.gaps)] == [
        len(measured.runs) - 3,
        len(measured.arms) - 1,
        len(measured.gaps) - 3,
    ]
    compared = len(same.treatments.query("gap_n > 1"))
    assert f"of {compared - 1} comparisons" in write_prose(same, [])["abstract_findings"]


def test_causes_that_skipped_nothing_are_left_out(measured):
    part = measured.of("transformer")
    runs = part.runs.assign(skipped_sporadic=0, skipped_growth_probe=0, skipped_calibration=part.runs["skipped"])
    text = skips("transformer", replace(part, runs=runs))
    assert ": all of them in calibration." in text
    assert "growth probes" not in text


def test_another_learning_rate_is_no_partner_and_no_twin(measured):
    arms = [
        arm.model_copy(update={"lr_factor": 0.5}) if arm.name in ("bf16-scaled", "fp32-ulp") else arm
        for arm in measured.plan.arms
    ]
    other = replace(measured, plan=measured.plan.model_copy(update={"arms": arms}))
    assert measured.twins == ["fp32-ulp"]
    assert other.twins == []
    assert "scaling the loss" not in gap("transformer", other.of("transformer"))
    assert r"learning rate $\times$ $0.5$" in arms_defined(other.plan)


def test_arms_at_another_learning_rate_are_held_against_the_reference_there(measured):
    """The twin, made the reference's settings at three times its rate, is no treatment; bf16 is its, and is no candidate."""
    arms = [
        arm.model_copy(update={"lr_factor": 3.0, "perturb": "none"}) if arm.name in ("bf16", "fp32-ulp") else arm
        for arm in measured.plan.arms
    ]
    other = replace(measured, plan=measured.plan.model_copy(update={"arms": arms})).of("transformer")
    assert other.references["bf16"] == "fp32-ulp"
    assert {"fp32", "fp32-ulp"}.isdisjoint(other.treatments["arm"])
    assert "bf16" in set(other.treatments["arm"])
    far = replace(other, arms=change(other.arms, "bf16", eval_loss=99.0))
    text = loss("transformer", far)
    assert "held-out loss that differs most at its learning rate from that of" in text
    assert "that differs most at its learning rate" not in loss("transformer", measured.of("transformer"))
    assert r"is that of \code{bf16}" not in text


def test_the_table_of_arms_is_cut_where_there_are_too_many(measured, monkeypatch):
    monkeypatch.setattr("halfscale.analysis.prose.method.MOST_ROWS", 3)
    table = arms_defined(measured.plan)
    assert [line.split(" & ")[0] for line in table.splitlines() if line.startswith(r"\code")] == [
        r"\code{fp32}", r"\code{fp16-unscaled}", r"\code{bf16-scaled}"
    ]  # fmt: skip
    assert "The arms, by precision. Not all arms are shown but 3 of 10 of the study: thinned" in table
    assert r"\studycuttrue" in definitions(measured)
    monkeypatch.undo()
    assert r"\studycutfalse" in definitions(measured)
    assert r"\caption{The arms, by precision.}" in arms_defined(measured.plan)


def test_scale_tells_where_it_went(measured):
    arms = change(measured.arms, "fp16", init_scale=2.0**16, final_scale=2.0**18)
    arms = change(arms, "fp16-init-2e24", init_scale=2.0**24, final_scale=2.0**15)
    text = scale("transformer", replace(measured, arms=arms).of("transformer"))
    assert text.startswith(
        "The two dynamic FP16 arms began between $2^{16}$ and $2^{24}$ and ended, in their median runs, "
        "between $2^{15}$ and $2^{18}$."
    )
    assert r"The scale of \code{fp16-init-2e24} came down farthest" in text
    assert r"The scale of \code{fp16} rose most" in text
    assert r"Outside FP16, the scale of \code{bf16-scaled} went" in text


def test_scale_that_never_moved(measured):
    arms = change(measured.arms, "fp16", growths=0, backoffs=0, final_scale=2.0**16)
    assert r"The scale of \code{fp16} never moved." in scale(
        "transformer", replace(measured, arms=arms).of("transformer")
    )


def test_skips_add_up(measured):
    part = measured.of("transformer")
    scaled = part.runs[part.runs["loss_scaling"] != "none"]
    text = skips("transformer", part)
    assert (
        f"Of the ${scaled['steps'].sum()}$ steps that were run with a scaled loss, ${scaled['skipped'].sum()}$" in text
    )
    assert r"\code{fp16-static-2e10} and \code{bf16-scaled} skipped none." in text


def test_no_skips(measured):
    part = measured.of("transformer")
    text = skips("transformer", replace(part, runs=part.runs.assign(skipped=0)))
    assert "was skipped." in text
    assert "calibration" not in text


def test_overflow_without_a_scaler_is_told(measured):
    arms = change(measured.arms, "fp16-unscaled", overflows=3)
    text = skips("transformer", replace(measured, arms=arms).of("transformer"))
    assert r"\code{fp16-unscaled} has no scaler that could skip a step" in text


@pytest.mark.parametrize(
    ("growth_factor", "backoff_factor", "interval", "mean_field", "bound"),
    [
        (2.0, 0.5, 2000, 1 - 2 ** (-1 / 2000), 1 / 2001),
        (2.0, 0.5, 1, 0.5, 0.5),
        (2.0, 0.25, 20, 1 - 1.5 ** (-1 / 20), 1 / 41),
        (4.0, 0.5, 20, 1 - 3 ** (-1 / 20), 1 / 11),
    ],
)
def test_equilibrium_has_a_closed_form(growth_factor, backoff_factor, interval, mean_field, bound):
    assert equilibrium_rates(growth_factor, backoff_factor, interval) == pytest.approx((mean_field, bound), rel=1e-12)


def test_only_long_natural_fp16_runs_are_held_against_it(measured):
    # fp16 grows every 5 steps; fp16-init-2e24 every 20 of 60, too few; bf16-scaled cannot overflow.
    assert [(rate.workload, rate.arm) for rate in settled_rates(measured)] == [
        ("resnet50", "fp16"),
        ("transformer", "fp16"),
    ]


def test_a_falling_scale_may_exceed_the_bound_and_a_level_one_lies_between(measured):
    runs = measured.runs.assign(skipped_calibration=0)
    # N = 5: between p* = 12.9 % and the bound 16.7 % for one workload, beyond it for the other.
    runs = change(runs, "fp16", "transformer", skipped=9, steps=60, backoffs=9, growths=9)
    runs = change(runs, "fp16", "resnet50", skipped=20, steps=40, backoffs=20, growths=4)
    text = equilibrium(replace(measured, runs=runs))
    fallen, level = (rf"\code{{fp16}} on \code{{{workload}}}" for workload in ("resnet50", "transformer"))
    assert f"ended lower than it began for {fallen}; and where it began for {level}." in text
    exceeds = f"The share exceeds the bound for {fallen}, as it may where a scale falls"
    assert f"{exceeds}; and lies between the two for {level}." in text
    assert "which allows for the drift, holds throughout." in text
    assert "$0$ & $12.9$ & $15.0$ & $16.7$" in text
    assert "$-16.0$ & $12.9$ & $50.0$ & $16.7$" in text


def test_the_drift_bound_is_met_with_equality_where_no_clean_step_is_lost(measured):
    # One run: 4 growths take 20 clean steps, and 20 steps are skipped: p = 1/2 = (1 + 5 x 16 / 40) / 6.
    runs = change(
        measured.runs, "fp16", "resnet50", steps=40, skipped=20, skipped_calibration=0, backoffs=20, growths=4
    )
    rate = next(settled_rates(replace(measured, runs=runs)))
    assert (rate.drift, rate.measured) == (-16, 0.5)
    assert rate.drift_bound == pytest.approx(0.5, rel=1e-12)


def test_a_rising_scale_may_skip_less(measured):
    runs = measured.runs.assign(skipped=0, skipped_calibration=0, backoffs=0, growths=8)
    text = equilibrium(replace(measured, runs=runs))
    assert "ended higher than it began for" in text
    assert "The share lies below both for" in text
    assert ", as it may where a scale rises." in text


def test_calibration_is_no_drift(measured):
    runs = change(measured.runs, "fp16", "resnet50", steps=40, skipped=7, skipped_calibration=4, backoffs=7, growths=3)
    assert next(settled_rates(replace(measured, runs=runs))).drift == 0


def test_more_skips_than_the_drift_allows_are_told(measured):
    runs = change(
        measured.runs, "fp16", "resnet50", steps=40, skipped=30, skipped_calibration=0, backoffs=30, growths=4
    )
    text = equilibrium(replace(measured, runs=runs))
    assert r"Even with the drift allowed for, Equation~\eqref{eq:driftbound} fails for \code{fp16} on" in text


def test_equilibrium_of_short_runs(measured):
    assert "tab:equilibrium" not in equilibrium(replace(measured, runs=measured.runs.assign(steps=10)))


def test_arms_are_listed_with_their_settings(measured):
    table = arms_defined(measured.plan)
    assert r"dynamic, $S_0 = 2^{24}$, $N = 20$, $\gamma = 2$, $b = 0.5$" in table
    assert r"static, $S = 2^{10}$" in table
    assert "infinite gradient at steps 7 and 30" in table
    assert r"\code{transformer} only" in table


def test_a_study_without_a_twin_says_so(measured):
    assert "no treatment at all" in twin(measured)
    arms = [arm for arm in measured.plan.arms if arm.perturb == "none"]
    alone = replace(measured, plan=measured.plan.model_copy(update={"arms": arms}))
    assert "has no twin" in twin(alone)


def test_workloads_take_their_description_where_there_is_one(measured):
    assert r"The model is \input{models/resnet50}." in workloads(measured.plan, {"models/resnet50"})
    assert r"The model is \code{resnet50}." in workloads(measured.plan, set())


def test_workloads_give_the_settings_of_model_and_data(measured):
    first, *others = measured.plan.study.workloads
    model_args = {"vocabulary": 32, "depth": 2, "zero_init_residual": True}
    data_args = {"vocabulary": 32, "order": 1}
    chosen = first.model_copy(update={"model_args": model_args, "data_args": data_args})
    study = measured.plan.study.model_copy(update={"workloads": [chosen, *others]})
    text = workloads(measured.plan.model_copy(update={"study": study}), set())
    settings = r"a vocabulary of $32$ tokens, a depth of $2$ and \code{zero\_init\_residual} = \code{true}"
    assert f"It has {settings}." in text
    assert r"They have an order of $1$." in text
