//! The port to a cloud.
