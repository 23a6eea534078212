"""What every wing stands on: errors, tables, files, progress, names that were replaced."""
