"""Is my slack there? The verdict on what an API server shows: `status` reads, and judges nothing itself. Pure."""
