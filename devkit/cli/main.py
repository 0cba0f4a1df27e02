"""The lazy command group, the options every command has, and the one error handler."""

from __future__ import annotations

import errno
import os
import signal
import sys
from collections.abc import Sequence
from importlib import import_module
from typing import Any

import typer
from typer.core import TyperGroup

from devkit import errors, output
from devkit.cli.commands import COMMANDS
from devkit.errors import DevkitError

# typer carries its own copy of click from 0.26 on; earlier ones use the package. Ask typer.
_ClickError = next(c for c in typer.BadParameter.__mro__ if c.__name__ == "ClickException")
_NoSubcommand = "NoArgsIsHelpError"


def run(argv: Sequence[str]) -> int:
    """Run one command line and return the exit code; every error becomes a message here."""
    sink = output.install(output.Output())
    sink.debug = bool(os.environ.get("DEVKIT_DEBUG"))
    _end_cleanly_on_signals()
    # A usage error is found before --json is parsed; a script that asked for JSON still gets it.
    before_dashes = list(argv)[: list(argv).index("--")] if "--" in argv else list(argv)
    sink.json_mode = "--json" in before_dashes
    try:
        result = _root()(args=list(argv), prog_name="devkit", standalone_mode=False)
        return result if isinstance(result, int) else 0
    except typer.Exit as stop:
        return int(getattr(stop, "exit_code", 0))
    except (_Interrupted, KeyboardInterrupt, typer.Abort):
        return _interrupted(sink)
    except _Terminated as stop:
        return 128 + stop.number
    except _ReaderGone:
        return _reader_gone()
    except DevkitError as error:
        _show_traceback(sink)
        sink.error(error)
        return error.exit_code
    except Exception as error:
        if isinstance(error, _ClickError):
            return _usage_error(error, before_dashes)
        if _comes_from_ctrl_c(error):
            return _interrupted(sink)
        _show_traceback(sink)
        sink.error(_own_fault(error))
        return errors.EXIT_DEVKIT_FAILED


class _Interrupted(BaseException):
    """Ctrl-C, in a form that typer does not turn into an exit without a word."""


class _ReaderGone(BaseException):
    """The reader of our output (head, less) has gone; typer would make it exit code 1."""


class _Terminated(BaseException):
    """SIGTERM or SIGHUP: unwinds like Ctrl-C, so that everything is ended and removed."""

    def __init__(self, number: int) -> None:
        super().__init__(number)
        self.number = number


def _end_cleanly_on_signals() -> None:
    """A closed terminal, a broken ssh, a `kill`: programs and files are cleaned up before the end."""

    def terminate(number: int, _frame: Any) -> None:
        raise _Terminated(number)

    for name in ("SIGTERM", "SIGHUP"):
        number = getattr(signal, name, None)
        # nohup has SIGHUP ignored; that wish is respected.
        if number is not None and signal.getsignal(number) == signal.SIG_DFL:
            signal.signal(number, terminate)


def _interrupted(sink: output.Output) -> int:
    if sink.json_mode:
        sink.error(DevkitError("interrupted", exit_code=errors.EXIT_INTERRUPTED))
    else:
        sink.note("interrupted")
    return errors.EXIT_INTERRUPTED


def _comes_from_ctrl_c(error: BaseException | None) -> bool:
    """Python turns a Ctrl-C in the middle of making a class into a RuntimeError."""
    while error is not None:
        if isinstance(error, KeyboardInterrupt):
            return True
        error = error.__cause__ or error.__context__
    return False


def _reader_gone() -> int:
    """128 + SIGPIPE, as every program that writes into a closed pipe."""
    # Keeps the interpreter from complaining at exit about what is still in its buffers.
    null = os.open(os.devnull, os.O_WRONLY)
    for stream in (sys.stdout, sys.stderr):
        os.dup2(null, stream.fileno())
    return 128 + getattr(signal, "SIGPIPE", 13)


# What a machine's state, not a fault of devkit, makes of a file operation.
_REFUSALS = (
    errno.EACCES, errno.EPERM, errno.EROFS, errno.ENOSPC, errno.EDQUOT, errno.ENOTDIR, errno.EISDIR,
    errno.ENAMETOOLONG, errno.ELOOP, errno.EMFILE, errno.ENFILE, errno.EIO,
)  # fmt: skip


def _own_fault(error: Exception) -> DevkitError:
    """The error for an exception that no room has explained."""
    import traceback

    if isinstance(error, OSError) and error.errno in _REFUSALS:
        name = os.fsdecode(error.filename) if isinstance(error.filename, (str, bytes)) else ""
        reason = os.strerror(error.errno)
        return errors.FileError(
            f"{name} cannot be used: {reason}" if name else f"a file cannot be used: {reason}",
            evidence=str(error) if not name else None,
            hints=_place_hints(name),
        )
    return DevkitError(
        f"devkit itself failed: {type(error).__name__}: {error}",
        evidence="".join(traceback.format_tb(error.__traceback__)[-2:]),
        hints=["run it again with --debug and report the traceback: this is a fault of devkit"],
    )


def _place_hints(name: str) -> list[str]:
    import shlex
    from pathlib import Path

    from devkit import paths

    if not name:
        return ["check the free space: df -h"]
    # The refused one may be a folder above that could not be made, and is above several then.
    concerned = [
        variable
        for variable, folder in (
            ("XDG_STATE_HOME", paths.state_dir()),
            ("XDG_CACHE_HOME", paths.cache_dir()),
            ("XDG_CONFIG_HOME", paths.config_dir()),
            ("XDG_DATA_HOME", paths.data_dir()),
        )
        if folder.is_relative_to(name) or Path(name).is_relative_to(folder)
    ]
    above = (path for path in (Path(name), *Path(name).parents) if os.path.lexists(path))
    place = shlex.quote(str(next(above, name)))
    hints = [f"check the permissions and the free space there: ls -ld {place}; df {place}"]
    if concerned:
        hints.insert(0, f"{'=… '.join(concerned)}=/another/folder devkit … keeps it elsewhere")
    return hints


def _show_traceback(sink: output.Output) -> None:
    if sink.debug:
        import traceback

        sink.note(traceback.format_exc())


class LazyGroup(TyperGroup):
    """Knows all commands by a static table; imports a command's module only when it is run."""

    def list_commands(self, ctx: Any) -> list[str]:
        return list(COMMANDS)

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        entry = COMMANDS.get(cmd_name)
        if entry is None:
            return None
        app: typer.Typer = import_module(f"devkit.cli.{entry.module}").app
        command: Any = typer.main.get_command(app)
        command.name = cmd_name
        _add_common_options(command, entry.json)
        _tidy_help(command)
        return command

    def invoke(self, ctx: Any) -> Any:
        try:
            return super().invoke(ctx)
        except BrokenPipeError:
            raise _ReaderGone from None
        except KeyboardInterrupt:
            raise _Interrupted from None

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        if args and not args[0].startswith("-") and args[0] not in COMMANDS:
            from devkit.config import nearest

            guess = nearest(args[0], list(COMMANDS))
            raise errors.UsageError(
                f"there is no command `devkit {args[0]}`",
                hints=[*([f"devkit {guess}"] if guess else []), "devkit --help lists all commands"],
            )
        return super().resolve_command(ctx, args)

    def format_commands(self, ctx: Any, formatter: Any) -> None:
        with formatter.section("Commands"):
            formatter.write_dl([(name, entry.help) for name, entry in COMMANDS.items()])


def _root() -> Any:
    app = typer.Typer(
        cls=LazyGroup,
        help="From C++ on a server to a breakpoint on the phone.",
        epilog="Start here: `devkit demo` shows all of it on a virtual phone; `devkit init` in your engine.",
        rich_markup_mode=None,
        pretty_exceptions_enable=False,
        no_args_is_help=True,
        add_completion=True,
        context_settings={"help_option_names": ["-h", "--help"]},
    )

    def show_version(asked: bool) -> None:
        if asked:
            from devkit import __version__

            output.current().data({"version": __version__}, f"devkit {__version__}")
            raise typer.Exit

    @app.callback()
    def _callback(
        version: bool = typer.Option(
            False, "--version", help="Show the version and exit.", is_eager=True, callback=show_version
        ),
    ) -> None: ...

    command: Any = typer.main.get_command(app)
    command.params += _common_options()
    return command


def _tidy_help(command: Any) -> None:
    """Completion is installed once, for devkit; lists of subcommands show whole sentences."""
    command.params = [p for p in command.params if p.name not in ("install_completion", "show_completion")]
    for sub in getattr(command, "commands", {}).values():
        sub.short_help = (sub.help or "").partition("\n\n")[0]
        _tidy_help(sub)


def _add_common_options(command: Any, with_json: bool) -> None:
    subcommands = getattr(command, "commands", None)
    if subcommands:
        for sub in subcommands.values():
            _add_common_options(sub, with_json)
        return
    taken = {name for parameter in command.params for name in parameter.opts}
    for option in _common_options():
        if not taken & set(option.opts) and (with_json or "--json" not in option.opts):
            command.params.append(option)


def _common_options() -> list[Any]:
    """The options of every command, as typer itself builds them (its classes are not public)."""

    def option(name: str, value: Any, help_text: str, *declarations: str) -> Any:
        def apply(given: bool) -> bool:
            if given:
                setattr(output.current(), name, value)
            return given

        return typer.Option(False, *declarations, help=help_text, callback=apply, expose_value=False)

    carrier = typer.Typer(add_completion=False)

    @carrier.command()
    def _carrier(
        common_json: bool = option("json_mode", True, "Print the result (or the error) as JSON.", "--json"),
        common_quiet: bool = option("quiet", True, "No notes and no progress.", "-q", "--quiet"),
        common_verbose: bool = option("verbosity", 1, "Show the programs devkit runs.", "-v", "--verbose"),
        common_debug: bool = option("debug", True, "Show the traceback of an error.", "--debug"),
    ) -> None: ...

    command: Any = typer.main.get_command(carrier)
    return [parameter for parameter in command.params if parameter.name.startswith("common_")]


def _usage_error(error: Any, argv: Sequence[str]) -> int:
    context: Any = getattr(error, "ctx", None)
    if type(error).__name__ == _NoSubcommand:
        sys.stdout.write(context.get_help() + "\n")
        return errors.EXIT_USAGE
    command = context.command_path if context is not None else _command_in(argv)
    output.current().error(
        errors.UsageError(f"{command}: {error.format_message()}", hints=[f"{command} --help"])
    )
    return errors.EXIT_USAGE


def _command_in(argv: Sequence[str]) -> str:
    """The command that a line means, where the parser gave up before it said so (an option without value)."""
    words, group = ["devkit"], _root()
    for word in (word for word in argv if not word.startswith("-")):
        group = group.get_command(None, word) if hasattr(group, "get_command") else None
        if group is None:
            break
        words.append(word)
    return " ".join(words)
