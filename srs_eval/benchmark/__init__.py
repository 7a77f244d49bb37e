"""Many users: stores, result files, leaderboards, checks, audits."""
