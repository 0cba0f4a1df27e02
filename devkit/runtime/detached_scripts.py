"""The shell text of detached runs; what the files in their folder are is said in `detached`."""

from __future__ import annotations

# A pid alone proves nothing: numbers come again. Field 22 of /proc/PID/stat is when the process began,
# the 20th behind the name (proc(5)).
STATE = """\
d={dir}
pid=; began=; way=
[ -s "$d/session" ] && read -r pid began way < "$d/session"
alive() {{
  [ -n "$pid" ] || return 1
  line=
  {{ read -r line < "/proc/$pid/stat"; }} 2>/dev/null || return 1
  set -- ${{line##*) }}
  [ "${{20}}" = "$began" ] && [ "$1" != Z ]
}}
"""

# HUP stays ignored in the program, as under nohup: the link may break while it is being started.
START = """\
trap '' HUP
mkdir -p "$d" || exit 1
[ -z "$(find "$d/starting" -maxdepth 0 -mmin +1 2>/dev/null)" ] || rmdir "$d/starting"
mkdir "$d/starting" 2>/dev/null || {{ [ -d "$d/starting" ] && echo starting; exit; }}
if alive; then rmdir "$d/starting"; echo "running $pid"; exit; fi
[ ! -e "$d/log" ] || mv -f "$d/log" "$d/log.old"
rm -f "$d/session" "$d/exit"
printf '%s\\n' {cwd} {command} > "$d/about" && : > "$d/log" && : > "$d/started" || {{
  rmdir "$d/starting"
  exit 1
}}
{stdin}
{run} </dev/null >/dev/null 2>&1 &
i=0
while [ ! -s "$d/session" ] && [ $i -lt 50 ]; do sleep 0.1; i=$((i+1)); done
rmdir "$d/starting"
[ -s "$d/session" ] || {{ echo "no session"; exit; }}
# Long enough to see a program that the linker refuses.
i=0
while [ ! -e "$d/exit" ] && [ $i -lt 3 ]; do sleep 0.1; i=$((i+1)); done
echo started
"""

# The leader of the session waits for the program and remembers its exit code.
LEADER = """\
d={dir}
read -r line < /proc/$$/stat; set -- ${{line##*) }}
echo "$$ ${{20}} {way}" > "$d/session.new" && mv -f "$d/session.new" "$d/session" || exit
( {program} ) >> "$d/log" 2>&1 < {stdin}
code=$?
echo "$code $(date +%s)" > "$d/exit.new" && mv -f "$d/exit.new" "$d/exit"
"""

STATUS = """\
[ -e "$d/started" ] || { echo none; exit; }
# In this order: the exit code is there before the leader ends.
if alive; then echo "alive 1"; else echo "alive 0"; fi
echo "session $pid $way"
[ ! -s "$d/exit" ] || echo "exit $(cat "$d/exit")"
echo "log $(stat -c %s "$d/log" 2>/dev/null)"
echo "started $(stat -c %Z "$d/started")"
echo "now $(date +%s)"
echo about
cat "$d/about"
"""

# One open file for all of `cat`: each goes on where the last one ended. Looked at before reading:
# what was written until then is read afterwards.
LOGS = """\
exec 3< "$d/log" || exit 1
while :; do
  over={once}
  [ ! -e "$d/exit" ] && alive || over=1
  cat <&3
  [ -z "$over" ] || exit 0
  sleep 0.3
done
"""

# The leader is left to the last: it writes the exit code. A number that another process has now is
# no session of ours.
STOP = """\
[ -n "$pid" ] || exit 0
if ! alive && [ -e "/proc/$pid" ]; then exit 0; fi
signal_members() {
  found=
  for stat in /proc/[0-9]*/stat; do
    line=
    { read -r line < "$stat"; } 2>/dev/null || continue
    member=${line%% *}
    set -- ${line##*) }
    [ "$4" = "$pid" ] && [ "$member" != "$pid" ] && [ "$1" != Z ] || continue
    kill -"$signal" "$member" 2>/dev/null && found=1
  done
}
for try in TERM 0 0 0 0 0 0 0 0 0 0 KILL 0 KILL 0 KILL; do
  signal=$try
  signal_members
  [ -n "$found" ] || break
  sleep 0.1
done
i=0
while [ $i -lt 20 ] && alive; do sleep 0.1; i=$((i+1)); done
if alive; then kill -KILL "$pid"; sleep 0.1; fi
"""
