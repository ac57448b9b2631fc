"""The columns of each table: what reads a table may rely on them, so that one that lacks any is refused by name."""

COLUMNS: dict[str, str] = {
    "arms": """
        workload arm n completed diverged diverged_low diverged_high precision fell_back backend
        loss_scaling init_scale growth_factor backoff_factor growth_interval final_scale steps updates
        skipped skipped_calibration skipped_growth_probe skipped_sporadic overflows growths backoffs
        final_loss final_loss_low final_loss_high final_excess final_excess_low final_excess_high eval_loss
        eval_loss_low eval_loss_high eval_excess eval_excess_low eval_excess_high eval_accuracy
        eval_accuracy_low eval_accuracy_high gap gap_low gap_high gap_n
    """,
    "autocast_operations": "operation precision cpu cuda cuda_how differs",
    "claims": "id verdict statement estimate low high interval unit n finding would_decide rule table rows",
    "equivalence": """
        workload arm reference n of gap low high bca_low bca_high tost_low tost_high margin p_tost p_holm
        p_different p_different_holm smallest_margin smallest_margin_sd verdict
    """,
    "exponents": "workload step exponent count",
    "gaps": "workload arm seed gap eval_gap",
    "largest_batch": "case device precision batch_size how",
    "memory": """
        case accounting precision batch_size weights gradients optimizer inputs activations weight_copies
        temporaries peak saved ratio measured allocated reserved retries residual
    """,
    "output_dtypes": "workload order module kind function call device how precision dtype between differs",
    "output_dtypes_passes": "workload device precision how outputs half fp32 other between differs gradients never_called why",
    "practices": """
        case arm reference pitfall n completed diverged refused steps updates skipped growths backoffs
        final_scale first_lr lost_updates final_loss cost cost_low cost_high eval_loss first_bad_step
        bad_where later_steps later_finite said
    """,
    "practices_runs": """
        case arm seed status cost steps updates skipped growths backoffs final_scale first_lr initial_loss
        final_loss final_excess lost_updates eval_loss first_bad_step bad_where later_steps later_finite
        said
    """,
    "predicted_flushed": "workload arm exponent elements predicted observed",
    "predicted_skips": "workload arm seed predicted_skips skips predicted_scale scale growth",
    "probe": """
        workload step elements norm largest true_zero plateau bf16_error low high low_open high_open
        bits default_inside crossover crossover_open layers_low layers_high layers_low_open
        layers_high_open layers_bits layers_noise layers_without flushed_unscaled flushed_default
    """,
    "probe_layers": """
        workload step parameter low high low_open high_open noise plateau bf16_error norm largest
    """,
    "probe_scales": "workload step precision exponent overflow error cosine true_zero flushed subnormal",
    "published": """
        key kind source hardware model unit baseline baseline_value baseline_spread half half_value
        half_spread baseline_mb half_mb changed device roofline_model roofline_size ratio memory_ratio
        bound_batch bound_fp32 bound_tf32
    """,
    "roofline": "case batch_size device precision flops bytes step_ms speedup matrix_share compute_bound amdahl",
    "runs": """
        workload arm seed run_id status precision fell_back device backend loss_scaling init_scale
        growth_factor backoff_factor growth_interval steps updates skipped skipped_calibration
        skipped_growth_probe skipped_sporadic overflows growths backoffs final_scale initial_loss final_loss
        final_excess floor eval_loss eval_excess eval_accuracy first_bad_step bad_where first_instability
        instability
    """,
    "samples": """
        workload arm seed step elements zero below_fp16 moved lost_bf16 lost_fp16 update_ratio headroom
        sharpness distance distance_ratio
    """,
    "sensitivity": """
        workload arm precision rates lowest_lr highest_lr runs diverged best_lr best_loss n of sensitivity
        low high excess excess_low excess_high
    """,
    "sensitivity_runs": "workload arm precision lr seed status initial_loss final_loss loss",
    "survival": "workload arm steps at_risk divergence sporadic growth_probe spike censored surviving surviving_se",
    "throughput": """
        workload variant label precision loss_scaling memory_format batch_size compile fused status warmup
        steady scale blocks spread disturbed step_ms step_ms_low step_ms_high forward_ms backward_ms
        optimizer_ms samples_per_second targets_per_second tflops share_of_gemm gemm_tflops
        copy_gb_per_second transfer_ms mfu least_ms share_of_bound speedup speedup_low speedup_high
        scaler_cost scaler_cost_low scaler_cost_high sm_clock_low sm_clock_high held_back launch_gap
        loader_ms waiting input_bound
    """,
    "throughput_blocks": "workload variant block step_ms speedup",
}
"""The columns that every study's tables/<name>.csv has, in their order, by its name.

Where arms are trained at several learning rates, runs, arms and gaps have `lr_factor` or `reference` besides.
"""
