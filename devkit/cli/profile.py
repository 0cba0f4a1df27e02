"""`devkit profile`: where a program's time goes."""

from __future__ import annotations

import typer

from devkit.cli import common
from devkit.cli import profile_report as reports
from devkit.errors import UsageError

app = typer.Typer(rich_markup_mode=None)


@app.command(epilog="Example: devkit profile --show last --html flames.html --annotate gemm")
def profile(
    show: reports.Show = None,
    compare: reports.Compare = None,
    html: reports.Html = None,
    csv: reports.Csv = None,
    speedscope: reports.Speedscope = None,
    firefox: reports.Firefox = None,
    folded: reports.Folded = None,
    annotate: reports.Annotate = None,
    tree: reports.Tree = False,
    top: reports.Top = 25,
    least: reports.LeastShare = 1.0,
    thread: reports.Threads = None,
    event: reports.EventName = None,
    engine: reports.Engine = None,
) -> None:
    """Report on recordings: flame graph, top functions, call tree, source lines, what differs.

    RUN is a recording's name or its beginning, `last`, `previous`, or a file.
    """
    from devkit.profiling.history import History

    config = common.load_config()
    history = History(config.root)
    request = reports.ReportRequest(
        html,
        csv,
        speedscope,
        firefox,
        folded,
        annotate,
        tree,
        top,
        least,
        tuple(thread or ()),
        event,
        tuple(engine or ()),
    )
    if compare is not None:
        before, after = (history.load(name) for name in compare)
        reports.compare(before, after, compare, request)
        return
    if show is None:
        raise UsageError("which recording?", hints=["devkit profile --show last"])
    reports.show(history.load(show), request, config.root)
