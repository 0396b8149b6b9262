"""The original's administration over HTTP: `/webapi.htm?method=...`, so that its tools and scripts work here."""
