"""Whom we tell: messages and the ways they travel."""
