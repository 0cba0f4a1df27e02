"""QNN beyond the files that travel: errors explained, files looked into, the SDK's documentation read."""
