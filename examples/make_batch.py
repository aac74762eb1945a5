"""Write an OpenAI batch file of questions to summarise and to answer, as an example.

Run ``python examples/make_batch.py batch.jsonl [REQUESTS] [MODEL]``.
"""

from __future__ import annotations

import json
import random
import sys
from pathlib import Path

WORDS = ["order", "memory", "engine", "request", "token", "answer", "queue", "batch", "plan"]


def main(path: str, requests: int = 200, model: str = "my-model") -> None:
    """Write four short questions for each long text."""
    generator = random.Random(0)
    lines = []
    for number in range(requests):
        text = " ".join(generator.choices(WORDS, k=generator.randint(300, 900)))
        asked = f"Summarise in three sentences: {text}", generator.randint(40, 120)
        if generator.random() < 0.8:
            words = " and ".join(generator.sample(WORDS, 2))
            asked = f"Tell me about {words}.", generator.randint(20, 400)
        content, limit = asked
        body = {
            "model": model,
            "messages": [{"role": "user", "content": content}],
            "max_tokens": limit,
        }
        entry = {
            "custom_id": f"question-{number}",
            "method": "POST",
            "url": "/v1/chat/completions",
            "body": body,
        }
        lines.append(json.dumps(entry) + "\n")
    Path(path).write_text("".join(lines))


if __name__ == "__main__":
    if len(sys.argv) < 2:
        sys.exit("usage: make_batch.py FILE [REQUESTS [MODEL]]")
    path, *rest = sys.argv[1:]
    main(path, int(rest[0]) if rest else 200, *rest[1:])
