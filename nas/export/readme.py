"""What stands beside an exported network: what it is, and how it is built and timed on a board."""

from __future__ import annotations

from string import Template
from typing import Any

from nas.export.docstring import plain
from nas.export.found import Found

_README = Template("""# $arch

$title for $dataset, $named of a search for T = $limit ms on $device.

| | |
|---|---|
| accuracy | $accuracy |
| its source | $accuracy_source |
| latency | $latency |
| its source | $latency_source |
| latency of `network.onnx` on THIS machine, where it was exported | $here |
| that against the value above | $comparison |
| parameters | $parameters |
| input, output | `input_0` ($shape, fp32), `output` (1, $classes) |
| checks | `network.py` in a fresh interpreter: bit-exact; ONNX Runtime against torch: max abs error $error of a logit (largest logit $largest, allowed $tolerance) |

**The weights are not trained.** They are torch's initialisation of seed $seed, with the statistics of
noise in the batch normalisations. The time of an inference depends on shapes, not on them; train
before you use the output.

    import torch
    from safetensors.torch import load_file
    from network import Network

    network = Network()
    network.load_state_dict(load_file("weights.safetensors"))
    network.eval()

## TensorRT

Build on the board itself: an engine fits one GPU and one version of TensorRT. On Jetson, `trtexec` is
in `/usr/src/tensorrt/bin`.

    trtexec --onnx=network.onnx --saveEngine=network-fp32.engine
    trtexec --onnx=network.onnx --saveEngine=network-fp16.engine --fp16

`--fp16` allows 16 bits where they are faster; it is another device id (`/fp16/`) than fp32, and its
outputs differ. TensorRT 11 has no such option: there the types of the file are those of the engine,
so convert `network.onnx` first, as with the AutoCast of NVIDIA's Model Optimizer. Without `--noTF32`
GPUs since Ampere, as in Jetson Orin, may compute an fp32 engine's convolutions in TF32.

## Time it on a Jetson

1. Fix the clocks, after a look at the power modes of the board (`nvpmodel -q --verbose`; 0 is most
   often the one without a cap):

       sudo jetson_clocks --store
       sudo nvpmodel -m 0
       sudo jetson_clocks
       sudo jetson_clocks --show

2. Stop what else runs, the desktop too (`sudo systemctl isolate multi-user.target`), and watch the
   temperatures and clocks in another terminal: `tegrastats`.

3. Time the engine, warm, and keep every sample:

       trtexec --loadEngine=network-fp16.engine --warmUp=2000 --iterations=1000 --duration=0 \\
         --avgRuns=1 --useSpinWait --percentile=95 --exportTimes=times.json

   `median` under *Latency* counts the copies of input and output; *GPU Compute Time* does not. Both
   are of one inference, though `trtexec` puts the next into the queue while one runs: what the host
   needs to issue an inference is hidden behind the one before, and stands under *Enqueue Time*. In
   `times.json` the first rows are those of the warm-up (TensorRT 8; `--iterations` are the last).
   `--useSpinWait` takes the wake-up of a sleeping thread out of the times, and a core for itself:
   leave it out if your application sleeps. Repeat it three times: if the medians differ by more than a
   few percent, the clocks are not fixed or the board is not quiet.

4. `sudo jetson_clocks --restore` gives the clocks back.

The commands follow NVIDIA's documents and the sources of `trtexec` (TensorRT 8.2 to 11); they were not
run where this file was written.

## Search on the board itself

    python -m nas.search latency=probe device=ssh://<board> space=$space dataset=$dataset T=${limit}ms

times what the search proposes on the board while it searches, the best of it twice, and needs nothing
installed there but a runtime (`latency.runtime=tensorrt latency.precision=fp16` for such an engine).
It chooses its own networks; export its result with `python -m nas.export run=<its folder>`.
""")


def readme(found: Found, record: dict[str, Any]) -> str:
    """The file's text, from the network and what is in `export.json`."""
    here, check = record["this_machine"], record["checks"]["onnx"]
    values = {
        "arch": f"`{found.arch}`",
        "title": found.title,
        "space": found.space.name,
        "dataset": found.task.name,
        "named": {"sample": "a sample"}.get(found.named, f"the {found.named}"),
        "limit": f"{found.limit_ms:g}",
        "device": _in_table(found.device),
        "accuracy": _in_table(found.accuracy_text),
        "accuracy_source": _in_table(found.accuracy_source),
        "latency": _in_table(found.latency_text),
        "latency_source": _in_table(found.latency_source),
        "here": here_text(here),
        "comparison": record["comparison"],
        "parameters": f"{record['parameters']:,}",
        "shape": ", ".join(map(str, record["input_shape"])),
        "classes": str(found.task.num_classes),
        "error": f"{check['max_abs_error']:.2g}",
        "largest": f"{check['largest_logit']:.2g}",
        "tolerance": f"{check['tolerance']:g}",
        "seed": str(record["seed"]),
    }
    return _README.substitute(values)


def here_text(here: dict[str, Any]) -> str:
    """This machine's time in words."""
    unstable = "" if here["warm_up_was_stable"] else ", NOT stable after warm-up"
    return (
        f"median {here['median_ms']:.3f} ms, p95 {here['p95_ms']:.3f} ms (95 of 100 took no longer) of "
        f"{here['samples']} samples "
        f"({here['runtime']}, one thread{unstable}) on {plain(here['device'])}"
    )


def _in_table(text: str) -> str:
    return text.replace("|", "/").replace("<", "(").replace("`", "'")
