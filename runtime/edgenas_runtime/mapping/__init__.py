"""Networks on the units of a platform: a timing table in, a mapping and the time left over out."""
