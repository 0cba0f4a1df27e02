"""Machine code for the phone: a library that makes a program wait for its debugger, built beforehand.

`prebuilt/` holds it for both processors; `python -m devkit.lldb.native.build` makes it again from wait.c.
"""
