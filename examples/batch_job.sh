#!/bin/sh
# From an OpenAI batch file to answers and a report:
#
#     sh examples/batch_job.sh FOLDER
#
# The same once more goes on where it stopped. It runs anywhere: the engine `replay` does what vLLM
# would do and when, and answers with empty texts. For real answers change two words: replay to
# vllm, my-model to the folder of a model (and count prompts by its tokenizer:
# TOKENS="--tokenizer $MODEL").
set -eu

ENGINE=replay
MODEL=my-model
TOKENS="--prompt-tokens chars/4"
KV_TOKENS=20000            # of the GPU: sortedf kv-budget says
STEPTIME=qwen3-8b-h100     # or what sortedf calibrate made of an earlier run

examples=$(dirname "$0")
mkdir -p "${1:?give a folder}"
if [ -e "$1/run/manifest.json" ]; then
    cd "$1"
    sortedf run --resume run   # a run that was stopped goes on
else
    python "$examples/make_batch.py" "$1/batch.jsonl" 200 "$MODEL"
    cd "$1"

    # Plan, and say how far from the best the plan can be.
    sortedf solve batch.jsonl --kv-tokens $KV_TOKENS --block-size 16 $TOKENS -o plan.json
    sortedf report plan.json -o plan.html

    # Run: a line of run/output.jsonl for each request, as it is answered.
    sortedf run plan.json batch.jsonl --engine $ENGINE --model "$MODEL" --steptime $STEPTIME -o run
fi

# Predicted against realized.
sortedf validate run -o run.html

echo "$(wc -l < run/output.jsonl) answers in $1/run/output.jsonl, the first:"
head -n 1 run/output.jsonl
