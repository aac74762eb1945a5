"""The engine's block pool with prefix caching: which block holds what, and which is reused next.

Free blocks form a list, the next to be reused first; a free block keeps its content until then, and
a request that needs this content takes the block back. Only two kinds of content are ever asked for
again: that of the leading blocks which all prompts share, and a preempted request's own.
"""

from __future__ import annotations

from sortedf.kernels.jit import lean_jit
from sortedf.kernels.replay_state import (
    AFTER,
    BEFORE,
    CONTENT,
    HELD,
    HOLDERS,
    MARKED,
    NONE,
    OWN,
    SHARED,
    TABLE,
    TWIN,
    Engine,
    IntArray,
    Rules,
)


@lean_jit
def find_hits(rules: Rules, engine: Engine, request: int, known: int) -> tuple[int, int]:
    """Leading blocks whose content is there, and how many of these are free. O(hits).

    The last known token is computed in any case, so that there is something to sample from.
    """
    hits, free = 0, 0
    while hits < (known - 1) // rules.block_size:
        block = engine.found[_content(engine.requests, request, hits)]
        if block == NONE:
            break
        if engine.blocks[block, HOLDERS] == 0:
            free += 1
        hits += 1
    return hits, free


@lean_jit
def take_hits(engine: Engine, request: int, hits: int) -> None:
    """Let a request, which holds nothing, hold the blocks that :func:`find_hits` found."""
    requests, blocks = engine.requests, engine.blocks
    for place in range(hits):
        block = engine.found[_content(requests, request, place)]
        if blocks[block, HOLDERS] == 0:
            _unlink(blocks, block)
        blocks[block, HOLDERS] += 1
        engine.table[requests[request, TABLE] + place] = block
    requests[request, MARKED] = hits


@lean_jit
def take_blocks(engine: Engine, request: int, held: int, more: int) -> None:
    """Take blocks from the front of the free list; their old content is lost. O(more)."""
    blocks = engine.blocks
    start = len(blocks) - 1
    for place in range(held, held + more):
        block = blocks[start, AFTER]
        _unlink(blocks, block)
        if blocks[block, CONTENT] != NONE:
            _forget(blocks, engine.found, block)
        blocks[block, HOLDERS] = 1
        engine.table[engine.requests[request, TABLE] + place] = block


@lean_jit
def mark(engine: Engine, request: int, full: int) -> None:
    """Let the first ``full`` blocks of a request be found by their content."""
    requests, blocks, found = engine.requests, engine.blocks, engine.found
    for place in range(requests[request, MARKED], full):
        block = engine.table[requests[request, TABLE] + place]
        content = _content(requests, request, place)
        blocks[block, CONTENT] = content
        if found[content] == NONE:
            found[content] = block
        else:
            last = found[content]
            while blocks[last, TWIN] != NONE:
                last = blocks[last, TWIN]
            blocks[last, TWIN] = block
    requests[request, MARKED] = max(full, requests[request, MARKED])


@lean_jit
def give_back(rules: Rules, engine: Engine, request: int) -> int:
    """Release what a request holds, its last block first; returns how many are free now."""
    requests, blocks = engine.requests, engine.blocks
    start = len(blocks) - 1
    front = start
    freed = 0
    for place in range(requests[request, HELD] - 1, -1, -1):
        block = engine.table[requests[request, TABLE] + place]
        blocks[block, HOLDERS] -= 1
        if blocks[block, HOLDERS] > 0:
            continue
        freed += 1
        if rules.fresh_first and blocks[block, CONTENT] == NONE:
            _link(blocks, block, front)
            front = block
        else:
            _link(blocks, block, blocks[start, BEFORE])
    requests[request, MARKED] = 0
    return freed


@lean_jit
def _content(requests: IntArray, request: int, place: int) -> int:
    return place if place < requests[request, SHARED] else requests[request, OWN] + place


@lean_jit
def _forget(blocks: IntArray, found: IntArray, block: int) -> None:
    content = blocks[block, CONTENT]
    if found[content] == block:
        found[content] = blocks[block, TWIN]
    else:
        other = found[content]
        while blocks[other, TWIN] != block:
            other = blocks[other, TWIN]
        blocks[other, TWIN] = blocks[block, TWIN]
    blocks[block, TWIN] = NONE
    blocks[block, CONTENT] = NONE


@lean_jit
def _unlink(blocks: IntArray, block: int) -> None:
    blocks[blocks[block, BEFORE], AFTER] = blocks[block, AFTER]
    blocks[blocks[block, AFTER], BEFORE] = blocks[block, BEFORE]


@lean_jit
def _link(blocks: IntArray, block: int, previous: int) -> None:
    following = blocks[previous, AFTER]
    blocks[block, BEFORE] = previous
    blocks[block, AFTER] = following
    blocks[previous, AFTER] = block
    blocks[following, BEFORE] = block
