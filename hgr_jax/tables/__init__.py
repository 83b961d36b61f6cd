"""Tables: files read, columns of any kind made numbers and categories."""
