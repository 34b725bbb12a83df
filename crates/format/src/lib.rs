//! Bytes on disk: superblock, journal, checkpoint
