"""What Android's linker says when a program cannot be linked, in place of glibc's ld.so.

Before ld.so runs, the linker service looks at the program's libraries with ld.so's own search rules and with
Android's demands: every library and every symbol has to be there from the start.
"""
