"""The phone's simpleperf: real samples of real processes in the real tool's file format.

Command line, messages and files follow system/extras/simpleperf of Android 10 to 15; what differs is in
docs/unverified.md.
"""
