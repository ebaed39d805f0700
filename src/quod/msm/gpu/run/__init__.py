"""MSMs as a whole: what is planned, kept, recorded and replayed for each kind of device."""
