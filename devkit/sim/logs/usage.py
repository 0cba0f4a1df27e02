"""What `logcat --help` says, in short: the options this logcat understands."""

USAGE = """
  Usage: logcat [OPTION]... [FILTERSPEC]...

  -b, --buffer=BUFFER         main system radio events crash kernel default all
  -c, --clear                 Clear the log and exit; with -f, the file.
  -d                          Dump the log and then exit.
      --pid=PID               Only messages of this process.
      --uid=UIDS              Only messages of these users.
  -v, --format=FORMAT         brief long process raw tag thread threadtime time, and any of
                              color descriptive epoch monotonic nsec printable uid usec UTC year zone
  -D, --dividers              Print dividers between buffers.
  -B, --binary                Output the log in binary.
  -f, --file=FILE             Log to FILE instead of stdout.
  -r, --rotate-kbytes=N       Rotate log every N KiB. Requires -f.
  -n, --rotate-count=N        Number of rotated logs, default 4.
  -g, --buffer-size           Get size of the ring buffers.
  -G, --buffer-size=SIZE      Set size of a ring buffer. May suffix with K or M.
  -S, --statistics            Output statistics.
  -p, --prune                 Get prune rules.
  -P, --prune='<list> ...'    Set prune rules: UID, UID/PID, /PID, with ~ in front for those to be
                              pruned first; ~! is the worst UID, ~1000/! the worst PID of system;
                              default, disable.
  -L, --last                  Dump the logs of before the last reboot.
  -s                          Set default filter to silent (like '*:S').
  -e, --regex=EXPR            Only messages matching the regular expression.
  -m, --max-count=N           Exit after printing N messages.
      --print                 With -e and -m, print all, but count what matches.
  -t N, -t TIME               The last N messages, or those since TIME (implies -d).
  -T N, -T TIME               The same without -d. TIME is 'MM-DD hh:mm:ss.mmm',
                              'YYYY-MM-DD hh:mm:ss.mmm' or 'sssss.mmm'.

  FILTERSPEC is <tag>[:priority], with V D I W E F S; '*' stands for all tags. Without any,
  ANDROID_LOG_TAGS is used. ANDROID_PRINTF_LOG is the default for -v.
"""
