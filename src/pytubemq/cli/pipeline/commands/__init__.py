"""The subcommands of `pytubemq pipeline`, one file each."""
