"""The page of a scan for a browser.

* `contents`: what the page shows;
* `page`: its HTML, with the scripts and styles beside it.
"""
