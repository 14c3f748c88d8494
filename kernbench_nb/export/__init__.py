"""A run as files that other tools read. Each module is imported when it is used; see `RunResult`'s ``to_`` methods."""
