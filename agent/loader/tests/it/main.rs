//! Headers and the seeds of the fuzz targets.
