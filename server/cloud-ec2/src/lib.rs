//! The real cloud.
