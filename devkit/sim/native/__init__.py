"""Machine code of the phone's own: two small programs without a C library, built beforehand.

`prebuilt/` holds them for both processors, so that no machine that runs a phone needs a compiler;
`python -m devkit.sim.native.build` makes them again from the C files here.
"""
