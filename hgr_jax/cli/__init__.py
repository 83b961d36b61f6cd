"""The command line, ``hgr-jax``.

* `__main__`: the program, which ends at once on Ctrl-C;
* `main`: runs the command that the options name;
* `options`: the options of every command;
* `scan`, `pair`, `audit`, `demo`: what each command prints and writes;
* `outputs`: protects files of earlier runs, and shows progress.
"""
