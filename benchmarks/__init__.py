"""`python -m benchmarks NAME [--quick] [--json]`: peer and devkit in turn, in one process tree."""
