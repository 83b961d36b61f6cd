"""The command line, ``hgr-jax``.

* `__main__`: the program, which obeys Ctrl-C (`interrupts`) while it loads;
* `main`: from options to the command that they are of;
* `options`: the options of every command;
* `scan`, `pair`, `fair`, `predict`: what each command prints and writes;
* `report`: from a scan to its page, which `html` writes;
* `outputs`: files of earlier runs, and what is shown while a command works.
"""
