//! Paths on the disk.
