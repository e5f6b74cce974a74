"""Labs: small live experiments; each is a table of controls and a picture."""
