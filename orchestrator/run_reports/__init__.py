"""Find a run by its name, make its report, and write the files of the report."""
