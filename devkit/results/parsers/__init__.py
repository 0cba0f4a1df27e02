"""One parser a program; `devkit.results.registry` names them all."""
