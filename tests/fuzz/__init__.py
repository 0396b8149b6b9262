"""Bytes from strangers against whatever reads them: targets, their corpus, and two ways to vary it."""
