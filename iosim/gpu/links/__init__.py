"""Several GPUs: schedules of `iosim.devices` run by processes, one for each, and their links."""
