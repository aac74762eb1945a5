"""Room kept for predicted outputs, held against a look at every later call, one by one."""

from __future__ import annotations

from dataclasses import dataclass, field

from hypothesis import given, settings
from hypothesis import strategies as st
from naive_planned import Job, TwinCase, twin_cases

from sortedf.runner.limits import Course, Group, Limits
from sortedf.runner.room import Room

AMPLE = 10**6


def limits(blocks: int, *groups: Group, late: bool = False, budget: int = AMPLE) -> Limits:
    """Give an engine whose token budget takes whatever waits, unless it is said."""
    return Limits(blocks, groups, budget, 0, AMPLE, late)


@dataclass(eq=False)
class Sequence:
    """A request on a small engine."""

    job: Job
    known: int = field(init=False)
    computed: int = 0

    def __post_init__(self) -> None:
        self.known = self.job.prompt

    @property
    def last(self) -> int:
        return self.job.prompt + self.job.output - 1


def run(jobs: list[Job], room: Room, size: int, seats: int, lookahead: int) -> dict[int, int]:
    """Moment of the admission of each place, on an engine of one unit of time a step."""
    blocks, late = room.limits.blocks, room.limits.asynchronous
    waiting = sorted((Sequence(job) for job in jobs), key=lambda sequence: sequence.job.place)
    running: list[Sequence] = []
    leaving: list[Sequence] = []
    admitted: dict[int, int] = {}
    now = min(job.arrival for job in jobs)
    while waiting or running:
        room.begin(now, [s.computed for s in room.held], AMPLE)
        chosen = [s for s in running if s.computed < s.last]
        free = blocks - sum(-(-min(s.known, s.last) // size) for s in running)
        misfits = 0
        for one in [s for s in waiting if s.job.arrival <= now]:
            if len(running) == seats:
                break
            course = room.course(one.job.prompt, one.job.predicted, one.known, now, 0)
            needed = -(-one.known // size)
            if needed > free or not room.has_room(course, now, blocks):
                misfits += 1
                if misfits == lookahead:
                    break
                continue
            free -= needed
            room.hold(one, course, prompt=one.job.prompt, last=one.last, known=one.known, left=0)
            waiting.remove(one)
            running.append(one)
            chosen.append(one)
            admitted[one.job.place] = now
        ended = []
        for one in chosen:
            one.computed = one.known
            one.known += 1
            if one.computed == one.last:
                ended.append(one)
        for one in leaving if late else ended:
            room.release(one)
            running.remove(one)
        leaving = ended
        now += 1
    assert not room.held
    return admitted


@settings(max_examples=400)
@given(case=twin_cases())
def test_admissions_are_those_of_the_naive_twin(case: TwinCase) -> None:
    """Where prompts take one step and none is outlived: exactly what every later step admits."""
    room = Room(limits(case.blocks, Group(case.size), late=case.late))
    ours = run(case.jobs, room, case.size, case.seats, case.lookahead)
    assert ours == case.admissions()


def needed(engine: Limits, course: Course, call: int) -> int:
    """Blocks of one request at a call, group by group."""
    if call > course.until:
        return 0
    slots = min(call + course.shift, course.foreseen)
    return sum(min(-(-slots // size), most or AMPLE) for size, most in engine.groups)


@settings(max_examples=300)
@given(data=st.data())
def test_room_is_what_a_look_at_every_later_call_says(data: st.DataObject) -> None:
    """Whatever is held, given back and reckoned anew, windows and outlived predictions included."""
    groups = data.draw(
        st.sampled_from(
            [(Group(1),), (Group(4),), (Group(4), Group(4, 3)), (Group(16, 1), Group(2))]
        )
    )
    engine = limits(data.draw(st.integers(5, 120)), *groups, late=data.draw(st.booleans()))
    room = Room(engine)
    courses: dict[int, Course] = {}
    state: dict[int, tuple[int, int]] = {}  # prompt, known tokens
    for call in range(data.draw(st.integers(1, 12))):
        for one in [name for name in courses if data.draw(st.integers(0, 5), label="end") == 0]:
            room.release(one)
            del courses[one], state[one]
        ended = [one for one in courses if state[one][1] == engine.longest]
        for one in ended:
            room.release(one)
            del courses[one], state[one]
        known = [state[one][1] for one in room.held]
        assert room.begin(call, [tokens - 1 for tokens in known], AMPLE) == len(known)
        for one in courses:
            prompt, tokens = state[one]
            foreseen = courses[one].foreseen
            if tokens > foreseen:  # it doubles what it has generated, within the cache
                foreseen = min(tokens + tokens - prompt, engine.longest)
            end = call + foreseen - tokens + engine.asynchronous
            courses[one] = Course(foreseen, tokens - call, end)
        for number in range(data.draw(st.integers(0, 3))):
            prompt = data.draw(st.integers(1, min(20, engine.longest)))
            predicted = data.draw(st.integers(1, 30))
            course = room.course(prompt, predicted, prompt, call, 0)
            foreseen = min(prompt + predicted - 1, engine.longest)
            assert course == (
                foreseen,
                prompt - call,
                call + foreseen - prompt + engine.asynchronous,
            )
            # This call is looked at only where it is the last of the new one: blocks that are
            # free now are the engine's own concern.
            together = [*courses.values(), course]
            calls = {course.until, *range(call + 1, course.until)}
            fits = all(sum(needed(engine, c, k) for c in together) <= engine.blocks for k in calls)
            assert room.has_room(course, call, engine.blocks) == fits
            if fits or data.draw(st.booleans()):
                name = 100 * call + number
                room.hold(name, course, prompt=prompt, last=engine.longest, known=prompt, left=0)
                courses[name], state[name] = course, (prompt, prompt)
        assert set(room.held) == set(courses)
        passed_over = data.draw(st.sampled_from([None, *state]))
        if passed_over is not None:
            room.disturb()
        state = {
            one: (prompt, min(tokens + (one != passed_over), engine.longest))
            for one, (prompt, tokens) in state.items()
        }


def test_the_longest_sequence() -> None:
    """What fits into the cache, and into the model."""
    assert limits(10, Group(16)).longest == 160
    assert limits(10, Group(16), Group(16, 3)).longest == 7 * 16
    assert Limits(10, (Group(16),), 64, 0, 100, False).longest == 99


def test_a_prompt_in_chunks_keeps_its_room_for_longer() -> None:
    """By hand: 8 tokens a step, two that decode and one with 10 tokens to go."""
    room = Room(limits(100, Group(1), budget=8))
    for name in "ab":
        room.hold(name, Course(20, 5, 15), prompt=5, last=20, known=5, left=0)
    # 6 tokens a step are left: what is known is there after 3 calls, not after 1.
    assert room.course(20, 5, 20, 0, 14) == (24, 20, 3 + 4)
    room.hold("c", Course(30, 20, 15), prompt=20, last=30, known=20, left=10)
    # That one takes the rest of two steps before; then 5 a step are left.
    assert room.course(20, 5, 20, 0, 14) == (24, 20, 2 + 3 + 4)


def test_more_requests_than_the_table_first_holds() -> None:
    """It grows."""
    room = Room(limits(10**6, Group(1)))
    for name in range(200):
        room.hold(name, Course(10, 5, 5), prompt=5, last=10, known=5, left=0)
    for name in range(0, 200, 2):
        room.release(name)
    assert len(room.held) == 100
    assert room.has_room(Course(10, 5, 5), 0, 1010)
    assert not room.has_room(Course(10, 5, 5), 0, 1009)
