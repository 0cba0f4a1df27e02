"""What a phone does when a program dies of a signal: debuggerd's reports, with true numbers.

The program's own handler (native/linker_hook.c) tells the service and waits; a process of the service stops
the program's threads, unwinds them by their call frame information, and writes the report.
"""
