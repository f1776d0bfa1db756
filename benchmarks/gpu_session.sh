#!/usr/bin/env bash
# All that is to be done where a GPU can be had for a quarter of an hour, its start included: is it right, how fast is it, does it
# learn from real text.
#
#   benchmarks/gpu_session.sh [correct] [speed] [real] [order]      without an argument: the first three, 13 minutes at most
#
# correct  150 s: terms beside float64, every preset in training, the same bits each time           gpu_correct.py
# speed    150 s: steps, attention and kernels beside Hugging Face, FlexAttention and SDPA          gpu.py
# real     460 s: real pairs through `relpos reproduce`, killed and continued, then fine-tuned      gpu_real.py, RELPOS_DATA=FOLDER
# order    720 s: the rows of TABLE (default: when_order_small), one seed of all before the next    gpu_real.py, RELPOS_DATA=FOLDER
#
# Each part ends in its time (CORRECT, SPEED, REAL and ORDER are its seconds) and leaves what it has found, in at most eight files below
# OUT (default: benchmarks/results/gpu_session), and a table as the last of its output. What a part has not finished a second call
# goes on with, also in another session, where OUT has what the first one left.
#
# Where RELPOS_DATA is set its text is encoded while the first parts have the GPU. All parts share RELPOS_RUNS (default: a new folder).
#
# PYTHON names an interpreter with torch for CUDA, Triton, transformers and what pyproject.toml asks for (default: .venv/bin/python,
# else python3). REHEARSE=1 runs the parts at toy sizes on a CPU. Nothing is downloaded.
set -uo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.." || exit
PYTHON=${PYTHON:-$([ -x .venv/bin/python ] && echo .venv/bin/python || command -v python3)}
OUT=${OUT:-benchmarks/results/gpu_session}
mkdir -p "$OUT"
export PYTHONPATH="$PWD/src:$PWD/tests${PYTHONPATH:+:$PYTHONPATH}" PYTHONUNBUFFERED=1 HF_HUB_OFFLINE=1
rehearse=()
if [ -n "${REHEARSE:-}" ]; then
  rehearse=(--rehearse)
fi

part() { # NAME SECONDS MARGIN SCRIPT ARGUMENT …: nothing begins in the last MARGIN seconds, in which imports are counted too
  echo "== $1, $2 s at most"
  timeout --kill-after=10 "$2" "$PYTHON" "benchmarks/$4" --seconds "$(($2 - $3))" --out "$OUT" "${@:5}" "${rehearse[@]}" 2>&1 |
    tee -a "$OUT/session.log"
}

if [ -n "${RELPOS_DATA:-}" ] && [ -z "${REHEARSE:-}" ]; then
  RELPOS_RUNS=${RELPOS_RUNS:-$(mktemp -d)}
  export RELPOS_RUNS
  nice "$PYTHON" -m relpos.cli data data=files data.sample=500000 >>"$OUT/session.log" 2>&1 &
fi

failed=0 # a failure is counted, the rest goes on
for argument in ${*:-correct speed real}; do
  case $argument in
    correct) part correct "${CORRECT:-150}" 12 gpu_correct.py || failed=1 ;;
    speed) part speed "${SPEED:-150}" 25 gpu.py --resume || failed=1 ;;
    real) wait && part real "${REAL:-460}" 25 gpu_real.py || failed=1 ;;
    order) wait && part order "${ORDER:-720}" 25 gpu_real.py --table "${TABLE:-when_order_small}" || failed=1 ;;
    *) echo "correct, speed, real or order is expected, not $argument" >&2; exit 1 ;;
  esac
done
exit "$failed"
