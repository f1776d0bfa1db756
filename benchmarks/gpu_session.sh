#!/usr/bin/env bash
# All that is to be done where a GPU can be had, in parts of at most ten minutes: is it right, how fast is it, does it learn.
#
#   benchmarks/gpu_session.sh [check] [bench] [train]      without an argument: all of them
#
# PYTHON names an interpreter with torch for CUDA, Triton and what pyproject.toml asks for (default: .venv/bin/python, else python3).
# OUT is where logs and results go (default: benchmarks/results/gpu_session). Nothing is downloaded.
set -uo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
PYTHON=${PYTHON:-$([ -x .venv/bin/python ] && echo .venv/bin/python || command -v python3)}
OUT=${OUT:-benchmarks/results/gpu_session}
mkdir -p "$OUT"
export PYTHONPATH="$PWD/src:$PWD/tests${PYTHONPATH:+:$PYTHONPATH}" TRITON_INTERPRET=0 PYTHONUNBUFFERED=1
export RELPOS_RUNS=${RELPOS_RUNS:-$(mktemp -d)}
"$PYTHON" -c 'import sys, torch; sys.exit(not torch.cuda.is_available())' || {
  echo "gpu_session.sh needs a CUDA device that $PYTHON's torch can use; make test interprets the same programs on a CPU" >&2
  exit 1
}

part() { # NAME SECONDS COMMAND …: its output to a file and the screen; a failure is counted, the rest goes on
  echo "== $1"
  timeout "$2" "${@:3}" 2>&1 | tee "$OUT/$1.log" || { echo "== $1 failed: $OUT/$1.log"; failed=1; }
}

train() { # LABEL SECONDS ARGUMENT …: a pre-training on the embedded language
  part "train_$1" "$2" env RELPOS_RUNS="$RELPOS_RUNS/$1" "$PYTHON" -m relpos.cli pretrain size=small position=composite precision=bf16 packing=document batch=256 \
    length=128 log_every=100 evaluations=1 "${@:3}"
}

failed=0
for argument in ${*:-check bench train}; do
  case $argument in
    check) part check 540 "$PYTHON" -m pytest -q -x tests/model/test_triton.py tests/train/test_recorded.py tests/model/test_proof.py ;;
    bench) part bench 580 "$PYTHON" benchmarks/gpu.py --repeats 10 && cp benchmarks/results/gpu.* "$OUT/" ;;
    train) # fast and eager for 300 steps each, which should agree; then ten thousand steps on the fast path
      train fast_300 120 steps=300
      train eager_300 200 steps=300 speed.kernel=eager speed.graphs=false
      train long 240 steps=10000
      for run in "$RELPOS_RUNS"/*/pretrain/*; do cp "$run/metrics.jsonl" "$OUT/$(basename "${run%/pretrain/*}").jsonl"; done ;;
    *) echo "check, bench or train is expected, not $argument" >&2; exit 1 ;;
  esac
done
exit "$failed"
