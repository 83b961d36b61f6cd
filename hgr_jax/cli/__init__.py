"""The command line, ``hgr-jax``.

* `__main__`: the program, which obeys Ctrl-C (`interrupts`) while it loads;
* `main`: runs the command that the options name;
* `options`: the options of every command;
* `scan`, `pair`, `fair`, `audit`, `predict`: what each command prints and writes;
* `inputs`: selects the rows, and checks the columns, that a command trains on or measures;
* `outputs`: protects files of earlier runs, and shows progress.
"""
