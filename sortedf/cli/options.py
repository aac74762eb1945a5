"""The options that several commands share, and how a backlog is loaded by them."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import asdict, dataclass, fields, is_dataclass
from functools import wraps
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple, TypeVar, get_type_hints

import typer

from sortedf.cli.console import Console
from sortedf.cli.quantities import parse_tokens
from sortedf.errors import OptionError

T = TypeVar("T")

if TYPE_CHECKING:
    from sortedf.model import Instance, Request


def parsed(parse: Callable[[str], T]) -> Callable[[str | T], T]:
    """Make a parser of the command line out of one whose errors are ValueErrors of one line."""

    def parser(text: str | T) -> T:
        if not isinstance(text, str):
            return text  # the default, already a value
        try:
            return parse(text)
        except ValueError as error:
            raise typer.BadParameter(str(error)) from None

    return parser


def quantity(flag: str, parse: Callable[[str], int], metavar: str, help: str) -> Any:
    """Build an option whose text is a quantity with a unit."""
    return typer.Option(flag, parser=parsed(parse), metavar=metavar, help=help)


BacklogFile = Annotated[
    str | None,
    typer.Argument(
        metavar="BACKLOG",
        help="CSV, JSONL, trace, ShareGPT or OpenAI batch file, also gzipped; - is stdin. "
        "Left out: the packaged example.",
        show_default=False,
    ),
]
KvTokens = Annotated[
    int | None,
    quantity("--kv-tokens", parse_tokens, "M", "KV budget in tokens: 16492, 16k, 16Ki."),
]
Workers = Annotated[
    str | None,
    typer.Option(
        "--workers",
        metavar="R|FILE",
        help="Plan for R workers of --kv-tokens each, or for those of a file.",
        show_default="1",
    ),
]
Arrivals = Annotated[
    bool, typer.Option("--arrivals", help="Turn time stamps into releases: steps from the first.")
]
StepSeconds = Annotated[float, typer.Option(metavar="S", help="Seconds of a step, for --arrivals.")]
SkipBadLines = Annotated[
    bool, typer.Option("--skip-bad-lines", help="Leave bad lines out; list and count them.")
]
SkipOversized = Annotated[
    bool,
    typer.Option(
        "--skip-oversized", help="Leave requests over the budget out; list and count them."
    ),
]
Tokenizer = Annotated[
    str | None,
    typer.Option(metavar="PATH", help="Local tokenizer for the prompts of a batch file."),
]
PromptTokens = Annotated[
    str | None,
    typer.Option(metavar="chars/4", help="Estimate prompt tokens of a batch file by characters."),
]
OutputTokens = Annotated[
    str | None,
    typer.Option(metavar="FILE|N", help="Output tokens of a batch file: by id, or a constant."),
]
BlockSize = Annotated[
    int,
    typer.Option(min=1, metavar="B", help="Plan safely for KV blocks of B tokens."),
]
Lookahead = Annotated[
    int | None,
    typer.Option(
        min=1,
        metavar="W",
        help="End a step after W requests that do not fit; 1 is strict.",
        show_default="1",
    ),
]
TimeLimit = Annotated[
    float | None,
    typer.Option(metavar="S", help="Seconds that a search gets.", show_default=False),
]
Seed = Annotated[int, typer.Option(min=0, metavar="K", help="Seed of what is drawn at random.")]
Json = Annotated[bool, typer.Option("--json", help="Print one JSON document on stdout.")]
Quiet = Annotated[bool, typer.Option("--quiet", "-q", help="No progress and no notes on stderr.")]


NoBound = Annotated[
    bool, typer.Option("--no-bound", help="Leave a plan without the lower bound of its backlog.")
]
CertificateFile = Annotated[
    str | None,
    typer.Option(
        "--certificate",
        metavar="FILE",
        help="Certificate of the bound; - is stdout.",
        show_default=False,
    ),
]


@dataclass(frozen=True)
class Reading:
    """How a backlog is read: options of :func:`sortedf.read_backlog`."""

    arrivals: Arrivals = False
    step_seconds: StepSeconds = 1.0
    tokenizer: Tokenizer = None
    prompt_tokens: PromptTokens = None
    output_tokens: OutputTokens = None
    skip_bad_lines: SkipBadLines = False


@dataclass(frozen=True)
class Backlog:
    """A backlog to plan, or the packaged example, and its budget."""

    backlog: BacklogFile = None
    kv_tokens: KvTokens = None
    workers: Workers = None
    block_size: BlockSize = 1
    skip_oversized: SkipOversized = False


def grouped(command: Callable[..., None]) -> Callable[..., None]:
    """Let each parameter of a command that is one of the above stand for its options."""
    hints = get_type_hints(command, include_extras=True)
    groups: dict[str, Any] = {name: hint for name, hint in hints.items() if is_dataclass(hint)}
    parameters = []
    for parameter in inspect.signature(command).parameters.values():
        options = [(parameter.name, parameter.default, hints[parameter.name])]
        if group := groups.get(parameter.name):
            own = get_type_hints(group, include_extras=True)
            options = [(field.name, field.default, own[field.name]) for field in fields(group)]
        parameters += [
            inspect.Parameter(
                name, inspect.Parameter.KEYWORD_ONLY, default=default, annotation=annotation
            )
            for name, default, annotation in options
        ]

    @wraps(command)
    def run(**values: Any) -> None:
        for name, group in groups.items():
            values[name] = group(**{field.name: values.pop(field.name) for field in fields(group)})
        command(**values)

    run.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    run.__annotations__ = {parameter.name: parameter.annotation for parameter in parameters}
    return run


class Loaded(NamedTuple):
    """A backlog ready to plan, and the oversized requests left out: (position, request)."""

    instance: Instance
    skipped: list[tuple[int, Request]]

    @property
    def positions(self) -> list[int]:
        """Where in the backlog the requests stood that are left out."""
        return [index for index, _ in self.skipped]


def read(backlog: str, kv_tokens: int, reading: Reading, console: Console) -> Instance:
    """Read a backlog; where that fails for single lines, say by what they are left out.

    Raises
    ------
    InputError
        As :func:`sortedf.read_backlog`.
    """
    from sortedf.errors import InputError
    from sortedf.instances import read_backlog

    try:
        with console.status(f"reading {backlog}"):
            return read_backlog(backlog, kv_tokens=kv_tokens, note=console.note, **asdict(reading))
    except InputError as error:
        if error.skippable:
            console.note("bad lines; --skip-bad-lines leaves them out:")
        raise


def load_backlog(given: Backlog, reading: Reading, console: Console) -> Loaded:
    """Read a backlog (or the packaged example) for planning; leave oversized requests out if asked.

    Raises
    ------
    OptionError
        Without a budget for a backlog of the user's.
    InputError
        As :func:`read`.
    InfeasibleError
        If requests are larger than the budget and are not to be left out, or all of them are.
    """
    from sortedf.cli.workers import put_on_workers, workers_file
    from sortedf.instances import example

    if [given.backlog, given.workers, reading.output_tokens].count("-") > 1:
        raise OptionError("only one of BACKLOG, --workers and --output-tokens can be stdin")
    backlog, listed = given.backlog, workers_file(given)
    kv_tokens = max(w.kv_tokens for w in listed) if listed else given.kv_tokens
    if backlog is None:
        if reading != Reading():
            raise OptionError("the packaged example takes no reading options; name a BACKLOG")
        instance = example()
        if kv_tokens is not None:
            instance = instance.replace(kv_tokens=kv_tokens)
        console.note(
            f"planning the packaged example: {len(instance)} requests, "
            f"KV budget {instance.kv_tokens:,} tokens"
        )
    elif kv_tokens is None:
        raise OptionError("--kv-tokens is missing: the KV budget in tokens (see sortedf kv-budget)")
    else:
        instance = read(backlog, kv_tokens, reading, console)
    instance = put_on_workers(instance, listed, given.workers)
    return within_budget(instance, given.block_size, given.skip_oversized, console)


def within_budget(instance: Instance, block_size: int, skip: bool, console: Console) -> Loaded:
    """Refuse requests over the budget, or leave them out; as :func:`load_backlog`."""
    import numpy as np

    from sortedf.errors import InfeasibleError, InvalidRequestError
    from sortedf.solvers import oversized_requests

    try:
        planned = instance.in_blocks(block_size)
    except InvalidRequestError as error:
        raise OptionError(f"--block-size: {error}") from None
    oversized = oversized_requests(instance, block_size)
    if not oversized:
        return Loaded(instance, [])
    infeasible = InfeasibleError(oversized, planned.kv_tokens, block_size)
    if len(oversized) == len(instance):
        raise infeasible
    if not skip:
        console.note("no schedule can serve these; --skip-oversized leaves them out:")
        raise infeasible
    for line in str(infeasible).splitlines():
        console.note(f"left out: {line}")
    noun = "request" if len(oversized) == 1 else "requests"
    console.note(f"{len(oversized)} {noun} over the budget left out")
    out = [i for i, _, _ in oversized]
    kept = instance.select(np.delete(np.arange(len(instance)), out))
    return Loaded(kept, [(i, instance[i]) for i in out])
