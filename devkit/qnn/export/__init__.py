"""MNN's export for the NPU, run in a private folder, step by step, and swapped in whole (docs/qnn.md)."""
