"""What every command shows and how it ends: tables, progress, pictures, problems, Ctrl-C."""
