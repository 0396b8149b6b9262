"""Settings, and the roles put together: in one process, as child processes, or embedded in a program."""
