"""Rule types, evaluation, and the one diff that becomes a patch. Pure: no I/O, no clock, standard library only."""
