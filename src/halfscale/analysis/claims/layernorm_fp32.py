"""layernorm-fp32."""

from halfscale.analysis.claims._verdict import Kind, Tables, Verdict, keys, untestable
from halfscale.study.claims import Claims

STATEMENT = "autocast keeps LayerNorm and softmax in FP32"
RULE = (
    "The dtypes of layer_norm and softmax under each 16-bit autocast of the CPU, measured, and of CUDA, measured or predicted by "
    "fake tensors: supported where all are float32 on both; refuted where any is not; inconclusive where one of the devices was "
    "not looked at. They are the same on every run."
)
TABLES = ("autocast_operations",)
SHOWN = ("fig:output_dtypes", "tab:autocast_operations")

OPERATIONS = ("layer_norm", "softmax")
DEVICES = {"cpu": "the CPU", "cuda": "CUDA"}


def judge(tables: Tables, thresholds: Claims) -> Verdict:
    """Return the verdict."""
    if "autocast_operations" not in tables:
        return untestable("The study looks at no dtypes.", "`experiments.output_dtypes`")
    table = tables["autocast_operations"]
    table = table[table["operation"].isin(OPERATIONS) & table["precision"].isin(["bf16", "fp16"])]
    known = {device: table[device].dropna() for device in DEVICES}
    shares = {device: float((dtypes == "float32").mean()) for device, dtypes in known.items() if len(dtypes)}
    if not shares:
        return untestable("Neither operation was looked at.", "`experiments.output_dtypes`")
    found = " and ".join(
        f"{int((known[device] == 'float32').sum())} of {len(known[device])} on {DEVICES[device]}" for device in shares
    )
    device = min(shares, key=lambda name: shares[name])
    kind: Kind = "refuted" if shares[device] < 1 else "supported" if len(shares) == len(DEVICES) else "inconclusive"
    return Verdict(
        kind,
        f"Of `layer_norm` and `softmax` in BF16 and FP16, {found} are FP32.",
        estimate=100 * shares[device],
        interval="the same on every run",
        unit=f"% of the operations on {DEVICES[device]}",
        n=len(known[device]),
        table="tables/autocast_operations.csv",
        rows="; ".join(keys(operation=name) for name in OPERATIONS),
        would_decide="a look at both devices" if kind == "inconclusive" else "",
    )
