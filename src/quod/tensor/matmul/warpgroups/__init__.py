"""Matrix products by warpgroups (wgmma), with tiles copied by the TMA unit."""
