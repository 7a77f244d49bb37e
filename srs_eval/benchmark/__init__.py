"""Evaluate many users: stores, result files, leaderboards, checks and audits."""
