#!/usr/bin/env bash
# All that is to be done where a GPU can be had, in parts of at most ten minutes: is it right, how fast is it, does it learn.
#
#   benchmarks/gpu_session.sh [check] [bench] [train]      without an argument: all of them, 37 minutes at most
#
# PYTHON names an interpreter with torch for CUDA, Triton and what pyproject.toml asks for (default: .venv/bin/python, else python3);
# FlashDeBERTa is measured too where it is installed. OUT is where logs and results go, as they come (default:
# benchmarks/results/gpu_session). A part that OUT has finished is not done again; bench goes on where it was stopped. Nothing is
# downloaded.
set -uo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.." || exit
PYTHON=${PYTHON:-$([ -x .venv/bin/python ] && echo .venv/bin/python || command -v python3)}
OUT=${OUT:-benchmarks/results/gpu_session}
mkdir -p "$OUT"
export PYTHONPATH="$PWD/src:$PWD/tests${PYTHONPATH:+:$PYTHONPATH}" TRITON_INTERPRET=0 PYTHONUNBUFFERED=1
export RELPOS_RUNS=${RELPOS_RUNS:-$(mktemp -d)}
"$PYTHON" -c 'import sys, torch; sys.exit(not torch.cuda.is_available())' || {
  echo "gpu_session.sh needs a CUDA device that $PYTHON's torch can use; make test interprets the same programs on a CPU" >&2
  exit 1
}

part() { # NAME SECONDS COMMAND …: its output to a file and the screen
  [ -e "$OUT/$1.done" ] && { echo "== $1 is there"; return; }
  echo "== $1"
  if timeout "$2" "${@:3}" 2>&1 | tee "$OUT/$1.log"; then touch "$OUT/$1.done"; else echo "== $1 failed: $OUT/$1.log"; return 1; fi
}

bench() { part bench 570 "$PYTHON" benchmarks/gpu.py --repeats 10 --out "$OUT" --resume; }

train() { # LABEL SECONDS ARGUMENT …: a pre-training on the embedded language; its log goes to OUT, whether it is finished or not
  part "train_$1" "$2" env RELPOS_RUNS="$RELPOS_RUNS/$1" "$PYTHON" -m relpos.cli pretrain size=small position=composite precision=bf16 packing=document batch=256 \
    length=128 log_every=100 evaluations=1 "${@:3}" || failed=1
  for log in "$RELPOS_RUNS/$1"/pretrain/*/metrics.jsonl; do [ -e "$log" ] && cp "$log" "$OUT/$1.jsonl"; done
}

failed=0 # a failure is counted, the rest goes on
for argument in ${*:-check bench train}; do
  case $argument in
    check) # every kind of term in float32 and bfloat16, every preset, graphs; what is wrong is listed to the end
      part check 580 env RELPOS_FULL=1 "$PYTHON" -m pytest -q -rf tests/model/test_triton.py tests/train/test_recorded.py tests/model/test_proof.py || failed=1 ;;
    bench) bench || bench || failed=1 ;; # what the first time has no room for, the second does
    train) # fast and eager for 300 steps each, which should agree; then ten thousand steps on the fast path
      train fast_300 90 steps=300
      train eager_300 150 steps=300 speed.kernel=eager speed.graphs=false
      train long 240 steps=10000 ;;
    *) echo "check, bench or train is expected, not $argument" >&2; exit 1 ;;
  esac
done
exit "$failed"
