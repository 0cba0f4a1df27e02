"""Real servers and file trees that tests share."""
