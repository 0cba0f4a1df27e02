"""One's own graph through the SDK's tools: converted, run on a phone's backends, compared (docs/qnn.md)."""
