"""`page`: the page of a scan for a browser, with the scripts and styles beside it."""
