"""Is the machine that answers the one that was meant? Strict, and no way around it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from devkit.errors import FileError
from devkit.tunnels import known_hosts
from devkit.tunnels.model import HostKeyQuestion, HostPlan, Prompts
from devkit.tunnels.way import Way

if TYPE_CHECKING:
    from devkit.tunnels.transport import Transport

_RSA_TYPES = ("rsa-sha2-512", "rsa-sha2-256")


def known_keys(plan: HostPlan, way: Way) -> known_hosts.KnownHosts:
    """What the known_hosts files say about this machine. Raises TunnelError."""
    name = plan.host_key_alias or known_hosts.known_as(plan.hostname, plan.port)
    try:
        found = known_hosts.load(name, (*plan.user_known_hosts, *plan.global_known_hosts))
    except FileError as error:
        raise way.error("config", error.what, error.evidence or "") from None
    if found.warnings:
        from devkit import output

        for line in found.warnings:
            output.current().warn(line)
    return found


def prefer(transport: Transport, known: tuple[str, ...]) -> None:
    """Ask for the key types that are known: a server has several, and shows one."""
    wanted = [name for kind in known for name in (_RSA_TYPES if kind == "ssh-rsa" else (kind,))]
    options = transport.get_security_options()
    usable = tuple(name for name in wanted if name in options.key_types)
    options.key_types = (*usable, *(name for name in options.key_types if name not in usable))


def check(
    transport: Transport,
    plan: HostPlan,
    way: Way,
    known: known_hosts.KnownHosts,
    prompts: Prompts,
    accept_new: bool,
) -> None:
    """Whether the key the server has just shown is the one we know; asks about an unknown one.

    Raises:
        TunnelError: "host-key-unknown", "host-key-changed" or "host-key-revoked".
    """
    key = transport.get_remote_server_key()
    # A host certificate wraps the plain key, and paramiko does not check its signature.
    key_type, blob = key.get_name(), key.asbytes()
    shown = known_hosts.fingerprint(blob)
    verdict = known.judge(key_type, blob)
    if verdict.state == "known":
        return
    if verdict.state == "revoked":
        raise way.error(
            "host-key-revoked",
            "its host key is marked as revoked",
            f"{key_type} {shown}\n{verdict.entries[0].place}: @revoked",
            ("do not connect; ask whoever runs the machine",),
        )
    if verdict.state == "changed":
        lines = [f"{entry.place}: {entry.key_type} {entry.fingerprint}" for entry in verdict.entries]
        raise way.error(
            "host-key-changed",
            f"the host key of {known.name} is not the one that is known: someone may be in between",
            f"shown: {key_type} {shown}\nknown: " + "\n       ".join(lines),
            (
                "ask whoever runs the machine whether its key was renewed",
                f"if so, forget the old one: ssh-keygen -f {verdict.entries[0].file} -R '{known.name}'",
            ),
        )
    authority = any(entry.marker == "@cert-authority" for entry in known.entries)
    _decide_unknown(plan, way, known.name, key_type, blob, prompts, accept_new, authority)


def _decide_unknown(
    plan: HostPlan,
    way: Way,
    name: str,
    key_type: str,
    blob: bytes,
    prompts: Prompts,
    accept_new: bool,
    authority: bool,
) -> None:
    shown = known_hosts.fingerprint(blob)
    file = plan.user_known_hosts[0] if plan.user_known_hosts else None
    automatic = accept_new or plan.strict in ("accept-new", "no")
    trusted = automatic or (
        plan.strict == "ask"
        and file is not None
        and prompts.trust(HostKeyQuestion(plan.hostname, name, key_type, shown, file))
    )
    if not trusted:
        note = "\n(its certificate authority is known, but devkit cannot check host certificates)"
        raise way.error(
            "host-key-unknown",
            f"the host key of {name} is not known yet",
            f"{key_type} {shown}" + (note if authority else ""),
            (
                # OpenSSH checks the certificate, so what it brings is the machine's own word.
                f"compare it with: ssh {plan.alias} 'cat /etc/ssh/ssh_host_*_key.pub' | ssh-keygen -lf -"
                if authority
                else f"compare it with: ssh-keygen -lf /etc/ssh/ssh_host_*_key.pub   (on {way.name})",
                "then say yes when asked on a terminal, or use --accept-new",
            ),
        )
    if file is not None:
        try:
            known_hosts.add(file, name, key_type, blob, hashed=plan.hash_known_hosts)
        except FileError as error:
            raise way.error("config", error.what, error.evidence or "") from None
